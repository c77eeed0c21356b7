"""Tiles that blocks of the wgmma pipeline share out by their stages: right, and not serialised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ptx.kernels import FENCED, assert_right_emulated
from wgmma_cases import EPILOGUES, TARGET
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.templates.base import Template
from autoq.templates.cuda.wgmma import gemm_wgmma, gemm_wgmma_padded
from autoq.templates.cuda.wgmma.config import (
    PERSISTENT,
    Grid,
    Shared,
    SplitTeam,
    WgmmaConfig,
)
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm

CONFIG = WgmmaConfig(
    block_n=32, row_bytes=32, per_stage=1, stages=4, team=SplitTeam(1, True), blocks_per_unit=1,
    grid=PERSISTENT, group=8, channels_outer=True, residual_early=False, residual_ahead=False,
    weights_stay=False, m_blocks=1, stream_k=True,
)  # fmt: skip
TEAMS_OF_TWO = SplitTeam(2, False)

# Template, workload, knobs other than those of CONFIG, multiprocessors. A tile has up to four
# givers; teams take pieces of one stage and of whole tiles in turn.
CASES: list[tuple[Template, Gemm, dict[str, Any], int]] = [
    (gemm_wgmma.TEMPLATE, Gemm(70, 60, 320, "uint8"), {"block_n": 64}, 7),
    (gemm_wgmma.TEMPLATE, Gemm(200, 100, 320, epilogue=EPILOGUES["s32"]),
     {"team": TEAMS_OF_TWO}, 3),
    (gemm_wgmma.TEMPLATE, Gemm(300, 160, 192, epilogue=EPILOGUES["s8+s8"]),
     {"team": SplitTeam(3, False), "residual_early": True}, 4),
    (gemm_wgmma.TEMPLATE, Gemm(250, 200, 192),
     {"team": TEAMS_OF_TWO, "grid": Grid(True, 2, Shared.WEIGHTS)}, 6),
    (gemm_wgmma_padded.TEMPLATE, Gemm(300, 100, 150, epilogue=EPILOGUES["f32"]),
     {"team": SplitTeam(2, True)}, 5),
]  # fmt: skip


def case_id(value: object) -> str:
    """A readable test name."""
    return value.name if isinstance(value, Template) else str(value)


@needs_nvcc
@pytest.mark.parametrize("template, workload, knobs, units", CASES, ids=case_id)
def test_every_element_is_right(
    template: Template, workload: Gemm, knobs: dict[str, Any], units: int
) -> None:
    target, config = TARGET.of_units(units), replace(CONFIG, **knobs)
    assert template.matches(workload, target)
    assert template.space(workload, target).rejection(config) is None
    assert_right_emulated(template, workload, config, target, FENCED)


@needs_nvcc
def test_the_products_of_a_share_are_not_serialised() -> None:
    config = replace(CONFIG, block_n=128, row_bytes=128, stages=6, team=TEAMS_OF_TWO, m_blocks=2)
    workload = Gemm(3456, 4096, 2048)
    assert gemm_wgmma.TEMPLATE.space(workload, TARGET).rejection(config) is None
    (stage,) = gemm_wgmma.TEMPLATE.program(workload, config, TARGET).stages
    assert compile_kernel(stage.function, TARGET).spill_bytes == 0


def test_whole_waves_and_convolutions_are_not_shared_out() -> None:
    space = gemm_wgmma.TEMPLATE.space(Gemm(128, 64, 64), TARGET.of_units(2))
    assert "fill no whole waves" in str(space.rejection(CONFIG))
    pixels = Conv2d(20, 28, 28, 160, 200, 1, 1)
    assert gemm_wgmma.TEMPLATE.space(pixels, TARGET).knobs["stream_k"] == (False,)
