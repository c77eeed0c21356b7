"""`autoq quantize`: a float32 ONNX model to 8 or 4 bits by onnxruntime."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Annotated

import typer

from autoq.cli.options import Model, Output

_FATAL = 4
"""Of onnxruntime's severities."""


def quantize(
    model: Model,
    output: Output,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration",
            metavar="NPZ",
            help="Archive with an array of samples for every input.",
        ),
    ] = None,
    activation: Annotated[
        str, typer.Option(metavar="DTYPE", help="Type of activations: uint8, int8, uint4 or int4.")
    ] = "uint8",
    weights: Annotated[
        str, typer.Option(metavar="DTYPE", help="Type of weights: int8 or int4.")
    ] = "int8",
    format: Annotated[str, typer.Option(metavar="FORMAT", help="QDQ or QOperator.")] = "QDQ",
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="One weight scale a tensor, not a channel.")
    ] = False,
) -> None:
    """Quantise a float32 ONNX model to int8, or to 4 bits.

    Weights and activations become integers, by onnxruntime's quantize_static.
    Without --calibration the ranges come from random numbers: good for timing, not for accuracy.
    """
    from autoq.paths import require_writable
    from autoq.quantization.quantize import quantize as quantize_model
    from autoq.scratch import scratch_as_temporary_directory, sweep

    require_writable(output)
    _silence_onnxruntime()
    sweep()
    with scratch_as_temporary_directory():
        quantize_model(
            model, calibration, output, not per_tensor, activation, format, weights=weights
        )
    if calibration is None:
        typer.echo(
            "warning: calibrated on random numbers; give --calibration for accuracy", err=True
        )
    typer.echo(f"wrote {output}")


def _silence_onnxruntime() -> None:
    """Let the error that it raises say all that it logs, and advise nobody on its own scripts."""
    logging.getLogger().setLevel(logging.ERROR)
    with contextlib.suppress(ImportError):  # quantising tells that it is missing
        import onnxruntime

        onnxruntime.set_default_logger_severity(_FATAL)
