"""Residual products on a GPU, every output element against numpy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_kernels import assert_right, gpu_target, sampled

from autoq.templates.cuda.wgmma import residual_gemm_wgmma
from autoq.templates.cuda.wgmma.config import SplitTeam
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.registry import matching

pytestmark = pytest.mark.gpu

SPARSE = ResidualGemm(1000, 1300, 2064)
WORKLOADS = [
    SPARSE,
    replace(SPARSE, b_order="nk", bits=4, bias=True),
    replace(SPARSE, m=129, n=515, k=9001, constant_b=True),
    replace(SPARSE, correction="none", bias=True),
    replace(SPARSE, k=1001, correction="full", b_order="nk"),
    ResidualGemm(1, 1, 1),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_residual_products(workload: ResidualGemm) -> None:
    target = gpu_target()
    templates = matching(workload, target)
    assert templates
    for template in templates:
        configs = [template.default(workload, target)]
        configs += sampled(template, workload, target, 5, 2)
        assert_right(template, workload, [(config, target) for config in configs], target)


@pytest.mark.parametrize("bias", [False, True])
def test_lists_that_are_there_before_the_product(bias: bool) -> None:
    """Of two blocks that share weights, and of columns and rows that fill no whole tiles."""
    workload, target = replace(SPARSE, n=1400, bias=bias), gpu_target()
    template = residual_gemm_wgmma.TEMPLATE
    if template not in matching(workload, target):
        pytest.skip("this GPU has no wgmma")
    large = template.default(replace(workload, m=8192, n=8192), target)
    knobs = {"block_n": 256, "m_blocks": 1, "team": SplitTeam(2, True), "foresees": True}
    names = "stages", "grid", "row_bytes", "per_stage", "most_channels", "blocks_per_unit"
    knobs |= {name: getattr(large, name) for name in names}
    config = replace(template.default(workload, target), **knobs)
    assert config in template.space(workload, target)
    assert_right(template, workload, [(config, target)], target)
