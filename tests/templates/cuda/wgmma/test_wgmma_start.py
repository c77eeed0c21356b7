"""Stages that come before a block meets: right with tails of every kind, and whose they may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ptx.kernels import FENCED, assert_right_emulated
from wgmma_cases import EPILOGUES, TARGET
from with_nvcc import needs_nvcc

from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import PERSISTENT, Grid, Shared, SplitTeam, WgmmaConfig
from autoq.templates.operators.gemm import Gemm

CONFIG = WgmmaConfig(
    block_n=32, row_bytes=32, per_stage=1, stages=4, team=SplitTeam(1, True), blocks_per_unit=1,
    grid=PERSISTENT, group=8, channels_outer=True, residual_early=False, residual_ahead=False,
    weights_stay=False, m_blocks=1, early_loads=2,
)  # fmt: skip

# Workload, knobs other than those of CONFIG, multiprocessors.
CASES: list[tuple[Gemm, dict[str, Any], int]] = [
    (Gemm(300, 100, 80, "uint8", epilogue=EPILOGUES["s32"]),
     {"team": SplitTeam(2, False), "stages": 8, "weights_once": True, "early_loads": 1}, 2),
    (Gemm(300, 160, 192, epilogue=EPILOGUES["u8+s8 requantised"]),
     {"block_n": 64, "residual_ahead": True}, 2),
    (Gemm(64, 64, 1024),
     {"grid": Grid(False, 2, Shared.REDUCTION), "row_bytes": 64}, 8),
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("workload, knobs, units", CASES, ids=str)
def test_every_element_is_right(workload: Gemm, knobs: dict[str, Any], units: int) -> None:
    target, config = TARGET.of_units(units), replace(CONFIG, **knobs)
    assert gemm_wgmma.TEMPLATE.space(workload, target).rejection(config) is None
    assert_right_emulated(gemm_wgmma.TEMPLATE, workload, config, target, FENCED)


@pytest.mark.parametrize(
    "knobs",
    [
        {"grid": Grid(True, 2, Shared.WEIGHTS)},
        {"weights_stay": True},
        {"stream_k": True},
    ],
)
def test_stages_that_others_share_or_cut_come_late(knobs: dict[str, Any]) -> None:
    target, workload = TARGET.of_units(6), Gemm(1024, 64, 128)
    config = replace(CONFIG, **knobs)
    assert "before a block meets" in str(
        gemm_wgmma.TEMPLATE.space(workload, target).rejection(config)
    )
