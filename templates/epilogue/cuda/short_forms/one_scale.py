"""For which operands `Form.ONE_SCALE` is exact, and the numbers that it reads.

Where all channels have one scale an output depends on an accumulator's value alone, and never falls
where it grows. Accumulators start at the bits of a float `origin` between 2**23 and 2**24, an
integer, whose unit is 1: as long as they stay there, they are the bits of origin plus the sum, and
the bits of more and of less are floats beyond. One fused multiply-add takes origin times the scale
away, and a saturating conversion rounds and clamps. Of many origins that is taken whose product
with the scale is nearest to a float, and each of the 255 steps of the output is tried on both of
its sides.
"""

from __future__ import annotations

import functools

import numpy as np

from autoq.templates.element import INTEGER_RANGE
from autoq.templates.epilogue.cuda.short_forms.fused_multiply_add import fused_multiply_add
from autoq.templates.epilogue.cuda.short_forms.words import IS_ONE_SCALE, ONE_SCALE

_MIDDLE = 3 << 22
_AWAY = 1 << 15
"""How far from 1.5 * 2**23 origins are tried."""
_TRIED = 16
_LARGEST_STEP = (1 << 22) - _AWAY - 8
_LARGEST_SCALE = 2.0**20
_BITS_AT_ZERO = 0x4B000000 - (1 << 23)
"""What added to an integer from 2**23 to 2**24 makes the bits of the float that it is."""


@functools.lru_cache(maxsize=512)
def one_scale_limits(
    out_dtype: str, scale: float, low: float, high: float, zero_point: float
) -> np.ndarray | None:
    """One `short_form.ONE_SCALE`, or None where none is exact.

    scale: a float32; low, high and zero_point as in `epilogue.SCALAR_NAMES`.
    """
    least, most = INTEGER_RANGE[out_dtype]
    if (low + zero_point, high + zero_point) != (least, most) or not float(zero_point).is_integer():
        return None
    if not 0 < scale <= _LARGEST_SCALE:
        return None
    outputs = np.arange(least + 1, most + 1, dtype=np.float64) - zero_point
    steps = _first_sums(outputs, np.float32(scale))
    if np.abs(steps).max() > _LARGEST_STEP:
        return None
    for origin, addend in _nearest(np.float32(scale), zero_point):
        above, below = (_converted(origin + steps - back, scale, addend) for back in (0, 1))
        if np.all(above >= outputs + zero_point) and np.all(below < outputs + zero_point):
            found = np.zeros(1, ONE_SCALE)
            found["form"], found["scale"], found["addend"] = IS_ONE_SCALE, scale, addend
            found["start"] = found["starts"] = _BITS_AT_ZERO + origin
            found.setflags(write=False)
            return found
    return None


def _first_sums(outputs: np.ndarray, scale: np.float32) -> np.ndarray:
    """The least sums, whole float64, whose scaled value rounds to each of the outputs or more."""
    sums = np.ceil((outputs - 0.5) / np.float64(scale))
    for _ in range(2):  # an estimate is off by one at most
        sums -= np.rint((sums - 1).astype(np.float32) * scale) >= outputs
    return sums + (np.rint(sums.astype(np.float32) * scale) < outputs)


def _nearest(scale: np.float32, zero_point: float) -> list[tuple[int, np.float32]]:
    """Origins, and what brings their products with the scale to the zero point, the best first."""
    origins = _MIDDLE + np.arange(-_AWAY, _AWAY)
    exact = zero_point - origins * np.float64(scale)
    addends = exact.astype(np.float32)
    best = np.argsort(np.abs(addends - exact), kind="stable")[:_TRIED]
    return [(int(origins[i]), addends[i]) for i in best]


def _converted(sums: np.ndarray, scale: float, addend: np.float32) -> np.ndarray:
    """Outputs of origin plus sums, before they are clamped."""
    return np.rint(fused_multiply_add(sums.astype(np.float32), np.float32(scale), addend))
