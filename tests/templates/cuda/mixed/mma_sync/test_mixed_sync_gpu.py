"""Mixed-input products on mma.sync on a GPU, every output element against numpy."""

from __future__ import annotations

import pytest
from gpu_kernels import assert_right, gpu_target, sampled
from mixed_cases import CASES, FORMS, ODD_CASES, ODD_FORMS

from autoq.templates.cuda.mixed.mma_sync.float_gemm_mma_sync import TEMPLATE
from autoq.templates.operators.float_gemm import FloatGemm

pytestmark = pytest.mark.gpu

SAMPLES = 3


@pytest.mark.parametrize("workload", [*CASES, *FORMS, *ODD_CASES, *ODD_FORMS], ids=repr)
def test_every_element_is_right(workload: FloatGemm) -> None:
    target = gpu_target()
    if not TEMPLATE.matches(workload, target):
        pytest.skip(f"{target.arch} does not multiply {workload.in_dtype}")
    configs = [TEMPLATE.default(workload, target)]
    configs += sampled(TEMPLATE, workload, target, 13, SAMPLES)
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target)
