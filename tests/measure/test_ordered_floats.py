"""Integers that stand for floats, and the limits of what lies within a bound of one."""

import ml_dtypes
import numpy as np
import pytest

from autoq.measure.ordered_floats import ordered, ordered_limits

NARROW = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)]


def all_floats(dtype):
    return np.arange(1 << (8 * dtype.itemsize), dtype=f"uint{8 * dtype.itemsize}").view(dtype)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_integers_have_the_order_of_floats(dtype):
    values = all_floats(dtype)
    with np.errstate(invalid="ignore"):
        wide, places = values.astype(np.float64), ordered(values).astype(int)
    known = ~np.isnan(wide)
    order = np.argsort(places[known], kind="stable")
    assert (np.diff(wide[known][order]) >= 0).all()
    assert len(set(places.tolist())) == len(values)
    unknown = places[~known]
    assert not ((unknown >= places[known].min()) & (unknown <= places[known].max())).any()


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_limits_hold_what_lies_within_the_bound_and_nothing_else(dtype):
    rng, values = np.random.default_rng(0), all_floats(dtype)
    with np.errstate(invalid="ignore"):
        wide, places = values.astype(np.float64), ordered(values).astype(int)
    finite = values[np.isfinite(wide)]
    chosen = [0, -0.0, finite.max(), finite.min(), *rng.choice(finite, 60)]
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    for middle in np.array(chosen, dtype):
        size = abs(float(middle))
        for share in (0, tiny / 3, tiny, size / 64, size / 3, size, min(1.5 * size + 1, 1e38)):
            bound = np.float32(share)
            low, high = ordered_limits(np.array([middle], dtype), np.array([bound]))
            least, most = float(middle) - float(bound), float(middle) + float(bound)
            right = np.isfinite(wide) & (wide >= least) & (wide <= most)
            assert ((places >= low[0]) & (places <= high[0]) == right).all(), (middle, bound)


def test_limits_of_float32_are_neighbours_of_what_is_too_far():
    rng = np.random.default_rng(1)
    middle = (rng.standard_normal(5000) * 10.0 ** rng.integers(-30, 30, 5000)).astype(np.float32)
    bound = np.abs(middle) * np.float32(10.0) ** rng.integers(-7, 2, 5000).astype(np.float32)
    low, high = ordered_limits(middle, bound)

    def value(places):
        bits = np.where(places >= 0, places, places ^ 0x7FFFFFFF)
        return bits.astype(np.int32).view(np.float32).astype(np.float64)

    least = middle.astype(np.float64) - bound
    most = middle.astype(np.float64) + bound
    assert (value(low) >= least).all() and (value(high) <= most).all()
    beyond = [np.where(value(low - 1) == value(low), value(low - 2), value(low - 1))]
    beyond += [np.where(value(high + 1) == value(high), value(high + 2), value(high + 1))]
    assert (beyond[0] < least).all() and (beyond[1] > most).all()


def test_infinities_and_unknown_numbers():
    expected = np.array([np.inf, -np.inf, np.nan, 65504], np.float16)
    low, high = ordered_limits(expected, np.full(4, 64, np.float32))
    y = np.array([np.inf, -np.inf, np.nan, 65504, -65504, 0, -np.nan], np.float16)
    right = [(ordered(y) >= a) & (ordered(y) <= b) for a, b in zip(low, high, strict=True)]
    assert right[0].tolist() == [True, False, False, True, False, False, False]
    assert right[1].tolist() == [False, True, False, False, True, False, False]
    assert right[2].tolist() == [False] * 7
    assert right[3].tolist() == [False, False, False, True, False, False, False]
