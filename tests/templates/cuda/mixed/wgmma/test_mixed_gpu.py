"""Mixed-input products on a GPU, every output element against numpy, over poisoned output."""

from __future__ import annotations

import pytest
from gpu_kernels import assert_right, hopper_target, sampled
from mixed_cases import CASES, FORMS

from autoq.templates.cuda.mixed.wgmma.float_gemm_wgmma import TEMPLATE
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

pytestmark = pytest.mark.gpu

TARGET = parse_target("cuda:sm_90a")
SAMPLES = 2


@pytest.mark.parametrize("workload", [*CASES, *FORMS], ids=repr)
def test_every_element_is_right(workload: FloatGemm) -> None:
    target = hopper_target()
    configs = [TEMPLATE.default(workload, TARGET)]
    configs += sampled(TEMPLATE, workload, TARGET, 11, SAMPLES)
    assert_right(TEMPLATE, workload, [(config, TARGET) for config in configs], target)
