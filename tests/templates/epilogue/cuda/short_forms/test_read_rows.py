"""Sums that are read as floats, compiled for the host, and for which operands they may be."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from host_rows import aligned, fragments, needs_compiler, random_table
from test_bounded_rows import build

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue import Epilogue, apply_epilogue, pack_scalars
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.short_forms.bounds import MAGIC_BITS
from autoq.templates.epilogue.cuda.short_forms.choice import Operands, short_form
from autoq.templates.epilogue.cuda.short_forms.long_table import LONG_ENTRIES, packed_long_table
from autoq.templates.epilogue.cuda.short_forms.read_sums import may_be_read, read_limits
from autoq.templates.epilogue.cuda.short_forms.words import IS_READ, words_of
from autoq.templates.epilogue.cuda.values.requantisation import Form

CHANNELS = 16
CASES = [
    Epilogue("int8"),
    Epilogue("uint8"),
    Epilogue("int8", table=True),
    Epilogue("uint8", table=True),
]
LARGEST = float(1 << 29)


def scalars_of(epilogue: Epilogue, place: float, **others: float) -> np.ndarray:
    """Those of an output that is clamped to its type; place: of its zero point above the least."""
    least, most = INTEGER_RANGE[epilogue.out_dtype]
    bounds = dict(low=-place, high=most - least - place, zero_point=least + place)
    return pack_scalars(**(bounds | others))


def sums(scale: np.ndarray, trial: int) -> np.ndarray:
    """Sums [2, channels]: ties, both sides of steps of the output, and as large as they may be."""
    rng = np.random.default_rng(trial)
    steps = rng.integers(-300, 300, (2, CHANNELS)) + 0.5
    if trial % 3:
        near = np.rint(steps / scale) + rng.integers(-1, 2, (2, CHANNELS))
        return np.clip(near, -LARGEST, LARGEST).astype(np.int64)
    span = 2 ** rng.integers(8, 30)
    return rng.integers(-span, span, (2, CHANNELS))


def long_table(epilogue: Epilogue, table: np.ndarray | None, scalars: np.ndarray) -> np.ndarray:
    """What a kernel's shared memory holds, 32 bytes behind where the scalars begin."""
    if table is None:
        return aligned(np.zeros(64, np.uint8))
    parts = packed_long_table(epilogue, {"table": table, "scalars": scalars}, read=True)
    entries = np.concatenate([part.view(np.uint8) for part in parts])
    assert entries.size == LONG_ENTRIES
    return aligned(np.concatenate([np.zeros(32, np.uint8), entries]))


@needs_compiler
@pytest.mark.parametrize("epilogue", CASES, ids=str)
@pytest.mark.parametrize("place", [0, 1, 84, 127, 128, 254, 255])
def test_read_form_is_exact(epilogue: Epilogue, place: int) -> None:
    library = build(FragmentRows(epilogue, CHANNELS, CHANNELS, tail=False, bias=False), Form.READ)
    scalars = scalars_of(epilogue, place)
    table = random_table(epilogue, np.random.default_rng(1))
    unread = aligned(np.zeros(16, np.float32))
    for trial in range(60):
        rng = np.random.default_rng(trial)
        # Powers of two have ties at every step, others where a product is rounded to one.
        scale = np.float32(0.5 ** rng.integers(2, 12)) * rng.uniform(1, 2.9, CHANNELS)
        scale = (np.full(CHANNELS, 0.5**9) if trial % 4 == 3 else scale).astype(np.float32)
        found = read_limits(epilogue, scale, np.full(CHANNELS, LARGEST), scalars)
        assert found is not None
        numbers, factor = found
        strided = np.zeros((CHANNELS // 4, 4, 4), np.float32)
        strided[:, 0] = (scale * np.float32(factor)).reshape(-1, 4)
        total = sums(scale, trial)
        y = aligned(np.full((2, CHANNELS), 99, epilogue.out_dtype))
        arrays = (
            aligned(fragments(total + MAGIC_BITS)), aligned(strided), aligned(words_of(numbers)),
            unread, y, long_table(epilogue, table, scalars),
        )  # fmt: skip
        acc, scales, limits, words, out, last = (a.ctypes.data_as(ctypes.c_void_p) for a in arrays)
        library.entry(acc, scales, limits, ctypes.c_float(0.0), words, out, last)
        expected = apply_epilogue(
            epilogue, total.astype(np.int32), np.int32(0), scale, scalars, None, table
        )
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("epilogue", CASES, ids=str)
@pytest.mark.parametrize(("scale", "largest", "others"), [
    (0.01, 2.0**20, {"low": -40.5}), (0.01, 2.0**20, {"high": 400.0}),
    (0.01, 2.0**20, {"low": -3.5, "high": 251.5, "zero_point": 3.5}), (0.01, 2.0**30, {}),
    (1e-6, 2.0**23, {}), (np.nan, 2.0**20, {}), (np.inf, 2.0**20, {}),
])  # fmt: skip
def test_what_is_not_exact_is_declined(
    epilogue: Epilogue, scale: float, largest: float, others: dict[str, float]
) -> None:
    scales, sizes = np.full(4, 0.01, np.float32), np.full(4, 2.0**20)
    assert read_limits(epilogue, scales, sizes, scalars_of(epilogue, 7)) is not None
    scales[2], sizes[2] = scale, largest
    assert read_limits(epilogue, scales, sizes, scalars_of(epilogue, 7, **others)) is None


@pytest.mark.parametrize("change", [{"low": -3.0}, {"high": 40.0}])
def test_a_table_alone_clamps_to_other_bounds(change: dict[str, float]) -> None:
    scale, sizes = np.full(4, 0.01, np.float32), np.full(4, 2.0**20)
    for epilogue in CASES:
        scalars = scalars_of(epilogue, 7, **change)
        assert (read_limits(epilogue, scale, sizes, scalars) is not None) == epilogue.table
    table = np.arange(256).astype(np.uint8)
    constants = {"table": table, "scalars": scalars_of(CASES[3], 7, **change)}
    parts = packed_long_table(CASES[3], constants, read=True)
    entries = np.concatenate([part.view(np.uint8) for part in parts])
    values = np.clip(np.arange(-256, 256), change.get("low", -7), change.get("high", 248))
    np.testing.assert_array_equal(entries, values + 7)


def test_sums_beyond_floats_units_must_be_clamped() -> None:
    scale = np.array([1e-3, 1e-5], np.float32)
    assert may_be_read(scale, np.array([2.0**28, 2.0**21]), 256.0)
    assert not may_be_read(scale, np.array([2.0**28, 2.0**23]), 256.0)
    assert not may_be_read(scale, np.array([2.0**30, 2.0**21]), 256.0)


@pytest.mark.parametrize(("epilogue", "place", "form"), [
    (Epilogue("uint8"), 7, IS_READ), (Epilogue("uint8"), 0, 2.0), (Epilogue("int8"), 131, IS_READ),
    (Epilogue("uint8", table=True), 7, IS_READ), (Epilogue("uint8", table=True), 0, IS_READ),
    (Epilogue("int8", "int8", True), 131, 2.0), (Epilogue("int8", "int8"), 131, 1.0),
])  # fmt: skip
def test_the_shortest_form_is_chosen(epilogue: Epilogue, place: int, form: float) -> None:
    scalars = scalars_of(
        epilogue, place, accumulator_low=-120.0, accumulator_high=135.0,
        accumulator_scale=0.613739, residual_scale=0.429281,
    )  # fmt: skip
    weight, bias = np.full((2, 8), -3, np.int8), np.array([5, -7], np.int32)
    operands = Operands("uint8", weight, bias, np.full(2, 0.01, np.float32), scalars)
    found = short_form(epilogue, operands)
    assert found.numbers[0] == form
    assert found.start == (MAGIC_BITS if form > 1 else 0)
