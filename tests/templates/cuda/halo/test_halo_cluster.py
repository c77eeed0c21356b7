"""Clusters of the halo convolutions: who computes which tile, who loads which weights."""

from __future__ import annotations

import dataclasses
import shutil

import pytest
from gpu_kernels import sampled

from autoq.kernel import compile_kernel
from autoq.templates.cuda.device.memory.swizzle import swizzle_period
from autoq.templates.cuda.halo import conv2d_halo
from autoq.templates.cuda.halo.config import ResidentWeights, WeightRing
from autoq.templates.cuda.halo.plan import HaloPlan
from autoq.templates.cuda.halo.swapped import conv2d_swapped, conv2d_swapped_im2col
from autoq.templates.cuda.halo.swapped.plan import SwappedPlan
from autoq.templates.cuda.halo.swapped.tiling import SwappedTiling
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.cuda.halo.tiling import HaloTiling
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
WORKLOAD = Conv2d(n=3, h=13, w=12, c=64, k=320, r=3, s=3, padding=(1, 1, 1, 1))
TEMPLATES = [template.TEMPLATE for template in (conv2d_halo, conv2d_swapped, conv2d_swapped_im2col)]


def clustered(template, count):
    found = sampled(template, WORKLOAD, TARGET, 7, 40 * count)
    return [config for config in found if config.cluster > 1][:count]


@pytest.mark.parametrize("units", [4, 132])
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("resident", [False, True])
def test_each_tile_once_and_partners_share_their_channels(units, cluster, resident):
    config = dataclasses.replace(
        conv2d_swapped.TEMPLATE.default(WORKLOAD, TARGET), tile=TileShape(False, 1, 3, 8),
        block_n=128, weights=ResidentWeights() if resident else WeightRing(3, 1), cluster=cluster,
    )  # fmt: skip
    tiling = SwappedTiling(WORKLOAD, config, units if not resident else max(units, 6))
    assert tiling.grid % cluster == 0 and tiling.work % cluster == 0
    tiles = [tiling.tile_of(work) for work in range(tiling.work)]
    assert sorted(t for t in tiles if t[0] < tiling.tile.tiles) == [
        (m, n) for m in range(tiling.tile.tiles) for n in range(tiling.n_tiles)
    ]
    for work in range(0, tiling.work, cluster):
        assert len({n for _, n in tiles[work : work + cluster]}) == 1
    if resident:
        for cta in range(tiling.grid):
            assert len({n for _, n in tiles[cta :: tiling.grid]}) == 1


@pytest.mark.parametrize("template", [conv2d_halo, conv2d_swapped])
@pytest.mark.parametrize("block_n", [64, 192])
def test_parts_of_weights_are_a_step(template, block_n):
    config = dataclasses.replace(
        template.TEMPLATE.default(WORKLOAD, TARGET), block_n=block_n, cluster=2
    )
    plan, alone = (
        SwappedPlan(SwappedTiling(WORKLOAD, c, TARGET.units))
        if template is conv2d_swapped
        else HaloPlan(HaloTiling(WORKLOAD, c, TARGET.units))
        for c in (config, dataclasses.replace(config, cluster=1))
    )
    (start, size), (first, half), (second, other) = (
        p.weight_span(5, 1, 1, rank) for p, rank in ((alone, 0), (plan, 0), (plan, 1))
    )
    assert (first, second) == (start, start + half) and half + other == size
    assert half % swizzle_period(plan.tile.step_bytes) == 0
    assert alone.weight_span(5, 3, 1, 0) == (start, 3 * size)
    assert alone.weight_span(6, 1, 1, 0) == (start + size, size)
    last = alone.weight_span(0, plan.tiling.steps_per_tile, plan.tiling.n_tiles - 1, 0)
    assert (sum(last),) == plan.weight_shape


@pytest.mark.skipif(
    shutil.which("nvcc", path="/usr/local/cuda/bin") is None and shutil.which("nvcc") is None,
    reason="nvcc is not installed",
)
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_clustered_kernels_compile(template):
    (config,) = clustered(template, 1)
    kernel = compile_kernel(template.build(WORKLOAD, config, TARGET), TARGET)
    (launch,) = kernel.launches
    assert launch.cluster == (config.cluster, 1, 1)
    assert launch.grid[0] % config.cluster == 0
    assert kernel.spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
@pytest.mark.parametrize("epilogue", [Epilogue("int8"), Epilogue("uint8")], ids=str)
def test_clustered_kernels_are_bit_exact(template, epilogue):
    from halo_check import wrong_among

    workload = dataclasses.replace(WORKLOAD, epilogue=epilogue, zero_point_border=True)
    wrong = wrong_among(template, workload, clustered(template, 4))
    assert not wrong, "\n".join(wrong)
