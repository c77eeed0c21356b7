"""For which operands sums may be read as floats, and the numbers of `Form.READ`.

Accumulators start at the bits of 1.5 * 2**23 plus their bias. Up to 2**22 the bits are then those of
the float 1.5 * 2**23 + sum, and an addition instead of a conversion gives the sum, exactly. Beyond
they are the bits of floats that grow with the sum still, so that sums which the output clamps anyway
come out right.

The output is v rounded plus its zero point: v * 2**-149 plus an integer's denormal, in one fused
multiply-add, has the bits of the integer, and saturation clamps it from below. Ties are to even, so
that what is added must be even; where it is odd all is turned: 255 minus the output is -v rounded
plus an even number.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.table import ENTRIES
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.epilogue.cuda.parameters.lookups import LONG_ENTRIES
from autoq.templates.epilogue.cuda.short_forms.bounds import MAGIC_BITS
from autoq.templates.epilogue.cuda.short_forms.words import IS_READ, READ

_EXACT = float(1 << 22) - 8.0
_LARGEST_SUM = float(1 << 29)
_STEPS = 512.0
"""Outputs that no byte is, clamped: of zero points within a byte, and rounded."""
_START = 3 << 22


def may_be_read(scale: np.ndarray, largest: np.ndarray, most: float = _STEPS) -> bool:
    """Whether sums that are read as floats give the values that sums give.

    scale: float32 [k]; largest: magnitude of the sums of each channel, float64 [k]; most: the value
    from which on all are clamped.
    """
    small = largest <= _EXACT
    clamped = np.abs(scale.astype(np.float64)) * _EXACT >= most
    return bool(np.all(small | clamped) and largest.max() <= _LARGEST_SUM)


def read_limits(
    epilogue: Epilogue, scale: np.ndarray, largest: np.ndarray, scalars: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """One `words.READ`, and the factor of the scales of all channels; None where it is not exact."""
    s = {name: float(v) for name, v in zip(SCALAR_NAMES, scalars, strict=True)}
    least, most = INTEGER_RANGE[epilogue.out_dtype]
    if (s["low"] + s["zero_point"], s["high"] + s["zero_point"]) != (least, most):
        return None
    zero_point = s["zero_point"] - least
    if not zero_point.is_integer() or not 0 <= zero_point <= 255:
        return None
    if not may_be_read(scale, largest):
        return None
    found = np.zeros(1, READ)
    found["form"] = IS_READ
    if not epilogue.table:
        odd = int(zero_point) % 2
        found["zero_point"] = 255 - int(zero_point) if odd else int(zero_point)
        found["turned"] = (0xFFFFFFFF * odd) ^ (0x80808080 if least < 0 else 0)
        return found, -1.0 if odd else 1.0
    found["zero_point"] = even(int(zero_point))
    span = _span(scale, largest, even(int(zero_point)))
    if span is None:
        return None
    found["share"] = 1.0 / span
    found["origin"] = (span // 2 - _START) / span
    return found, float(span)


def even(zero_point: int) -> int:
    """The even number that a table's indices are shifted by."""
    return zero_point + zero_point % 2


def _span(scale: np.ndarray, largest: np.ndarray, zero_point: int) -> int | None:
    """The least power of two, of sums around 0 beyond which outputs are clamped or none are."""
    steps = np.abs(scale.astype(np.float64))
    for power in range(2, 23):
        half = 1 << (power - 1)
        if np.all((steps * half >= _STEPS / 2) | (largest < half)):
            most = np.max(np.minimum(largest, half) * steps)
            return 2 * half if zero_point + most + 2 < LONG_ENTRIES else None
    return None


def long_table(table: np.ndarray, zero_point: int | None) -> np.ndarray:
    """The first 512 entries, bytes, of the table that a kernel reads; the others are as the last.

    table: [256] of the output's type; zero_point: the output's, less the type's least, in the form
    READ, and None in others, whose bytes select entries of the table as it is.
    """
    values = np.ascontiguousarray(table).view(np.uint8)
    if zero_point is None:
        return np.concatenate([values, values])
    ordered = np.roll(values, 128) if table.dtype == np.int8 else values
    return ordered[np.clip(np.arange(2 * ENTRIES) - zero_point % 2, 0, ENTRIES - 1)]


def start_bits(read: bool) -> int:
    """What sums start at beside their bias."""
    return MAGIC_BITS if read else 0
