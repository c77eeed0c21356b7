"""Resident weights of the halo convolutions that arrive in parts, each with a barrier."""

from __future__ import annotations

import dataclasses
import re
import shutil

import pytest
from gpu_kernels import sampled

from autoq.kernel import compile_kernel
from autoq.templates.cuda.device.launch.team import Team
from autoq.templates.cuda.halo import conv2d_halo
from autoq.templates.cuda.halo.config import ResidentWeights
from autoq.templates.cuda.halo.cost import estimated_cycles
from autoq.templates.cuda.halo.swapped import conv2d_swapped, conv2d_swapped_im2col
from autoq.templates.cuda.halo.swapped.tiling import SwappedTiling
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
WORKLOAD = Conv2d(n=3, h=13, w=12, c=64, k=80, r=3, s=3, padding=(1, 1, 1, 1))
TEMPLATES = [template.TEMPLATE for template in (conv2d_halo, conv2d_swapped, conv2d_swapped_im2col)]


def swapped(weights, row_bytes=32, cluster=1):
    return dataclasses.replace(
        conv2d_swapped.TEMPLATE.default(WORKLOAD, TARGET), tile=TileShape(False, 1, 4, 8),
        block_n=64, row_bytes=row_bytes, halo_stages=2, weights=weights, team=Team(1, True),
        turns=False, cluster=cluster,
    )  # fmt: skip


def in_parts(template, workload, count):
    found = sampled(template, workload, TARGET, 5, 24 * count)
    return [config for config in found if config.in_parts][:count]


@pytest.mark.parametrize("steps, parts", [(1, 18), (3, 6), (5, 4), (9, 2)])
def test_parts_take_the_room_and_the_blocks_of_resident_weights(steps, parts):
    whole, tiling = (
        SwappedTiling(WORKLOAD, swapped(ResidentWeights(together)), TARGET.units)
        for together in (None, steps)
    )
    assert (tiling.weights_end, tiling.grid) == (whole.weights_end, whole.grid)
    assert tiling.weight_barriers == parts
    assert tiling.barriers == whole.barriers + parts - 1
    assert estimated_cycles(tiling) < estimated_cycles(whole)


def test_a_part_is_at_most_the_steps_of_a_tile():
    legal = conv2d_swapped.TEMPLATE.space(WORKLOAD, TARGET).legal
    assert legal(swapped(ResidentWeights(2))) and legal(swapped(ResidentWeights(9), row_bytes=64))
    column = dataclasses.replace(WORKLOAD, s=1, padding=(1, 0, 1, 0))
    legal = conv2d_swapped.TEMPLATE.space(column, TARGET).legal
    assert legal(swapped(ResidentWeights(5))) and not legal(swapped(ResidentWeights(9)))
    assert legal(swapped(ResidentWeights(3), row_bytes=64))
    assert not legal(swapped(ResidentWeights(5), row_bytes=64))


@pytest.mark.parametrize("cluster", [1, 2])
def test_only_a_cluster_waits_for_all_its_threads_before_it_loads(cluster):
    config = swapped(ResidentWeights(3), cluster=cluster)
    script = conv2d_swapped.TEMPLATE.build(WORKLOAD, config, TARGET).script()
    assert bool(re.search(r'T\.ptx\.bar\(.*"arrive"', script)) == (cluster == 1)


@pytest.mark.skipif(
    shutil.which("nvcc", path="/usr/local/cuda/bin") is None and shutil.which("nvcc") is None,
    reason="nvcc is not installed",
)
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_kernels_in_parts_compile(template):
    (config,) = in_parts(template, WORKLOAD, 1)
    kernel = compile_kernel(template.build(WORKLOAD, config, TARGET), TARGET)
    assert kernel.spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
@pytest.mark.parametrize("n", [3, 64])
def test_kernels_in_parts_are_bit_exact(template, n):
    from halo_check import wrong_among

    workload = dataclasses.replace(
        WORKLOAD, n=n, epilogue=Epilogue("uint8"), zero_point_border=True
    )
    wrong = wrong_among(template, workload, in_parts(template, workload, 6))
    assert not wrong, "\n".join(wrong)
