"""`autoq tune`: searches for the fastest kernels of a model and records every trial."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from autoq.cli.options import (
    Device,
    Hardware,
    InputShapes,
    Jobs,
    Knowledge,
    Model,
    NoShipped,
    Precision,
    Registry,
    Target,
    Threshold,
    Tolerance,
    TuningRecords,
    host_of,
    kernel_cache,
    parse_layouts,
    parse_shapes,
    registry_option,
    regular_file,
)
from autoq.errors import InputError

TUNERS = (
    "informed", "listed", "diverse", "annealing", "annealing-filtered", "metaschedule",
    "classifier", "tpe", "random",
)  # fmt: skip

RecordFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        callback=regular_file,
        help="Record file; one that exists is resumed.",
    ),
]
Trials = Annotated[
    int, typer.Option(metavar="N", help="Trials over all tasks, earlier runs included.")
]
Tuner = Annotated[str, typer.Option(metavar="NAME", help=f"{', '.join(TUNERS)}.")]
Tasks = Annotated[
    str, typer.Option(metavar="TASKS", help='"all", "list", or numbers such as 0,2-5.')
]
TrialsPerTask = Annotated[int | None, typer.Option(metavar="N", help="Most trials of one task.")]
EarlyStopping = Annotated[
    int | None,
    typer.Option(metavar="N", help="Leave a task after N trials without a better one."),
]
UntilGain = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="End where as many trials again should save less of the model's time; 0: never.",
    ),
]
Timeout = Annotated[float, typer.Option(metavar="SECONDS", help="Time a candidate may run.")]
TimeBudget = Annotated[float | None, typer.Option(metavar="SECONDS", help="Time of the whole run.")]
Repeat = Annotated[int, typer.Option(min=0, metavar="N", help="Timings a candidate; 0: enough.")]
Number = Annotated[int, typer.Option(min=0, metavar="N", help="Launches a timing; 0: enough.")]
Cold = Annotated[bool, typer.Option("--cold", help="Rotate buffers past the L2.")]
Layouts = Annotated[
    str,
    typer.Option(
        metavar="LAYOUTS",
        help="Layouts of activations to tune convolutions in, each pair of them: nhwc, nhwcnc.",
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the search and of the inputs.")]


def tune(
    model: Model,
    output: RecordFile = None,
    target: Target = "auto",
    hardware: Hardware = None,
    trials: Trials = 1000,
    tuner: Tuner = "informed",
    tasks: Tasks = "all",
    tuning_records: TuningRecords = None,
    input_shapes: InputShapes = None,
    no_shipped_records: NoShipped = False,
    trials_per_task: TrialsPerTask = None,
    early_stopping: EarlyStopping = None,
    until_gain: UntilGain = 0.01,
    timeout: Timeout = 10.0,
    time_budget: TimeBudget = None,
    repeat: Repeat = 0,
    number: Number = 0,
    cold: Cold = False,
    layouts: Layouts = "nhwc",
    seed: Seed = 0,
    jobs: Jobs = 0,
    device: Device = 0,
    registry: Registry = None,
    precision: Precision = None,
    threshold: Threshold = None,
    tolerance: Tolerance = None,
    knowledge: Knowledge = None,
) -> None:
    """Search for the fastest kernels of a model.

    --tasks list prints what there is to tune.

    Ctrl-C stops with everything measured on disk; the same command goes on where it stopped.
    """
    started = time.monotonic()
    from autoq.graph.precision import make_precision
    from autoq.report.progress import progress
    from autoq.report.tables import tasks_table
    from autoq.tuner import list_tasks
    from autoq.tuner import tune as tune_model

    shapes = parse_shapes(input_shapes)
    host = host_of(target, hardware, device)
    chosen_layouts = parse_layouts(layouts)
    records = [*(tuning_records or ())]
    asked = {"precision": precision, "threshold": threshold, "tolerance": tolerance}
    if tasks == "list":
        known = [*records, *([output] if output is not None and output.exists() else [])]
        rows = list_tasks(model, target=host, tuning_records=known, input_shapes=shapes,
                          use_shipped_records=not no_shipped_records,
                          layouts=chosen_layouts, precision=make_precision(**asked),
                          **registry_option(registry))  # fmt: skip
        typer.echo(tasks_table(rows))
        return
    if output is None:
        raise InputError("--output: name the record file to write, e.g. -o model.jsonl")
    with progress(sys.stdout) as on_event:
        summary = tune_model(
            model,
            trials=trials,
            output=output,
            target=host,
            tuning_records=records,
            input_shapes=shapes,
            on_event=on_event,
            tuner=tuner,
            tasks=tasks,
            trials_per_task=trials_per_task,
            early_stopping=early_stopping,
            until_gain=until_gain,
            timeout=timeout,
            time_budget=time_budget,
            started=started,
            repeat=repeat,
            number=number,
            cold=cold,
            layouts=chosen_layouts,
            seed=seed,
            jobs=jobs,
            cache_dir=kernel_cache(),
            device=device,
            knowledge=knowledge,
            **asked,
            **registry_option(registry),
        )
    if summary.reason == "interrupted":
        raise typer.Exit(130)
