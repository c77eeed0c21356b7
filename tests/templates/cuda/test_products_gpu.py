"""Integer products with all that may follow them on a GPU, every output element against numpy."""

from __future__ import annotations

import pytest
from gpu_kernels import assert_right, gpu_target, sampled
from workloads.products import (
    FACTORED_PRODUCTS,
    GROUPED_PRODUCTS,
    ODD_PRODUCTS,
    ONE_SCALE_PRODUCTS,
    PRODUCTS,
)

from autoq.templates.registry import matching

pytestmark = pytest.mark.gpu

SAMPLES = 3


ALL = (
    *PRODUCTS, *ODD_PRODUCTS, *GROUPED_PRODUCTS, *FACTORED_PRODUCTS, *ONE_SCALE_PRODUCTS,
)  # fmt: skip


@pytest.mark.parametrize("workload", ALL, ids=str)
def test_products(workload):
    target = gpu_target()
    templates = matching(workload, target)
    assert templates or (workload.epilogue.factor and not target.has_wgmma)
    for template in templates:
        configs = [template.default(workload, target)]
        configs += sampled(template, workload, target, 5, SAMPLES)
        assert_right(template, workload, [(config, target) for config in configs], target)
