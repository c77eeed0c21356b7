"""`autoq quantize`: a float32 ONNX model to int8 by onnxruntime."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from autoq.cli.options import Model, Output


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
        str, typer.Option(metavar="DTYPE", help="Type of activations: uint8 or int8.")
    ] = "uint8",
    format: Annotated[str, typer.Option(metavar="FORMAT", help="QDQ or QOperator.")] = "QDQ",
    per_tensor: Annotated[
        bool, typer.Option("--per-tensor", help="One weight scale a tensor, not a channel.")
    ] = False,
) -> None:
    """Quantise a float32 ONNX model to int8.

    Weights and activations become 8-bit integers, by onnxruntime's quantize_static.
    Without --calibration the ranges come from random numbers: good for timing, not for accuracy.
    """
    from autoq.paths import require_writable
    from autoq.quantization import quantize as quantize_model

    require_writable(output)
    # onnxruntime advises on its own scripts through the root logger.
    logging.getLogger().setLevel(logging.ERROR)
    quantize_model(model, calibration, output, not per_tensor, activation, format)
    if calibration is None:
        typer.echo(
            "warning: calibrated on random numbers; give --calibration for accuracy", err=True
        )
    typer.echo(f"wrote {output}")
