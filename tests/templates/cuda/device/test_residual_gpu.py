"""Residual products on a GPU, every output element against numpy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_kernels import assert_right, gpu_target, sampled

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
