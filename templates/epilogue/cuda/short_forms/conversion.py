"""For which operands `Form.CONVERTED` is exact, and the numbers that it reads.

Without a residual: where the output's bounds are those of its type and its zero point is 0.

With one, an output depends on two bytes: the requantised accumulator t and the residual r. All
pairs are tried, so rounding more cheaply than `reference.py` says is allowed where it gives the
same bytes; where some pair lies too near a tie, constants a few units in the last place away are
tried. t becomes a float between 0 and 1 in two steps. Adding 2**23 - low rounds it, ties to even
where low is even; else where high is even, -t is rounded instead, by a negated scale. A saturating
fused multiply-add then takes 2**23 away, divides by high - low and clamps.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.epilogue.cuda.short_forms.fused_multiply_add import fused_multiply_add
from autoq.templates.epilogue.cuda.short_forms.words import IS_CONVERTED

_MOST_STEPS = 255
_LARGEST_BOUND = 1 << 20
_BYTES = np.arange(256, dtype=np.float32)
_UNITS_AWAY = 4
_NEAR = 2.0**-10
"""Distance from a tie, in output steps, beyond which the constants tried all round alike."""


@functools.lru_cache(maxsize=512)
def conversion_limits(epilogue: Epilogue, scalars: tuple[float, ...]) -> tuple[float, ...] | None:
    """The fields of a `short_form.CONVERTED`, or None where the form is not exact.

    scalars: as `epilogue.SCALAR_NAMES`. start is 2**23 - low (or + high), share one over high - low
    and origin -2**23 times it, scale that of t; the channels' scales must be given the sign.
    """
    s = dict(zip(SCALAR_NAMES, scalars, strict=True))
    least, most = INTEGER_RANGE[epilogue.out_dtype]
    if (s["low"] + s["zero_point"], s["high"] + s["zero_point"]) != (least, most):
        return None
    if epilogue.residual_dtype is None:
        return (IS_CONVERTED, *[0.0] * 6, 1.0) if s["zero_point"] == 0 else None
    if not _integral(s):
        return None
    low, high = int(s["accumulator_low"]), int(s["accumulator_high"])
    if not 0 < high - low <= _MOST_STEPS or (low % 2 and high % 2):
        return None
    sign, origin = (-1.0, high) if low % 2 else (1.0, low)
    share = _reciprocal(high - low)
    constants = _search(epilogue, s, sign, origin, share)
    if constants is None:
        return None
    scale, residual_scale, offset = map(float, constants)
    first = 2.0**23 - sign * origin
    return (IS_CONVERTED, first, float(share), -(2.0**23) * float(share), scale,
            2.0**24 * residual_scale, offset, sign)  # fmt: skip


def _integral(s: dict[str, float]) -> bool:
    """Bounds and zero points are integers of moderate size, scales finite."""
    integers = (
        "accumulator_low", "accumulator_high", "low", "high", "zero_point", "residual_zero_point",
    )  # fmt: skip
    scales = (s["accumulator_scale"], s["residual_scale"])
    return all(
        abs(s[name]) <= _LARGEST_BOUND and float(s[name]).is_integer() for name in integers
    ) and all(abs(scale) <= _LARGEST_BOUND for scale in scales)


def _reciprocal(steps: int) -> np.float32:
    """The least float32 whose product with `steps` is not below 1."""
    share = np.float32(1) / np.float32(steps)
    while float(share) * steps < 1:
        share = np.nextafter(share, np.float32(2))
    return share


def _search(
    epilogue: Epilogue, s: dict[str, float], sign: float, origin: int, share: np.float32
) -> np.ndarray | None:
    """Scale of t, residual scale and offset, float32 [3], that give every pair its byte."""
    steps = int(s["accumulator_high"] - s["accumulator_low"])
    t = s["accumulator_low"] + np.arange(steps + 1, dtype=np.float32)
    distance = np.abs(t - np.float32(origin))
    part = np.clip(distance * share, 0, np.float32(1)).astype(np.float32)[:, None]
    smallest = INTEGER_RANGE[epilogue.residual_dtype or "uint8"][0]
    residual = (_BYTES + np.float32(smallest))[None, :]
    expected = _expected(epilogue, s, t[:, None].astype(np.float32), residual)
    constants = np.array([
        sign * steps * s["accumulator_scale"],
        s["residual_scale"],
        origin * s["accumulator_scale"] + s["zero_point"]
        + (smallest - s["residual_zero_point"]) * s["residual_scale"],
    ], np.float32)  # fmt: skip
    rows, columns = np.nonzero(_near_tie(s, t, residual))
    risky = part[rows, 0], _BYTES[columns]
    for candidate in _nearby(constants):
        likely = np.array_equal(_converted(epilogue, *risky, candidate), expected[rows, columns])
        if likely and np.array_equal(_converted(epilogue, part, _BYTES, candidate), expected):
            return candidate
    return None


def _near_tie(s: dict[str, float], t: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Which pairs are decided by roundings."""
    addend = (residual - s["residual_zero_point"]).astype(np.float64) * s["residual_scale"]
    value = t[:, None].astype(np.float64) * s["accumulator_scale"] + addend
    return np.abs(value - np.floor(value) - 0.5) < _NEAR


def _nearby(constants: np.ndarray) -> Iterator[np.ndarray]:
    """The constants and those a few units in the last place away, the nearest first."""
    units = range(-_UNITS_AWAY, _UNITS_AWAY + 1)
    away = sorted(itertools.product(units, repeat=3), key=lambda step: sum(map(abs, step)))
    for step in away:
        moved = (constants.view(np.int32) + np.array(step, np.int32)).view(np.float32)
        if np.all(np.isfinite(moved)):
            yield moved


def _expected(
    epilogue: Epilogue, s: dict[str, float], t: np.ndarray, residual: np.ndarray
) -> np.ndarray:
    """Outputs as `reference.py` says, of t [steps, 1] and residuals [1, 256]."""
    addend = (residual - np.float32(s["residual_zero_point"])) * np.float32(s["residual_scale"])
    value = t * np.float32(s["accumulator_scale"]) + addend
    return np.clip(np.rint(value), s["low"], s["high"]) + s["zero_point"]


def _converted(
    epilogue: Epilogue, part: np.ndarray, residual: np.ndarray, constants: np.ndarray
) -> np.ndarray:
    """Outputs as `Form.CONVERTED` computes them."""
    scale, residual_scale, offset = constants
    addend = fused_multiply_add(residual, residual_scale, offset)
    value = fused_multiply_add(part, scale, addend)
    return np.clip(np.rint(value), *INTEGER_RANGE[epilogue.out_dtype])
