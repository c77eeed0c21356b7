"""Weights that stay arrive with the first tile's activations, however deep the ring is."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_kernels import assert_right, hopper_target
from wgmma_cases import EPILOGUES, TARGET

from autoq.kernel import compile_kernel
from autoq.templates.base import Template
from autoq.templates.cuda.wgmma import conv2d_im2col, conv2d_tap, gemm_wgmma
from autoq.templates.cuda.wgmma.config import PERSISTENT, SplitTeam, WgmmaConfig
from autoq.templates.cuda.wgmma.loads import MatrixLoad, PixelBox
from autoq.templates.cuda.wgmma.plan import PipelinePlan
from autoq.templates.operators.conv2d import Conv2d

ONE_TAP = Conv2d(20, 28, 28, 160, 200, 1, 1, in_dtype="uint8", epilogue=EPILOGUES["u8"])
RESIDUAL = Conv2d(20, 28, 28, 160, 192, 1, 1, epilogue=EPILOGUES["u8+s8 requantised"])
NINE_TAPS = Conv2d(40, 29, 27, 64, 96, 3, 3, (1, 2), (1, 1, 1, 1), epilogue=EPILOGUES["s32"])

# stages, per_stage, team, blocks_per_unit: rings shorter and longer than a tile of 5 or 9 steps.
RINGS = [
    (2, 1, SplitTeam(1, True), 1),
    (3, 1, SplitTeam(3, False), 1),
    (4, 2, SplitTeam(2, False), 1),
    (10, 1, SplitTeam(2, True), 1),
    (8, 1, SplitTeam(1, True), 2),
]


def config_of(template: Template, workload: Conv2d, ring: tuple[Any, ...]) -> Any:
    """A legal configuration with weights that stay."""
    stages, per_stage, team, blocks = ring
    own = {"tile": PixelBox(3, 6, 7)} if template.name == "conv2d_tap" else {"m_blocks": 1}
    config = template.space(workload, TARGET).from_dict(
        dict(block_n=64, row_bytes=64 if workload.r == 3 else 32, per_stage=per_stage,
             stages=stages, team=team, blocks_per_unit=blocks, grid=PERSISTENT, group=8,
             channels_outer=True, residual_early=False,
             residual_ahead=workload.epilogue.residual_dtype is not None and team.consumers < 3,
             weights_stay=True, **own)
    )  # fmt: skip
    return config


Case = tuple[Template, Conv2d, tuple[Any, ...]]
CASES: list[Case] = [
    (template, workload, ring)
    for ring in RINGS
    for template, workload in (
        (gemm_wgmma.TEMPLATE, ONE_TAP),
        (gemm_wgmma.TEMPLATE, RESIDUAL),
        (conv2d_im2col.TEMPLATE, NINE_TAPS),
        (conv2d_tap.TEMPLATE, NINE_TAPS),
    )
]


def case_id(case: Case) -> str:
    template, workload, (stages, _, team, _) = case
    return f"{template.name} {workload} {stages} {team}"


def plan_of(config: WgmmaConfig) -> PipelinePlan:
    layout = config.layout(ONE_TAP)
    return PipelinePlan(
        ONE_TAP, config, layout, MatrixLoad(ONE_TAP, layout, config.block_m), TARGET
    )


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_first_tile_expects_all_weights_once(ring: tuple[Any, ...]) -> None:
    config = config_of(gemm_wgmma.TEMPLATE, ONE_TAP, ring)
    plan = plan_of(config)
    steps = plan.layout.stages
    activations = plan.memory.transaction
    assert activations == config.per_stage * config.block_m * config.row_bytes
    assert plan.memory.b_stage_bytes * steps == config.resident_bytes(plan.layout)
    assert plan.memory.b_offset + plan.memory.b_stage_bytes * steps == plan.memory.slot_offset
    assert plan.early_stages == min(steps, config.stages)
    assert int(plan.expected(False)) == activations
    assert int(plan.expected(True)) == activations + plan.memory.b_stage_bytes
    assert plan.memory.barrier_offset + 8 * config.barriers == plan.memory.smem_bytes


@pytest.mark.parametrize("case", [CASES[0], CASES[7], CASES[10]], ids=case_id)
def test_compiles_without_spills(case: Case) -> None:
    template, workload, ring = case
    config = config_of(template, workload, ring)
    kernel = compile_kernel(template.build(workload, config, TARGET), TARGET)
    assert kernel.spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_every_element_is_exact(case: Case) -> None:
    target = hopper_target()
    template, workload, ring = case
    config = config_of(template, workload, ring)
    assert_right(template, workload, [(config, TARGET)], target, seed=9)
