"""Products whose x was quantised as it came: numbers of the run, outputs of an unknown range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.errors import InputError
from autoq.kernel.elf import text_sections
from autoq.kernel.kernel_store import KernelStore
from autoq.measure.arrays import random_case
from autoq.templates.cuda.wgmma import gemm_wgmma, shared_gemm_wgmma
from autoq.templates.cuda.wgmma.config import Grid, Shared, SplitTeam
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.shared.shared_gemm import SharedGemm, sharing
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
SCALED = Epilogue("float32", dynamic=True, float_bias=True)
BYTES = Epilogue("uint8", "float32", dynamic=True, by_range=True, activation="gelu")


def test_the_reference_takes_zero_points_off_and_scales_by_both():
    product = Gemm(5, 7, 24, "uint8", epilogue=SCALED)
    (x, x_scale, zero), constants = random_case(product, 3)
    sums = (x.astype(np.int64) - int(zero[0])) @ constants["weight"].astype(np.int64).T
    scaled = (sums + constants["bias"]).astype(np.float32) * (constants["scale"] * x_scale)
    (y,) = product.reference((x, x_scale, zero), constants)
    np.testing.assert_array_equal(y, scaled + constants["float_bias"])


@needs_nvcc
def test_numbers_of_a_run_on_the_emulator():
    shared = SharedGemm(3, 70, 72, 96, "uint8", epilogue=SCALED)
    config = shared_gemm_wgmma.default(shared, HOPPER)
    assert_right_emulated(shared_gemm_wgmma.TEMPLATE, shared, config, HOPPER)


WAIT, LOAD = 0x82E, 0x981
"""ACQBULK and LDG by the lowest 12 bits of their 16 bytes."""


@needs_nvcc
def test_numbers_of_a_run_are_read_behind_the_wait_in_machine_code_too():
    """ptxas moves loads of arrays that a kernel only reads, unless they are volatile."""
    shared = SharedGemm(3, 1024, 768, 768, "uint8", epilogue=SCALED)
    config = shared_gemm_wgmma.default(shared, HOPPER)
    kernel = KernelStore(None).kernel(shared_gemm_wgmma.TEMPLATE, shared, config, HOPPER)
    (code,) = text_sections(kernel.modules[0])
    opcodes = (np.frombuffer(code, np.uint64)[::2] & np.uint64(0xFFF)).tolist()
    assert opcodes.index(WAIT) < opcodes.index(LOAD)


@needs_nvcc
def test_outputs_of_an_unknown_range_on_the_emulator():
    """Blocks of two consumers, the last rows and channels of which are not there."""
    product = Gemm(200, 69, 96, "uint8", epilogue=BYTES)
    knobs = {"block_n": 32, "m_blocks": 1, "team": SplitTeam(2, True), "stages": 2}
    config = replace(gemm_wgmma.default(product, HOPPER), **knobs)
    assert config in gemm_wgmma.space(product, HOPPER)
    assert_right_emulated(gemm_wgmma.TEMPLATE, product, config, HOPPER)


def test_all_tiles_of_a_range_are_held_at_once():
    product = Gemm(1024, 3072, 768, "uint8", epilogue=BYTES)
    space, config = gemm_wgmma.space(product, HOPPER), gemm_wgmma.default(product, HOPPER)
    assert config in space and gemm_wgmma.TEMPLATE.matches(product, HOPPER)
    for knobs in ({"block_n": 64, "m_blocks": 1}, {"grid": Grid(False, 2, Shared.REDUCTION)}):
        assert replace(config, **knobs) not in space
    assert not gemm_wgmma.TEMPLATE.matches(replace(product, m=4096), HOPPER)


def test_who_takes_dynamic_products():
    product = Gemm(70, 72, 96, "uint8", epilogue=SCALED)
    assert sharing([product] * 3) == SharedGemm(3, 70, 72, 96, "uint8", epilogue=SCALED)
    assert sharing([product.by_range()] * 2) is None
    assert product.by_range().by_range() is None
    with pytest.raises(InputError, match="scales of a run"):
        Epilogue("float32", dynamic=True, row_scale=True)
    with pytest.raises(InputError, match="of a dynamic product"):
        Epilogue("uint8", by_range=True)
