"""conv2d_halo lowers and compiles for sm_90a without spills, whatever its knobs."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from halo_cases import CASES

from autoq.kernel import compile_kernel
from autoq.runtime.kernel import TiledMap
from autoq.templates.cuda.conv2d_halo import TEMPLATE
from autoq.templates.cuda.halo_layout import HaloLayout
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")

pytestmark = pytest.mark.skipif(
    shutil.which("nvcc", path="/usr/local/cuda/bin") is None and shutil.which("nvcc") is None,
    reason="nvcc is not installed",
)


@pytest.mark.parametrize("workload", CASES, ids=str)
def test_default_compiles_without_spills(workload):
    config = TEMPLATE.default(workload, TARGET)
    kernel = compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET)
    layout = HaloLayout(workload, config, TARGET.units)
    assert kernel.spill_bytes == 0
    (launch,) = kernel.launches
    assert launch.smem_bytes == layout.smem_bytes
    assert launch.grid == (layout.grid, 1, 1)
    assert launch.block == (128 * (config.consumers + 1), 1, 1)
    maps = [argument for argument in launch.arguments if isinstance(argument, TiledMap)]
    boxes = {m.index: int(np.prod(m.box)) for m in maps}
    assert boxes[0] == layout.tile.load_bytes
    assert layout.weight_bytes in boxes.values()


@pytest.mark.parametrize("workload", CASES[::3], ids=str)
def test_samples_compile(workload):
    for config in TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(5), 2):
        kernel = compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET)
        assert kernel.registers <= HaloLayout(workload, config, TARGET.units).registers.launch
