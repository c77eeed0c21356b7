"""The last stages of a tile, block by block: right, in the ring together, and not serialised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ptx.kernels import FENCED, assert_right_emulated
from wgmma_cases import EPILOGUES, TARGET
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.templates.base import Template
from autoq.templates.cuda.wgmma import conv2d_im2col, gemm_wgmma
from autoq.templates.cuda.wgmma.config import PERSISTENT, Grid, Shared, SplitTeam, WgmmaConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm

CONFIG = WgmmaConfig(
    block_n=32, row_bytes=32, per_stage=1, stages=4, team=SplitTeam(1, True), blocks_per_unit=1,
    grid=PERSISTENT, group=8, channels_outer=True, residual_early=False, residual_ahead=False,
    weights_stay=False, m_blocks=2, tail_stages=2,
)  # fmt: skip
TEAMS_OF_TWO = SplitTeam(2, False)

# Template, workload, knobs other than those of CONFIG, multiprocessors.
CASES: list[tuple[Template, Gemm | Conv2d, dict[str, Any], int]] = [
    (gemm_wgmma.TEMPLATE, Gemm(500, 100, 160, "uint8"), {"tail_stages": 4}, 3),
    (gemm_wgmma.TEMPLATE, Gemm(500, 100, 160, epilogue=EPILOGUES["s32"]),
     {"team": TEAMS_OF_TWO, "m_blocks": 3}, 2),
    (gemm_wgmma.TEMPLATE, Gemm(500, 160, 192, epilogue=EPILOGUES["s8+s8"]),
     {"team": SplitTeam(2, True), "residual_early": True}, 2),
    (gemm_wgmma.TEMPLATE, Gemm(500, 160, 192, epilogue=EPILOGUES["u8+s8 requantised"]),
     {"block_n": 64, "residual_ahead": True}, 2),
    (gemm_wgmma.TEMPLATE, Gemm(500, 192, 128, epilogue=EPILOGUES["f32"]),
     {"team": TEAMS_OF_TWO, "grid": Grid(True, 2, Shared.ACTIVATIONS), "most_channels": 4}, 4),
    (gemm_wgmma.TEMPLATE, Gemm(1000, 60, 128), {"weights_stay": True}, 4),
    (conv2d_im2col.TEMPLATE,
     Conv2d(2, 14, 14, 32, 64, 3, 3, (2, 2), (1, 1, 1, 1), zero_point_border=True), {}, 2),
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
    assert_right_emulated(template, workload, config, target, FENCED)


@needs_nvcc
@pytest.mark.parametrize("cooperative, stages, tail_stages", [(True, 4, 4), (False, 6, 2)])
def test_products_under_an_epilogue_are_not_serialised(
    cooperative: bool, stages: int, tail_stages: int
) -> None:
    config = replace(
        CONFIG, block_n=128, row_bytes=128, team=SplitTeam(2, cooperative), stages=stages,
        tail_stages=tail_stages,
    )  # fmt: skip
    workload = Gemm(2048, 2048, 2048)
    assert gemm_wgmma.TEMPLATE.space(workload, TARGET).rejection(config) is None
    prim_func = gemm_wgmma.TEMPLATE.build(workload, config, TARGET)
    assert compile_kernel(prim_func, TARGET).spill_bytes == 0


@pytest.mark.parametrize(
    "workload, knobs, why",
    [
        (Gemm(500, 100, 160), {"m_blocks": 1}, "two or three blocks"),
        (Gemm(500, 100, 256, epilogue=Epilogue("float32", scale_group=64)), {}, "finish whole"),
        (Gemm(500, 100, 128), {"tail_stages": 4}, "others come before"),
        (Gemm(500, 100, 320), {"tail_stages": 4, "stages": 3}, "in the ring together"),
    ],
    ids=str,
)
def test_other_tails_are_declined(workload: Gemm, knobs: dict[str, Any], why: str) -> None:
    space = gemm_wgmma.TEMPLATE.space(workload, TARGET.of_units(3))
    assert why in str(space.rejection(replace(CONFIG, **knobs)))
