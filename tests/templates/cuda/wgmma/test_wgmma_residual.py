"""Residuals in shared memory: threads read where TMA's boxes put each pixel's channels."""

from __future__ import annotations

import pytest
from wgmma_cases import EPILOGUES, TARGET

from autoq.templates.cuda.device.memory.swizzle import swizzle_period, swizzled_address
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import PERSISTENT, SplitTeam, WgmmaConfig
from autoq.templates.cuda.wgmma.loads import MatrixLoad
from autoq.templates.cuda.wgmma.plan import PipelinePlan
from autoq.templates.operators.conv2d import Conv2d


def plan_of(block_n: int) -> PipelinePlan:
    workload = Conv2d(8, 28, 28, 64, 768, 1, 1, epilogue=EPILOGUES["u8+s8 requantised"])
    config = WgmmaConfig(
        block_n, 64, 1, 2, team=SplitTeam(2, True), blocks_per_unit=1, grid=PERSISTENT, group=8,
        channels_outer=True, residual_early=False, residual_ahead=True, weights_stay=False,
        m_blocks=1,
    )  # fmt: skip
    assert gemm_wgmma.space(workload, TARGET).rejection(config) is None
    layout = config.layout(workload)
    load = MatrixLoad(workload, layout, config.block_m)
    return PipelinePlan(workload, config, layout, load, TARGET)


@pytest.mark.parametrize("block_n", [64, 128, 192, 256])
def test_residuals_are_read_where_they_lie(block_n: int) -> None:
    plan = plan_of(block_n)
    box = plan.config.residual_box
    dims, strides, extents = (
        plan.residual_map()[:2],
        plan.residual_map()[2],
        plan.residual_map()[3:5],
    )
    assert (dims, strides, extents) == ([768, 8 * 784], 768, [box, 128])
    swizzled = plan.residual_map()[-3] != 0
    for slot in range(plan.config.slots):
        start = plan.memory.slot_offset + slot * plan.config.slot_bytes
        assert start % (swizzle_period(128) if swizzled else 128) == 0
        for group in range(plan.groups):
            for row in range(plan.config.block_m):
                for column in range(4):
                    channel = group * 64 + column * 16
                    linear = channel // box * (box * 128) + row * box + channel % box
                    found = swizzled_address(start + linear, box) if swizzled else start + linear
                    lane = row % 8 * 4 + column
                    assert plan.memory.shared_residual_at(slot, group, row, lane) == found
