"""The epilogue that ends in a packed conversion, compiled for the host, and its proof."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from host_rows import aligned, fragments, needs_compiler, random_table
from test_bounded_rows import build

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue import Epilogue, apply_epilogue, pack_scalars
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars
from autoq.templates.epilogue.cuda.short_forms.allowed import convertible
from autoq.templates.epilogue.cuda.short_forms.bounds import MAGIC_BITS
from autoq.templates.epilogue.cuda.short_forms.conversion import conversion_limits
from autoq.templates.epilogue.cuda.short_forms.fused_multiply_add import fused_multiply_add
from autoq.templates.epilogue.cuda.short_forms.words import IS_CONVERTED
from autoq.templates.epilogue.cuda.values.requantisation import Form

CHANNELS = 16
CASES = [
    Epilogue("int8"),
    Epilogue("uint8"),
    Epilogue("int8", "int8", True),
    Epilogue("uint8", "uint8", True),
    Epilogue("int8", "uint8", True),
    Epilogue("int8", "uint8", True, table=True),
]


def scalars_of(epilogue: Epilogue, accumulator_low: float, seed: int) -> np.ndarray:
    """Constants of a quantised layer; without a residual the zero point is 0."""
    rng = np.random.default_rng(seed)
    least, most = INTEGER_RANGE[epilogue.out_dtype]
    zero_point = 0.0 if epilogue.residual_dtype is None else float(rng.integers(least, most))
    return pack_scalars(
        accumulator_low=accumulator_low, accumulator_high=accumulator_low + 255,
        accumulator_scale=rng.uniform(0.2, 1.2), residual_scale=rng.uniform(0.2, 1.2),
        residual_zero_point=float(rng.integers(0, 100)), low=least - zero_point,
        high=most - zero_point, zero_point=zero_point,
    )  # fmt: skip


def totals(scale: np.ndarray, trial: int) -> np.ndarray:
    """Sums int32 [2, channels]: ties of the first rounding, its range and far beyond."""
    rng = np.random.default_rng(trial)
    if trial % 3 == 0:
        return np.rint((rng.integers(-300, 300, (2, CHANNELS)) + 0.5) / scale).astype(np.int32)
    span = 2.0 ** rng.integers(8, 29)
    return rng.integers(-span, span, (2, CHANNELS)).astype(np.int32)


@needs_compiler
@pytest.mark.parametrize("epilogue", CASES, ids=str)
@pytest.mark.parametrize("accumulator_low", [-128.0, -7.0])
def test_converted_form_is_exact(epilogue: Epilogue, accumulator_low: float) -> None:
    row = FragmentRows(epilogue, CHANNELS, CHANNELS, tail=False, bias=False)
    library = build(row, Form.CONVERTED)
    scalars = scalars_of(epilogue, accumulator_low, seed=4)
    found = conversion_limits(epilogue, tuple(map(float, scalars)))
    assert found is not None and found[0] == IS_CONVERTED
    dtype = epilogue.residual_dtype or "int8"
    table = random_table(epilogue, np.random.default_rng(1))
    packed = aligned(packed_scalars(epilogue, {"scalars": scalars, "table": table}))
    for trial in range(90):
        rng = np.random.default_rng(trial)
        scale = (0.5 ** rng.integers(1, 12, CHANNELS)).astype(np.float32)
        scale *= np.float32(1 + trial % 2 * 0.37)
        total = totals(scale, trial)
        residual = rng.integers(*INTEGER_RANGE[dtype], (2, CHANNELS), endpoint=True).astype(dtype)
        # A thread reads every fourth vector of the shared table.
        strided = np.zeros((CHANNELS // 4, 4, 4), np.float32)
        strided[:, 0] = scale.reshape(-1, 4) * np.float32(found[7])
        y = aligned(np.full((2, CHANNELS), 99, epilogue.out_dtype))
        numbers = aligned(np.array(found, np.float32))
        arrays = (
            aligned(fragments(total.astype(np.int64) + MAGIC_BITS)),
            aligned(strided),
            numbers,
            aligned(residual),
            y,
            packed,
        )
        acc, scales, limits, words, out, last = (a.ctypes.data_as(ctypes.c_void_p) for a in arrays)
        library.entry(acc, scales, limits, ctypes.c_float(0.0), words, out, last)
        expected = apply_epilogue(
            epilogue, total, np.int32(0), scale, scalars,
            residual if epilogue.residual_dtype else None, table,
        )  # fmt: skip
        np.testing.assert_array_equal(y, expected)


def test_most_scales_have_constants() -> None:
    epilogue = Epilogue("uint8", "uint8", True)
    found = [
        conversion_limits(epilogue, tuple(map(float, scalars_of(epilogue, -float(low), low))))
        for low in range(0, 250, 10)
    ]
    assert sum(numbers is not None for numbers in found) >= 24


@pytest.mark.parametrize("change", [
    {"low": -100.0}, {"high": 100.0}, {"accumulator_low": -119.0}, {"accumulator_low": 0.5},
    {"accumulator_scale": np.nan}, {"residual_scale": np.inf}, {"residual_zero_point": 0.5},
    {"accumulator_low": 200.0},
    # Every second pair of an even and an odd number is a tie.
    {"accumulator_scale": 0.5, "residual_scale": 1.0 / 3.0},
])  # fmt: skip
def test_limits_decline_what_is_not_exact(change: dict[str, float]) -> None:
    epilogue = Epilogue("int8", "int8", True)
    good = dict(
        accumulator_low=-120.0, accumulator_high=121.0, accumulator_scale=0.613739,
        residual_scale=0.429281, residual_zero_point=3.0, low=-123.0, high=132.0, zero_point=-5.0,
    )  # fmt: skip

    def of(values: dict[str, float]) -> tuple[float, ...] | None:
        return conversion_limits(epilogue, tuple(map(float, pack_scalars(**values))))

    assert of(good) is not None
    assert of(good | change) is None


def test_other_epilogues_are_declined() -> None:
    assert not convertible(Epilogue("float32"))
    assert not convertible(Epilogue("uint8", table=True))
    assert not convertible(Epilogue("int8", "int8", False))
    assert not convertible(Epilogue("uint8", "float32", False))
    plain = pack_scalars(low=-7.0, high=248.0, zero_point=7.0)
    assert conversion_limits(Epilogue("uint8"), tuple(map(float, plain))) is None


def test_multiply_add_rounds_once() -> None:
    one = np.float32(1)
    tiny = np.float32(2.0**-24)
    # (1 + 2**-23) (1 - 2**-23) + 2**-24 lies just below a tie, which float64 cannot hold.
    a, b = one + 2 * tiny, one - 2 * tiny
    assert fused_multiply_add(a, b, tiny)[0] == 1
    # 2**-24 - 2**-78 above 1 is no tie: down, not to the even neighbour above.
    assert fused_multiply_add(np.float32(2.0**-24), one - tiny, one + 2 * tiny)[0] == one + 2 * tiny
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 1000)).astype(np.float32)
    wide = a.astype(np.longdouble) * b + c
    np.testing.assert_array_equal(fused_multiply_add(a, b, c), wide.astype(np.float32))
