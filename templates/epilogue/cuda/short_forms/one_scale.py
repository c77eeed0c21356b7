"""The numbers that uniform epilogues read, and for which scales `Form.ONE_SCALE` is exact.

Where all channels have one scale, and there is neither a bias nor a zero point, an output depends
on its sum alone and never falls where that grows. Accumulators start at the bits of a float
`origin` between 2**23 and 2**24, an integer, whose unit is 1: as long as they stay there they are
the bits of origin plus the sum, and the bits of more and of less are floats beyond. One fused
multiply-add takes origin times the scale away, and a saturating conversion rounds and clamps. Of
many origins that is taken whose product with the scale is nearest to a float, and each of the 255
steps of the output is tried on both of its sides.
"""

from __future__ import annotations

import functools

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue.cuda.short_forms.fused_multiply_add import fused_multiply_add
from autoq.templates.epilogue.cuda.short_forms.words import IS_ONE_SCALE, ONE_SCALE

_MIDDLE = 3 << 22
_AWAY = 1 << 15
"""How far from 1.5 * 2**23 origins are tried."""
_TRIED = 16
_LARGEST_STEP = (1 << 22) - _AWAY - 8
_LARGEST_SCALE = 2.0**20
_LARGEST_SUM = 1 << 29
"""Sums up to which the bits that they are added to stay those of a positive float."""
_BITS_AT_ZERO = 0x4B000000 - (1 << 23)
"""What added to an integer from 2**23 to 2**24 makes the bits of the float that it is."""


@functools.lru_cache(maxsize=512)
def one_scale(out_dtype: str, scale: float, largest_sum: float) -> np.ndarray:
    """One `words.ONE_SCALE`; its form is NEITHER, and accumulators start at 0, where none is exact.

    scale: a float32; largest_sum: the largest magnitude of a sum.
    """
    found = np.zeros(1, ONE_SCALE)
    found["scale"] = scale
    proved = _proved(out_dtype, np.float32(scale)) if largest_sum <= _LARGEST_SUM else None
    if proved is not None:
        origin, found["addend"] = proved
        found["form"], found["start"] = IS_ONE_SCALE, _BITS_AT_ZERO + origin
    found.setflags(write=False)
    return found


def _proved(out_dtype: str, scale: np.float32) -> tuple[int, np.float32] | None:
    """An origin, and its product with the scale, negated, that give all sums their outputs."""
    if not 0 < scale <= _LARGEST_SCALE:
        return None
    least, most = INTEGER_RANGE[out_dtype]
    outputs = np.arange(least + 1, most + 1, dtype=np.float64)
    steps = _first_sums(outputs, scale)
    if np.abs(steps).max() > _LARGEST_STEP:
        return None
    for origin, addend in _nearest(scale):
        above, below = (_converted(origin + steps - back, scale, addend) for back in (0, 1))
        if np.all(above >= outputs) and np.all(below < outputs):
            return origin, addend
    return None


def _first_sums(outputs: np.ndarray, scale: np.float32) -> np.ndarray:
    """The least sums, whole float64, whose scaled value rounds to each of the outputs or more."""
    sums = np.ceil((outputs - 0.5) / np.float64(scale))
    for _ in range(2):  # an estimate is off by one at most
        sums -= np.rint((sums - 1).astype(np.float32) * scale) >= outputs
    return sums + (np.rint(sums.astype(np.float32) * scale) < outputs)


def _nearest(scale: np.float32) -> list[tuple[int, np.float32]]:
    """Origins and their products with the scale, negated; the most exact ones first."""
    origins = _MIDDLE + np.arange(-_AWAY, _AWAY)
    exact = -origins * np.float64(scale)
    addends = exact.astype(np.float32)
    best = np.argsort(np.abs(addends - exact), kind="stable")[:_TRIED]
    return [(int(origins[i]), addends[i]) for i in best]


def _converted(values: np.ndarray, scale: np.float32, addend: np.float32) -> np.ndarray:
    """Outputs of origins plus sums, before they are clamped."""
    return np.rint(fused_multiply_add(values.astype(np.float32), scale, addend))
