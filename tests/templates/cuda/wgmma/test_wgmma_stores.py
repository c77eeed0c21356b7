"""Outputs wider than a byte leave the wgmma pipeline in whole sectors, where a knob says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ptx.kernels import FENCED, assert_right_emulated
from wgmma_cases import EPILOGUES, TARGET
from with_nvcc import needs_nvcc

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.weights import MOST_CHANNELS
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import PERSISTENT, Grid, Shared, SplitTeam, WgmmaConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm

CONFIG = WgmmaConfig(
    block_n=64, row_bytes=32, per_stage=1, stages=4, team=SplitTeam(1, True), blocks_per_unit=1,
    grid=PERSISTENT, group=8, channels_outer=True, residual_early=False, residual_ahead=False,
    weights_stay=False, m_blocks=1, most_channels=4,
)  # fmt: skip

F16 = Epilogue("float16", row_scale=True, float_bias=True, activation="gelu")
TEAMS_OF_TWO = SplitTeam(2, False)

# Workload, knobs other than those of CONFIG, multiprocessors. Some rows end within the channels of
# a thread.
CASES: list[tuple[Gemm, dict[str, Any], int]] = [
    (Gemm(300, 200, 96, epilogue=EPILOGUES["s32"]), {"team": TEAMS_OF_TWO}, 3),
    (Gemm(230, 101, 64, "uint8", epilogue=EPILOGUES["s32"]), {"m_blocks": 2}, 3),
    (Gemm(200, 192, 1040, epilogue=EPILOGUES["f32"]),
     {"grid": Grid(False, 2, Shared.REDUCTION)}, 12),
    (Gemm(200, 192, 1040, epilogue=EPILOGUES["f32"]),
     {"team": SplitTeam(2, True, 2), "grid": Grid(False)}, 3),
    (Gemm(150, 90, 128, epilogue=F16), {"most_channels": 8, "per_stage": 2, "stages": 2}, 3),
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("workload, knobs, units", CASES, ids=str)
def test_every_element_is_right(workload: Gemm, knobs: dict[str, Any], units: int) -> None:
    target, config = TARGET.of_units(units), replace(CONFIG, **knobs)
    assert gemm_wgmma.TEMPLATE.space(workload, target).rejection(config) is None
    assert config.bounds_channels
    assert_right_emulated(gemm_wgmma.TEMPLATE, workload, config, target, FENCED)


@pytest.mark.parametrize("out_dtype", ["int8", "float16", "bfloat16", "int32", "float32"])
@pytest.mark.parametrize("extents", [(4096, 4096, 4096), (100, 1000, 512)])
def test_untuned_stores_are_of_whole_sectors(out_dtype: str, extents: tuple[int, int, int]) -> None:
    config = gemm_wgmma.TEMPLATE.default(Gemm(*extents, epilogue=Epilogue(out_dtype)), TARGET)
    # Four lanes, each a store of 16 bytes at most, have neighbouring channels of one row.
    assert config.channels * element(out_dtype).bytes <= 16


def test_a_bound_that_lowers_nothing_is_declined() -> None:
    space = gemm_wgmma.TEMPLATE.space(Gemm(300, 200, 128, epilogue=EPILOGUES["s32"]), TARGET)
    assert space.knobs["most_channels"] == (4, MOST_CHANNELS)
    narrow = replace(CONFIG, block_n=48)
    assert not narrow.bounds_channels
    assert "bounded only where it would have more" in str(space.rejection(narrow))
    assert space.rejection(replace(narrow, most_channels=MOST_CHANNELS)) is None


def test_a_record_without_the_knob_keeps_its_meaning() -> None:
    space = gemm_wgmma.TEMPLATE.space(Gemm(300, 200, 128, epilogue=EPILOGUES["s32"]), TARGET)
    recorded = space.to_dict(replace(CONFIG, most_channels=MOST_CHANNELS))
    del recorded["most_channels"]
    assert space.from_dict(recorded).channels == MOST_CHANNELS
