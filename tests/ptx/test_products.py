"""What follows integer products on GPUs, whole outputs compared on the emulator."""

from __future__ import annotations

import dataclasses

import pytest
from with_nvcc import needs_nvcc
from workloads.products import (
    FACTORED_PRODUCTS,
    GROUPED_PRODUCTS,
    ODD_PRODUCTS,
    ONE_SCALE_PRODUCTS,
    PRODUCTS,
)

from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE as MMA_SYNC
from autoq.templates.cuda.simt.conv2d_direct import TEMPLATE as DIRECT
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import parse_target
from ptx.kernels import assert_right_emulated

pytestmark = needs_nvcc

ARCHS = ("sm_80", "sm_75", "sm_89", "sm_86")
CASES = {
    f"{case} {template.name} {ARCHS[case % 4]}": (template, workload, ARCHS[case % 4])
    for case, workload in enumerate(PRODUCTS)
    for template in ((MMA_SYNC, DIRECT) if case in (0, 1, 5, 8) else (MMA_SYNC,))
}


@pytest.mark.parametrize("name", CASES)
def test_products(name):
    template, workload, arch = CASES[name]
    target = parse_target(f"cuda:{arch}")
    config = template.default(workload, target)
    if workload.epilogue.activation == "relu":
        config = dataclasses.replace(config, packing="shared")
    assert_right_emulated(template, workload, config, target)


@pytest.mark.parametrize("case", range(len(ODD_PRODUCTS)))
def test_odd_rows(case):
    workload, target = ODD_PRODUCTS[case], parse_target(f"cuda:{ARCHS[case % 4]}")
    template = matching(workload, target)[0]
    assert_right_emulated(template, workload, template.default(workload, target), target)


# Each activation and kind of residual once; mma.sync has all of them.
OF_WARPGROUPS = (*PRODUCTS[1:4], *PRODUCTS[5:], *ODD_PRODUCTS[:2], *GROUPED_PRODUCTS[1:],
                 *FACTORED_PRODUCTS, *ONE_SCALE_PRODUCTS)  # fmt: skip


@pytest.mark.parametrize("workload", OF_WARPGROUPS, ids=str)
def test_products_of_warpgroups(workload):
    target = parse_target("cuda:sm_90a")
    names = ("gemm_wgmma", "gemm_wgmma_padded")  # behind another template where rows are few
    template = next(each for each in matching(workload, target) if each.name in names)
    assert_right_emulated(template, workload, template.default(workload, target), target)


def test_factors_are_for_warpgroups_alone():
    for arch in ("cuda:sm_80", "cuda:sm_75", "cpu"):
        assert not matching(FACTORED_PRODUCTS[0], parse_target(arch))


@pytest.mark.parametrize("case", range(len(GROUPED_PRODUCTS)))
def test_groups_of_scales(case):
    workload, target = GROUPED_PRODUCTS[case], parse_target(f"cuda:{ARCHS[case % 4]}")
    config = dataclasses.replace(
        MMA_SYNC.default(workload, target), packing=("weights", "shared")[case % 2]
    )
    assert_right_emulated(MMA_SYNC, workload, config, target)


def test_groups_of_nibbles():
    epilogue = Epilogue("float16", scale_group=32, float_bias=True)
    workload = Gemm(9, 24, 96, "uint4", "int4", epilogue)
    target = parse_target("cuda:sm_89")
    assert_right_emulated(MMA_SYNC, workload, MMA_SYNC.default(workload, target), target)
