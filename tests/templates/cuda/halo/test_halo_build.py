"""conv2d_halo lowers and compiles for sm_90a without spills, whatever its knobs."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from halo_cases import CASES

from autoq.kernel import compile_kernel
from autoq.runtime.kernel import TiledMap
from autoq.templates.cuda.device.launch.team import Team
from autoq.templates.cuda.halo.config import HaloConvConfig, WeightRing
from autoq.templates.cuda.halo.conv2d_halo import TEMPLATE
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.cuda.halo.tiling import HaloTiling
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")

pytestmark = pytest.mark.skipif(
    shutil.which("nvcc", path="/usr/local/cuda/bin") is None and shutil.which("nvcc") is None,
    reason="nvcc is not installed",
)


@pytest.mark.parametrize("workload", CASES[::2], ids=str)
def test_default_compiles_without_spills(workload):
    config = TEMPLATE.default(workload, TARGET)
    kernel = compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET)
    tiling = HaloTiling(workload, config, TARGET.units)
    assert kernel.spill_bytes == 0
    (launch,) = kernel.launches
    assert launch.smem_bytes == tiling.smem_bytes
    assert launch.grid == (tiling.grid, 1, 1)
    assert launch.block == (128 * (config.consumers + 1), 1, 1)
    maps = [argument for argument in launch.arguments if isinstance(argument, TiledMap)]
    boxes = {m.index: int(np.prod(m.box)) for m in maps}
    assert boxes[0] == tiling.tile.load_bytes


@pytest.mark.parametrize("workload", CASES[::6], ids=str)
def test_samples_compile(workload):
    for config in TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(5), 1):
        kernel = compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET)
        assert kernel.registers <= config.registers.launch


@pytest.mark.parametrize(
    "workload, tile, row_bytes, block_n, weights",
    [
        (CASES[4], TileShape(True, 1, 8, 38), 16, 48, WeightRing(4, 2)),
        (Conv2d(n=8, h=28, w=28, c=128, k=128, r=3, s=3, padding=(1, 1, 1, 1)),
         TileShape(True, 1, 28, 10), 64, 64, WeightRing(3, 1)),
        (Conv2d(n=8, h=28, w=28, c=128, k=128, r=3, s=3, padding=(1, 1, 1, 1)),
         TileShape(True, 2, 14, 8), 16, 96, WeightRing(4, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_three_consumers_share_the_blocks_of_a_tile(workload, tile, row_bytes, block_n, weights):
    config = HaloConvConfig(
        tile, row_bytes, block_n, Team(3, True), 3, weights, 1, False, 1, channels_outer=False
    )
    assert TEMPLATE.space(workload, TARGET).legal(config)
    kernel = compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET)
    assert kernel.spill_bytes == 0
