"""The forms that a float32 ONNX model is tried in, made by onnxruntime's own quantisers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from autoq.models.weight_only import to_matmul_nbits
from autoq.quantization.quantize import quantize

Feeds = Mapping[str, np.ndarray]


def _static(plain: Path, feeds: Feeds, output: Path, format: str = "QDQ") -> None:
    quantize(plain, feeds, output, format=format)


def _operators(plain: Path, feeds: Feeds, output: Path) -> None:
    _static(plain, feeds, output, "QOperator")


def _dynamic(plain: Path, feeds: Feeds, output: Path) -> None:
    quantize_dynamic(plain, output, weight_type=QuantType.QInt8)


def _four_bits(plain: Path, feeds: Feeds, output: Path) -> None:
    onnx.save(to_matmul_nbits(onnx.load(plain)), str(output))


FORMS: dict[str, Callable[[Path, Feeds, Path], None]] = {
    "int8": _static,
    "qoperator": _operators,
    "dynamic": _dynamic,
    "4bit": _four_bits,
}
"""int8 and qoperator: quantize_static with scales a channel, as QDQ and as quantised operators;
dynamic: quantize_dynamic; 4bit: MatMulNBits in groups of 32."""


class NotMade(Exception):
    """A quantiser failed: there is no such form of the model."""


def made(plain: Path, feeds: Feeds, form: str) -> Path:
    """The path of a form of the model in `plain`, written unless it is there; NotMade otherwise."""
    if form == "float":
        return plain
    path = plain.with_suffix(f".{form}.model")
    if not path.exists():
        logging.disable(logging.WARNING)  # quantisers warn of every weight with one axis
        unfinished = path.with_suffix(".unfinished")
        try:
            FORMS[form](plain, feeds, unfinished)
        except Exception as error:  # failures of quantisers have no common class
            unfinished.unlink(missing_ok=True)
            raise NotMade(f"{path.name}: {type(error).__name__}: {error}") from error
        unfinished.rename(path)
    return path
