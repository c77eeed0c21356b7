"""The epilogues of one scale, compiled for the host, and what proves the shorter one."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from host_rows import aligned, fragments, needs_compiler, random_table
from test_bounded_rows import build

from autoq.templates.cuda.wgmma.gemm_wgmma import TEMPLATE
from autoq.templates.element import INTEGER_RANGE
from autoq.templates.epilogue import Epilogue, apply_epilogue, pack_scalars
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars
from autoq.templates.epilogue.cuda.short_forms.one_scale import one_scale_limits
from autoq.templates.epilogue.cuda.short_forms.words import IS_ONE_SCALE, ONE_SCALE, words_of
from autoq.templates.epilogue.cuda.values.requantisation import Form, scalable
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

CHANNELS = 16
SCALES = [1.0, 0.5, 2.0**-12, 0.37, 0.0123, 3.1e-4, 8e-5, 1000.3]


def sums(scale: float, trial: int, zero_point: float) -> np.ndarray:
    """Accumulators int32 [2, channels]: on both sides of steps of the output, and far beyond."""
    rng = np.random.default_rng(trial)
    if trial % 3:
        steps = rng.integers(-140, 140, (2, CHANNELS)) + 0.5 - zero_point
        near = np.rint(steps / scale) + rng.integers(-1, 2, (2, CHANNELS))
        return np.clip(near, -(2**28), 2**28).astype(np.int32)
    span = 2 ** rng.integers(8, 29)
    return rng.integers(-span, span, (2, CHANNELS)).astype(np.int32)


@needs_compiler
@pytest.mark.parametrize("epilogue", [Epilogue("int8"), Epilogue("uint8", table=True)], ids=str)
@pytest.mark.parametrize("form", [Form.ONE_SCALE, Form.UNIFORM])
def test_forms_of_one_scale_are_exact(epilogue: Epilogue, form: Form) -> None:
    library = build(FragmentRows(epilogue, CHANNELS, CHANNELS, tail=False, bias=False), form)
    least, most = INTEGER_RANGE[epilogue.out_dtype]
    table, tried = random_table(epilogue, np.random.default_rng(1)), 0
    zero_points = (0.0,) if form is Form.UNIFORM else (0.0, 4.0, -7.0)
    for scale in map(float, np.float32(SCALES)):
        for zero_point in zero_points:
            bounds = (least - zero_point, most - zero_point)
            numbers = one_scale_limits(epilogue.out_dtype, scale, *bounds, zero_point)
            assert numbers is not None or zero_point
            if numbers is None:
                continue
            tried += 1
            scalars = pack_scalars(low=bounds[0], high=bounds[1], zero_point=zero_point)
            packed = aligned(packed_scalars(epilogue, {"scalars": scalars, "table": table}))
            start = int(numbers["start"][0]) if form is Form.ONE_SCALE else 0
            for trial in range(12):
                total = sums(scale, trial, zero_point)
                y = aligned(np.full((2, CHANNELS), 99, epilogue.out_dtype))
                unread = aligned(np.zeros(4, np.float32))
                arrays = (
                    aligned(fragments(total.astype(np.int64) + start)), unread,
                    aligned(words_of(numbers)), unread, y, packed,
                )  # fmt: skip
                acc, scales, limits, words, out, last = (
                    a.ctypes.data_as(ctypes.c_void_p) for a in arrays
                )
                library.entry(acc, scales, limits, ctypes.c_float(0.0), words, out, last)
                scale_of_all = np.full(CHANNELS, scale, np.float32)
                expected = apply_epilogue(
                    epilogue, total, np.int32(0), scale_of_all, scalars, None, table
                )
                np.testing.assert_array_equal(y, expected)
    assert tried >= len(SCALES)


def test_all_scales_of_products_are_proved() -> None:
    rng = np.random.default_rng(0)
    scales = map(float, np.float32(rng.uniform(40, 90, 200) / (74 * 74 * 90.5)))
    found = [one_scale_limits("int8", scale, -128.0, 127.0, 0.0) for scale in scales]
    assert all(numbers is not None for numbers in found)


@pytest.mark.parametrize("declined", [
    {"scale": 3e-5}, {"scale": -0.5}, {"scale": 0.0}, {"scale": np.nan}, {"scale": np.inf},
    {"low": 0.0}, {"high": 126.0}, {"low": -128.5, "high": 126.5, "zero_point": 0.5},
])  # fmt: skip
def test_what_is_not_exact_is_declined(declined: dict[str, float]) -> None:
    good = {"scale": 0.5, "low": -128.0, "high": 127.0, "zero_point": 0.0}
    assert one_scale_limits("int8", **good) is not None
    assert one_scale_limits("int8", **good | declined) is None
    assert not scalable(Epilogue("int8", "int8", True)) and not scalable(Epilogue("float32"))


@pytest.mark.parametrize("uniform", [True, False])
def test_constants_choose_the_form(uniform: bool) -> None:
    workload = Gemm(64, 64, 64, epilogue=Epilogue(uniform=uniform))
    config = TEMPLATE.default(workload, parse_target("cuda:sm_90a"))
    _, constants = workload.random_case(np.random.default_rng(0))
    constants |= {"scalars": pack_scalars(low=-128.0, high=127.0), "x_zero_point": 0}
    for scale, proved in ((0.01, True), (1e-6, False)):
        constants["scale"] = np.full(64, scale, np.float32)
        _, bias, _, scalars, *table = TEMPLATE.constants(workload, config, constants)
        (numbers,) = scalars[-8:].view(ONE_SCALE)
        assert (numbers["form"] == IS_ONE_SCALE) == proved
        assert bool(table) != uniform
        if proved:
            start = int(numbers["start"])
            np.testing.assert_array_equal(bias.reshape(-1)[:64], constants["bias"] + start)
        elif uniform:
            assert numbers["scale"] == np.float32(scale) and numbers["start"] == 0
