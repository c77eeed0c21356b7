"""`autoq record`: measures many configurations of workloads, for search and learning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoq.cli.options import (
    Hardware,
    InputShapes,
    Jobs,
    Registry,
    Target,
    host_of,
    kernel_cache,
    parse_shapes,
    registry_option,
)
from autoq.errors import InputError

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="[WORKLOAD|MODEL]",
        help="ONNX file, record file (.jsonl), workloads as JSON (.json), or one as JSON text.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FOLDER", help="Folder to write.")
]
Samples = Annotated[
    int, typer.Option(metavar="N", help="Configurations a workload, earlier runs included.")
]
Exhaustive = Annotated[bool, typer.Option("--exhaustive", help="All legal configurations.")]
Nearby = Annotated[
    bool, typer.Option("--nearby", help="Those around the templates' defaults, the nearest first.")
]
CompileOnly = Annotated[
    bool, typer.Option("--compile-only", help="Write kernels, for --compiled; needs no device.")
]
CompiledFolder = Annotated[
    Path | None,
    typer.Option("--compiled", metavar="FOLDER", help="Measure what --compile-only wrote."),
]
Known = Annotated[
    list[Path] | None,
    typer.Option(
        "--known", metavar="SPACES", help="With --compile-only: leave out what they hold."
    ),
]
Knowledge = Annotated[
    Path | None,
    typer.Option(
        "--knowledge", metavar="FILE", help="Draw half as this model of records predicts."
    ),
]
Again = Annotated[
    bool,
    typer.Option("--again", help="Measure what the spaces hold, too: its later time counts."),
]
Devices = Annotated[
    str, typer.Option("--devices", metavar="N,N", help="Numbers of the GPUs to measure on.")
]
Export = Annotated[
    str | None, typer.Option("--export", metavar="t4", help="Write each space as T4 JSON too.")
]
Tasks = Annotated[str, typer.Option(metavar="TASKS", help='"all" or numbers such as 0,2-5.')]
Timeout = Annotated[float, typer.Option(metavar="SECONDS", help="Time a candidate may run.")]
TimeBudget = Annotated[float | None, typer.Option(metavar="SECONDS", help="Time to measure for.")]
AtOnce = Annotated[
    int, typer.Option(metavar="N", help="Workloads in turn; 1 finishes one before the next.")
]
Repeat = Annotated[int, typer.Option(min=1, metavar="N", help="Timings a candidate.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the draws and of the inputs.")]


def record(
    source: Source = None,
    output: Folder = None,
    samples: Samples = 2000,
    exhaustive: Exhaustive = False,
    nearby: Nearby = False,
    compile_only: CompileOnly = False,
    compiled: CompiledFolder = None,
    target: Target = "auto",
    hardware: Hardware = None,
    known: Known = None,
    knowledge: Knowledge = None,
    again: Again = False,
    devices: Devices = "0",
    tasks: Tasks = "all",
    input_shapes: InputShapes = None,
    export: Export = None,
    timeout: Timeout = 10.0,
    time_budget: TimeBudget = None,
    at_once: AtOnce = 1,
    repeat: Repeat = 9,
    seed: Seed = 0,
    jobs: Jobs = 0,
    registry: Registry = None,
) -> None:
    """Measure many configurations of workloads, once each.

    Writes recorded spaces, which compare-search replays. Half of the configurations are uniform
    draws, the others the best by the templates' estimates and what lies beside those. With
    --knowledge half are what a model expects to be fast, and a quarter uniform draws.

    Ctrl-C stops with everything measured on disk; the same command goes on.
    """
    from autoq.measure.job import REGISTRY, load_registry
    from autoq.recorder import compile_spaces, measure_spaces, record_spaces
    from autoq.recording.options import RecordOptions
    from autoq.recording.summary import spaces_table
    from autoq.recording.workloads import given_workloads
    from autoq.tuning.task_numbers import task_numbers

    if output is None:
        raise InputError("--output: name the folder to write, e.g. -o spaces")
    if (source is None) == (compiled is None):
        raise InputError("give a model or workloads, or kernels with --compiled: one of the two")
    if compiled is not None and compile_only:
        raise InputError("--compile-only: the kernels of --compiled are there already")
    if compiled is not None and knowledge is not None:
        raise InputError("--knowledge: the kernels of --compiled are drawn already")
    if known and not compile_only:
        raise InputError("--known: is for --compile-only; otherwise put the spaces into --output")
    options = RecordOptions(
        samples=samples, exhaustive=exhaustive, nearby=nearby, compile_only=compile_only,
        devices=_numbers(devices), jobs=jobs, repeat=repeat, timeout=timeout,
        time_budget=time_budget, at_once=at_once, seed=seed,
        export=tuple(export.split(",")) if export else (),
        known=tuple(known or ()), knowledge=knowledge, again=again,
        cache_dir=kernel_cache(),
        **registry_option(registry),
    )  # fmt: skip
    host = host_of(target, hardware, options.devices[0])
    if source is None:
        found = measure_spaces(compiled, output, options, host, typer.echo)
    else:
        from autoq.devices import Host, resolve

        host = host if isinstance(host, Host) else resolve(host, options.devices[0])
        templates = list(load_registry(registry or REGISTRY).values())
        workloads = given_workloads(source, host.target, templates, parse_shapes(input_shapes))
        workloads = [workloads[i] for i in task_numbers(tasks, len(workloads))]
        if compile_only:
            compile_spaces(workloads, output, options, host, typer.echo)
            return
        found = record_spaces(workloads, output, options, host, typer.echo)
    typer.echo(spaces_table(found))
    if found.interrupted:
        raise typer.Exit(130)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--devices {text!r}: name GPUs by number, such as 0,1") from None
