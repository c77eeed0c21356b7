"""Products with weights of random extents and kinds: on a GPU, and some on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import assert_right, gpu_target, sampled
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc
from workloads.random_products import random_float_gemm, random_gemm

from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

_RNG = np.random.default_rng(14)
WORKLOADS = [
    *(random_gemm(_RNG) for _ in range(30)),
    *(random_float_gemm(_RNG) for _ in range(30)),
]
ARCHS = ("sm_90a", "sm_80", "sm_89", "sm_75")


@pytest.mark.gpu
@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_right_on_a_gpu(workload: Gemm | FloatGemm) -> None:
    target = gpu_target()
    templates = matching(workload, target)
    assert templates
    for template in templates:
        configs = [template.default(workload, target), *sampled(template, workload, target, 3, 1)]
        assert_right(template, workload, [(config, target) for config in configs], target)


@needs_nvcc
@pytest.mark.parametrize("number", range(0, len(WORKLOADS), 8))
def test_right_on_the_emulator(number: int) -> None:
    workload = WORKLOADS[number]
    turn = number // 8 % len(ARCHS)
    for arch in (*ARCHS[turn:], *ARCHS[:turn]):
        target = parse_target(f"cuda:{arch}")
        if templates := matching(workload, target):
            template = templates[0]
            assert_right_emulated(template, workload, template.default(workload, target), target)
            return
    raise AssertionError(f"{workload} has no template")
