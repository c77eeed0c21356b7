"""For which operands sums may be read as floats, and the numbers of `Form.READ`.

Accumulators start at the bits of 1.5 * 2**23 plus their bias. Up to 2**22 the bits are then those
of the float 1.5 * 2**23 + sum, and an addition instead of a conversion gives the sum, exactly.
Beyond they are the bits of floats that grow with the sum still, so that sums which the output
clamps anyway come out right.

An output is a value rounded plus its zero point. The value times 2**-149 plus an integer's
denormal, in one fused multiply-add, has the bits of that integer, and saturation clamps it from
below. Ties are to even, so that what is added must be even: where it is odd all is turned, 255
minus the output being the opposite value rounded plus an even number.

With a table the integer selects an entry, what is added is the same for all layers, and the table
knows bounds and zero point.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.epilogue.cuda.short_forms.bounds import MAGIC_BITS
from autoq.templates.epilogue.cuda.short_forms.words import IS_READ, READ

_EXACT = float(1 << 22) - 8.0
_LARGEST_SUM = float(1 << 29)
"""Sums up to which the bits that they are added to stay those of a positive float."""
_EXACT_START = np.float64(3 << 22)
_CLAMPED = 256.0
"""Magnitude from which on every value is an output's bound, whatever its zero point."""


def may_be_read(scale: np.ndarray, largest: np.ndarray, clamped: float) -> bool:
    """Whether sums that are read as floats give all outputs.

    scale: float32 [k]; largest: magnitude of the sums of each channel, float64 [k]; clamped: the
    magnitude from which on values are.
    """
    small = largest <= _EXACT
    beyond = np.abs(scale.astype(np.float64)) * _EXACT >= clamped
    return bool(np.all(small | beyond) and largest.max() <= _LARGEST_SUM)


def read_limits(
    epilogue: Epilogue, scale: np.ndarray, largest: np.ndarray, scalars: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """One `words.READ`, and the factor of all scales; None where the form is not exact.

    scale and largest: as of `may_be_read`; scalars: as `epilogue.SCALAR_NAMES`.
    """
    s = {name: float(v) for name, v in zip(SCALAR_NAMES, scalars, strict=True)}
    least, most = INTEGER_RANGE[epilogue.out_dtype]
    ends = s["low"] + s["zero_point"], s["high"] + s["zero_point"]
    whole = all(s[name].is_integer() for name in ("low", "high", "zero_point"))
    if not (whole and least <= s["zero_point"] <= most and least <= ends[0] <= ends[1] <= most):
        return None
    if not (np.all(np.isfinite(scale)) and may_be_read(scale, largest, _CLAMPED)):
        return None
    found = np.zeros(1, READ)
    found["form"] = IS_READ
    if epilogue.table:
        return found, 1.0
    if ends != (least, most):
        return None
    zero_point = int(s["zero_point"]) - least
    odd = zero_point % 2
    found["zero_point"] = most - least - zero_point if odd else zero_point
    found["turned"] = (0xFFFFFFFF * odd) ^ (0x80808080 if least < 0 else 0)
    return found, -1.0 if odd else 1.0


def biased_terms(
    epilogue: Epilogue, scale: np.ndarray, bias: np.ndarray, largest: float, scalars: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """One `words.READ` for sums without their bias, and for each channel what makes values of them.

    Sums start at the bits of 1.5 * 2**23. What is added to them as floats, float32 [k], is the bias
    less that, so that totals are exact; the scales, float32 [k], follow. scale and scalars: as of
    `read_limits`; bias: integers [k]; largest: magnitude of the sums of all channels. None where
    that is not exact.
    """
    biased = np.abs(np.asarray(bias).astype(np.float64))
    if biased.max(initial=0) > _EXACT or largest > _LARGEST_SUM:
        return None
    beyond = np.abs(scale.astype(np.float64)) * (_EXACT - biased) >= _CLAMPED
    if largest > _EXACT and not np.all(beyond):
        return None
    found = read_limits(epilogue, scale, np.zeros(len(scale)), scalars)
    if found is None:
        return None
    numbers, factor = found
    numbers["start"] = MAGIC_BITS
    return numbers, (bias - _EXACT_START).astype(np.float32), scale * np.float32(factor)
