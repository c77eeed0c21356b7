"""Stages that come before a block meets: right with tails of every kind, and whose they may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ptx.kernels import assert_right_emulated
from wgmma_cases import EPILOGUES, TARGET
from with_nvcc import needs_nvcc

from autoq.templates.base import Template
from autoq.templates.cuda.wgmma import conv2d_im2col, gemm_wgmma
from autoq.templates.cuda.wgmma.config import PERSISTENT, Grid, Shared, SplitTeam, WgmmaConfig
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm

CONFIG = WgmmaConfig(
    block_n=32, row_bytes=32, per_stage=1, stages=4, team=SplitTeam(1, True), blocks_per_unit=1,
    grid=PERSISTENT, group=8, channels_outer=True, residual_early=False, residual_ahead=False,
    weights_stay=False, m_blocks=1, early_loads=2,
)  # fmt: skip

# Template, workload, knobs other than those of CONFIG, multiprocessors.
CASES: list[tuple[Template, Gemm | Conv2d, dict[str, Any], int]] = [
    (gemm_wgmma.TEMPLATE, Gemm(300, 100, 208, "uint8"),
     {"weights_once": True, "early_loads": 1}, 3),
    (gemm_wgmma.TEMPLATE, Gemm(300, 100, 80, epilogue=EPILOGUES["s32"]),
     {"team": SplitTeam(2, False), "stages": 8}, 2),
    (gemm_wgmma.TEMPLATE, Gemm(300, 160, 192, epilogue=EPILOGUES["u8+s8 requantised"]),
     {"block_n": 64, "residual_ahead": True}, 2),
    (gemm_wgmma.TEMPLATE, Gemm(64, 64, 1024),
     {"grid": Grid(False, 2, Shared.REDUCTION), "row_bytes": 64}, 8),
    (conv2d_im2col.TEMPLATE, Conv2d(2, 14, 14, 32, 64, 3, 3, (2, 2), (1, 1, 1, 1)), {}, 2),
]  # fmt: skip


def case_id(value: object) -> str:
    """A readable test name."""
    return value.name if isinstance(value, Template) else str(value)


@needs_nvcc
@pytest.mark.parametrize("template, workload, knobs, units", CASES, ids=case_id)
def test_every_element_is_right(
    template: Template, workload: Gemm | Conv2d, knobs: dict[str, Any], units: int
) -> None:
    target, config = TARGET.of_units(units), replace(CONFIG, **knobs)
    assert template.space(workload, target).rejection(config) is None
    assert_right_emulated(template, workload, config, target)


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
