"""`autoq gemm`: tunes one matrix product and reports it beside cuBLASLt, without any model."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autoq.cli.options import Device, Jobs, Target, TuningRecords, kernel_cache
from autoq.cli.tune import Cold, RecordFile, Seed, TimeBudget, Tuner

if TYPE_CHECKING:
    from autoq.devices import Host
    from autoq.report.events import TuneSummary
    from autoq.report.product import Line
    from autoq.templates.workload import Workload

Rows = Annotated[int, typer.Argument(metavar="M", help="Rows of A.", show_default=False)]
Columns = Annotated[int, typer.Argument(metavar="N", help="Columns of B.", show_default=False)]
Depth = Annotated[
    int, typer.Argument(metavar="K", help="Columns of A, rows of B.", show_default=False)
]
A = Annotated[
    str,
    typer.Option(
        "--a", metavar="TYPE", help="Of A [M, K]: s8, u8, s4, u4, f16, bf16, f32 or e4m3."
    ),
]
B = Annotated[
    str, typer.Option("--b", metavar="TYPE", help="Of B [K, N]; of floats and integers, either.")
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="TYPE", help="Of the result: s8, u8, s4, u4, s32, f16, bf16 or f32."
    ),
]
Group = Annotated[
    int, typer.Option(metavar="N", help="Values along K that share a scale; 0: a whole row.")
]
ZeroPoints = Annotated[bool, typer.Option("--zero-points", help="Integers have zero points.")]
Bias = Annotated[bool, typer.Option("--bias", help="Add a bias of floats.")]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Of sums: column, row or row,column; of integers, one; else the weight's.",
    ),
]
Residual = Annotated[
    str | None, typer.Option("--residual", metavar="TYPE", help="Added to the scaled sums.")
]
Batch = Annotated[int, typer.Option(metavar="N", help="Products of this shape.")]
Activation = Annotated[
    str, typer.Option(metavar="NAME", help="Behind the bias: none, relu, gelu, gelu_tanh or silu.")
]
Trials = Annotated[int, typer.Option(metavar="N", help="Trials, earlier runs included.")]


def gemm(
    m: Rows,
    n: Columns,
    k: Depth,
    a: A = "s8",
    b: B = "s8",
    out: Out = None,
    group: Group = 0,
    zero_points: ZeroPoints = False,
    bias: Bias = False,
    activation: Activation = "none",
    scale: Scale = None,
    residual: Residual = None,
    batch: Batch = 1,
    output: RecordFile = None,
    target: Target = "auto",
    trials: Trials = 256,
    tuner: Tuner = "informed",
    tuning_records: TuningRecords = None,
    time_budget: TimeBudget = None,
    cold: Cold = False,
    seed: Seed = 0,
    jobs: Jobs = 0,
    device: Device = 0,
) -> None:
    """Tune one product of matrices, on a GPU beside cuBLASLt.

    A [M, K] times B [K, N]. Where one is of floats, the other may be of narrow integers: that is
    the weight, whose values are scaled, in groups of K if wanted. Of two matrices of integers, B is
    the weight. Sums are scaled by the weight's columns, and by rows, whose scales are an input, if
    wanted. Batches of products of integers are of two inputs, with one scale, and each B lies
    column by column.

    Without --output the records of the trials are not kept.
    """
    started = time.monotonic()
    from autoq.cli.product_refusal import require_kernel
    from autoq.cli.product_workload import ProductRequest
    from autoq.devices import resolve
    from autoq.report.events import TuneSummary
    from autoq.report.product import product_text
    from autoq.report.progress import progress
    from autoq.templates.registry import matching
    from autoq.tuner import tune
    from autoq.tuning.task import roofline_seconds

    request = ProductRequest(
        m, n, k, a, b, out, group, zero_points, bias, activation, scale, residual, batch
    )
    workload = request.workload()
    host = resolve(target, device)
    require_kernel(
        request,
        host.target,
        lambda wanted: any(one.tunable for one in matching(wanted, host.target)),
    )
    with _record_file(output) as records, progress(sys.stdout) as on_event:
        summary = tune(
            [workload],
            trials=trials,
            output=records,
            target=host,
            tuning_records=[*(tuning_records or ())],
            on_event=lambda event: None if isinstance(event, TuneSummary) else on_event(event),
            tuner=tuner,
            time_budget=time_budget,
            started=started,
            cold=cold,
            seed=seed,
            jobs=jobs,
            cache_dir=kernel_cache(),
            device=device,
        )
    typer.echo(f"\n{request}, {workload.operations / 1e9:.3g} Gop")
    interrupted = summary.reason == "interrupted"
    beside: Line | str = "cuBLASLt: not timed"
    try:
        if not interrupted:
            beside = _cublaslt(workload, host, cold, device)
    except KeyboardInterrupt:  # the report of the trials is still due
        interrupted = True
    floor = roofline_seconds(workload, host.target)
    typer.echo(product_text(summary, _untuned(workload, host, summary), beside, floor))
    if output is not None:
        typer.echo(f"records in {output}")
    if interrupted:
        raise typer.Exit(130)
    if summary.rows[0].seconds is None:
        raise typer.Exit(1)


@contextmanager
def _record_file(output: Path | None) -> Iterator[Path]:
    """The record file, or one that is gone at the end."""
    if output is not None:
        yield output
        return
    from autoq.scratch import scratch_folder

    with scratch_folder() as folder:
        yield folder / "gemm.jsonl"


def _untuned(workload: Workload, host: Host, summary: TuneSummary) -> Line:
    """The kernel that is used without tuning."""
    from autoq.report.product import Line
    from autoq.search.knobs import plain_config
    from autoq.templates.registry import matching

    template = matching(workload, host.target)[0]
    config = plain_config(template.default(workload, host.target))
    return Line("untuned", summary.rows[0].default_seconds, template.name, config)


def _cublaslt(workload: Workload, host: Host, cold: bool, device: int) -> Line | str:
    """The library's time, or why there is none."""
    from autoq.libraries.beside import cublaslt_beside
    from autoq.measure.job import Timing
    from autoq.report.product import Line

    if host.target.kind != "cuda":
        return "cuBLASLt: none on a CPU"
    found = cublaslt_beside(workload, Timing(cold=cold), device)
    if isinstance(found, str):
        return f"cuBLASLt: {found}"
    how = f"{found.time.what}, the best of {found.time.tried}; {found.computed}"
    return Line(f"cuBLASLt {found.version}", found.time.seconds, how)
