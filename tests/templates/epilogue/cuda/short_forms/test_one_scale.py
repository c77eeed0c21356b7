"""The epilogues of one scale, compiled for the host, and what proves the shorter one."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from host_rows import aligned, fragments, needs_compiler
from test_bounded_rows import build

from autoq.errors import InputError
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.cuda.wgmma.gemm_wgmma import TEMPLATE
from autoq.templates.epilogue import Epilogue, apply_epilogue, pack_scalars
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.short_forms.one_scale import one_scale
from autoq.templates.epilogue.cuda.short_forms.words import IS_ONE_SCALE, NEITHER, words_of
from autoq.templates.epilogue.cuda.values.requantisation import Form
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

CHANNELS = 16
SCALES = [1.0, 0.5, 2.0**-12, 0.37, 0.0123, 3.1e-4, 8e-5, 1000.3]


def sums(scale: float, trial: int) -> np.ndarray:
    """Accumulators int32 [2, channels]: on both sides of steps of the output, and far beyond."""
    rng = np.random.default_rng(trial)
    if trial % 3:
        steps = rng.integers(-140, 300, (2, CHANNELS)) + 0.5
        near = np.rint(steps / scale) + rng.integers(-1, 2, (2, CHANNELS))
        return np.clip(near, -(2**28), 2**28).astype(np.int32)
    span = 2 ** rng.integers(8, 29)
    return rng.integers(-span, span, (2, CHANNELS)).astype(np.int32)


@needs_compiler
@pytest.mark.parametrize("out_dtype", ["int8", "uint8"])
@pytest.mark.parametrize("form", [Form.ONE_SCALE, Form.UNIFORM])
def test_forms_of_one_scale_are_exact(out_dtype: str, form: Form) -> None:
    epilogue = Epilogue(out_dtype, uniform=True)
    library = build(FragmentRows(epilogue, CHANNELS, CHANNELS, tail=False, bias=False), form)
    low, high = INTEGER_RANGE[out_dtype]
    scalars, unread = pack_scalars(low=low, high=high), aligned(np.zeros(4, np.float32))
    for scale in map(float, np.float32(SCALES)):
        numbers = one_scale(out_dtype, scale, 2.0**28)
        assert numbers["form"][0] == IS_ONE_SCALE
        start = int(numbers["start"][0]) if form is Form.ONE_SCALE else 0
        for trial in range(12):
            total = sums(scale, trial)
            y = aligned(np.full((2, CHANNELS), 99, out_dtype))
            arrays = (
                aligned(fragments(total.astype(np.int64) + start)), unread,
                aligned(words_of(numbers)), unread, y, unread,
            )  # fmt: skip
            acc, scales, limits, words, out, last = (
                array.ctypes.data_as(ctypes.c_void_p) for array in arrays
            )
            library.entry(acc, scales, limits, ctypes.c_float(0.0), words, out, last)
            scale_of_all = np.full(CHANNELS, scale, np.float32)
            expected = apply_epilogue(epilogue, total, np.int32(0), scale_of_all, scalars, None)
            np.testing.assert_array_equal(y, expected)


def test_scales_of_products_are_proved() -> None:
    rng = np.random.default_rng(0)
    for scale in map(float, np.float32(rng.uniform(40, 90, 60) / (74 * 74 * 90.5))):
        assert one_scale("int8", scale, 2.0**27)["form"][0] == IS_ONE_SCALE


@pytest.mark.parametrize(("scale", "largest"), [
    (3e-5, 2.0**20), (-0.5, 2.0**20), (0.0, 2.0**20), (2.0**21, 2.0**20), (np.inf, 2.0**20),
    (np.nan, 2.0**20), (0.5, 2.0**30),
])  # fmt: skip
def test_what_is_not_exact_is_left_to_the_other_form(scale: float, largest: float) -> None:
    (numbers,) = one_scale("int8", scale, largest)
    assert numbers["form"] == NEITHER and numbers["start"] == 0
    np.testing.assert_equal(numbers["scale"], np.float32(scale))


def test_uniform_products_have_no_table() -> None:
    for uniform in (True, False):
        workload = Gemm(64, 64, 64, epilogue=Epilogue(uniform=uniform))
        config = TEMPLATE.default(workload, parse_target("cuda:sm_90a"))
        _, constants = workload.random_case(np.random.default_rng(0))
        workload.check_constants(constants)
        _, _, _, scalars, *table = TEMPLATE.constants(workload, config, constants)
        assert bool(table) != uniform
        assert (scalars[-8] == IS_ONE_SCALE) == uniform
    with pytest.raises(InputError, match=r"64x64x64: uniform, but"):
        Gemm(64, 64, 64, epilogue=Epilogue(uniform=True)).check_constants(constants)
    with pytest.raises(InputError, match="uniform scale is for bytes"):
        Epilogue("int8", "int8", uniform=True)
