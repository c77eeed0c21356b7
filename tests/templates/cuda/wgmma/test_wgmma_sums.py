"""Tiles of 192 sums a thread: right, without spills where they are legal, and none untuned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ptx.kernels import assert_right_emulated
from wgmma_cases import EPILOGUES, TARGET
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import PERSISTENT, SplitTeam, WgmmaConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm

WIDE = WgmmaConfig(
    block_n=192, row_bytes=128, per_stage=1, stages=5, team=SplitTeam(2, False), blocks_per_unit=1,
    grid=PERSISTENT, group=3, channels_outer=True, residual_early=False, residual_ahead=False,
    weights_stay=False, m_blocks=2,
)  # fmt: skip
RAGGED = Gemm(5000, 3001, 1040, "uint8", epilogue=Epilogue("uint8", table=True))
HIGH = replace(WIDE, block_n=128, m_blocks=3, early_loads=1)


@needs_nvcc
@pytest.mark.parametrize("config", [WIDE, HIGH], ids=["wide", "high"])
def test_every_element_is_right(config: WgmmaConfig) -> None:
    workload, target = Gemm(900, 400, 272, "uint8", epilogue=Epilogue("uint8")), TARGET.of_units(3)
    assert gemm_wgmma.TEMPLATE.space(workload, target).rejection(config) is None
    assert_right_emulated(gemm_wgmma.TEMPLATE, workload, config, target)


@needs_nvcc
@pytest.mark.parametrize("config", [WIDE, HIGH], ids=["wide", "high"])
def test_nothing_is_spilled(config: WgmmaConfig) -> None:
    """Of a product whose last rows and columns are parts of tiles, which takes more registers."""
    assert gemm_wgmma.TEMPLATE.space(RAGGED, TARGET).rejection(config) is None
    kernel = gemm_wgmma.TEMPLATE.build(RAGGED, config, TARGET)
    assert compile_kernel(kernel, TARGET).spill_bytes == 0


@pytest.mark.parametrize(
    "knobs, epilogue",
    [
        ({"team": SplitTeam(2, True), "stages": 3}, Epilogue()),
        ({"tail_stages": 2}, Epilogue()),
        ({"row_bytes": 64}, Epilogue()),
        ({"channels_outer": False}, Epilogue()),
        ({}, EPILOGUES["s8+s8"]),
        ({}, EPILOGUES["s32"]),
    ],
    ids=str,
)
def test_others_have_no_registers_for_them(knobs: dict[str, Any], epilogue: Epilogue) -> None:
    space = gemm_wgmma.TEMPLATE.space(Gemm(8192, 8192, 8192, epilogue=epilogue), TARGET)
    assert "registers" in str(space.rejection(replace(WIDE, **knobs)))


@pytest.mark.parametrize("size", [4096, 8192])
def test_the_untuned_choice_has_fewer(size: int) -> None:
    assert gemm_wgmma.TEMPLATE.default(Gemm(size, size, size), TARGET).accumulators <= 176
