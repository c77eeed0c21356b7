"""conv2d_mma_sync lowers and compiles for every target it serves, its defaults without spills."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from compiled_defaults import compiled_default
from mma_sync_cases import CASES, INT4_CASES, case_id

from autoq.kernel import compile_kernel
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.cuda.mma_sync.cost import registers
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling, as_conv2d
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

pytestmark = pytest.mark.skipif(
    shutil.which("nvcc") is None and shutil.which("nvcc", path="/usr/local/cuda/bin") is None,
    reason="nvcc is not installed",
)

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a")


@pytest.mark.parametrize(
    ("workload", "arch"),
    [(workload, ARCHS[i % len(ARCHS)]) for i, workload in enumerate([*CASES, *INT4_CASES][::2])],
    ids=case_id,
)
def test_default_compiles_without_spills(workload, arch):
    kernel, _ = compiled_default(
        TEMPLATE,
        workload,
        parse_target(f"cuda:{arch}"),
        lambda product, config, _: MmaSyncTiling(as_conv2d(product), config),
    )
    inputs = 2 if workload.epilogue.residual_dtype else 1
    constants = 2 if workload.epilogue.out_dtype == "int32" else 4
    assert len(kernel.parameters) == inputs + constants + 1


@pytest.mark.parametrize(
    ("arch", "workloads"), [("sm_75", (CASES[1], CASES[10])), ("sm_80", (CASES[9], INT4_CASES[2]))]
)
def test_sampled_configurations_compile(arch, workloads):
    target = parse_target(f"cuda:{arch}")
    rng = np.random.default_rng(7)
    for workload in workloads:
        (config,) = TEMPLATE.space(workload, target).sample(rng, 1)
        kernel = compile_kernel(TEMPLATE.build(workload, config, target), target)
        assert kernel.registers * config.threads * config.blocks_per_sm <= 65536


@pytest.mark.parametrize(
    ("arch", "duplicates", "packing", "images"),
    [
        ("sm_75", "shared", "shared", False),
        ("sm_80", "register", "shuffle", True),
        ("sm_90a", "register", "weights", False),
    ],
)
def test_each_way_to_load_and_to_pack_compiles_without_spills(arch, duplicates, packing, images):
    target = parse_target(f"cuda:{arch}")
    workload = Conv2d(
        8, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1), epilogue=Epilogue("int8", "int8")
    )
    config = MmaSyncConfig(2, 2, 2, 4, 1, False, 2, True, 1, "s8", duplicates, packing, 2, images)
    assert TEMPLATE.space(workload, target).rejection(config) is None
    kernel = compile_kernel(TEMPLATE.build(workload, config, target), target)
    assert kernel.spill_bytes == 0
    assert registers(MmaSyncTiling(workload, config), target) >= kernel.registers - 24
