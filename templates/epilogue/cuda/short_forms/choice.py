"""The shortest form of requantisation that a layer's operands allow, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.epilogue.cuda.short_forms.allowed import convertible, readable
from autoq.templates.epilogue.cuda.short_forms.bounds import MAGIC_BITS, largest_total, limits
from autoq.templates.epilogue.cuda.short_forms.conversion import conversion_limits
from autoq.templates.epilogue.cuda.short_forms.one_scale import one_scale
from autoq.templates.epilogue.cuda.short_forms.read_sums import may_be_read, read_limits
from autoq.templates.epilogue.cuda.short_forms.words import CONVERTED, words_of


@dataclass(frozen=True)
class ShortForm:
    """The words that kernels read, the factor of the scales of all channels, where sums start.

    numbers: float32 [WORDS]; start: an int32 that the bias of every channel is added to; read:
    whether the form is `Form.READ`.
    """

    numbers: np.ndarray
    factor: float = 1.0
    start: int = 0
    read: bool = False


@dataclass(frozen=True)
class Operands:
    """What a proof needs: weight int8 [k, ...], bias int32 [..., k], scale float32 [k], scalars."""

    in_dtype: str
    weight: np.ndarray
    bias: np.ndarray
    scale: np.ndarray
    scalars: np.ndarray


def short_form(epilogue: Epilogue, operands: Operands) -> ShortForm:
    """Of an epilogue that `boundable` allows; the form is NEITHER where none is exact."""
    largest = largest_total(operands.in_dtype, operands.weight, operands.bias)
    if epilogue.uniform:
        scale = float(operands.scale[0])
        return ShortForm(words_of(one_scale(epilogue.out_dtype, scale, float(largest.max()))))
    for way in (_converted, _read):
        found = way(epilogue, operands, largest)
        if found is not None:
            return found
    return ShortForm(
        limits(
            epilogue, operands.in_dtype, operands.weight, operands.bias, operands.scale,
            operands.scalars,
        )
    )  # fmt: skip


def _converted(epilogue: Epilogue, operands: Operands, largest: np.ndarray) -> ShortForm | None:
    if not convertible(epilogue):
        return None
    found = conversion_limits(epilogue, tuple(map(float, operands.scalars)))
    if found is None:
        return None
    names = ["low", "high"]
    if epilogue.requantize_before_add:
        names = ["accumulator_low", "accumulator_high"]
    most = max(abs(float(operands.scalars[SCALAR_NAMES.index(name)])) for name in names)
    if not may_be_read(operands.scale, largest, most + 1):
        return None
    numbers = np.array([found], CONVERTED)
    return ShortForm(words_of(numbers), float(numbers["sign"][0]), MAGIC_BITS)


def _read(epilogue: Epilogue, operands: Operands, largest: np.ndarray) -> ShortForm | None:
    if not readable(epilogue):
        return None
    found = read_limits(epilogue, operands.scale, largest, operands.scalars)
    if found is None:
        return None
    numbers, factor = found
    return ShortForm(words_of(numbers), factor, MAGIC_BITS, read=True)
