"""`autoq compile`: a model and tuning records to an artifact."""

from __future__ import annotations

import typer

from autoq.cli.options import (
    Hardware,
    InputShapes,
    Jobs,
    Knowledge,
    Model,
    NoShipped,
    Output,
    Precision,
    Registry,
    Target,
    Threshold,
    Tolerance,
    TuningRecords,
    host_of,
    kernel_cache,
    parse_shapes,
    registry_option,
)


def compile(
    model: Model,
    output: Output,
    target: Target = "auto",
    hardware: Hardware = None,
    tuning_records: TuningRecords = None,
    input_shapes: InputShapes = None,
    no_shipped_records: NoShipped = False,
    jobs: Jobs = 0,
    registry: Registry = None,
    precision: Precision = None,
    threshold: Threshold = None,
    tolerance: Tolerance = None,
    knowledge: Knowledge = None,
) -> None:
    """Compile a model for a target.

    Says of every layer which record decided its kernel, or that none did.
    """
    from autoq.compilation.compiler import compile as compile_model
    from autoq.report.compiled import compile_text

    report = compile_model(
        model,
        target=host_of(target, hardware),
        output=output,
        tuning_records=tuning_records or (),
        input_shapes=parse_shapes(input_shapes),
        use_shipped_records=not no_shipped_records,
        cache_dir=kernel_cache(),
        jobs=jobs or None,
        precision=precision,
        threshold=threshold,
        tolerance=tolerance,
        knowledge=knowledge,
        **registry_option(registry),
    )
    typer.echo(compile_text(report))
