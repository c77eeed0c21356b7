"""Mixed-input products on a GPU, every output element against numpy, over poisoned output."""

from __future__ import annotations

import pytest
from gpu_kernels import compiled, hopper_target, sampled
from mixed_cases import CASES

from autoq.measure.arrays import random_case
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.runtime.cuda_driver import Device
from autoq.templates.cuda.mixed.float_gemm_wgmma import TEMPLATE
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

pytestmark = pytest.mark.gpu

TARGET = parse_target("cuda:sm_90a")
SAMPLES = 2


@pytest.mark.parametrize("workload", CASES, ids=repr)
def test_every_element_is_right(workload: FloatGemm) -> None:
    target = hopper_target()
    configs = [TEMPLATE.default(workload, TARGET)]
    configs += sampled(TEMPLATE, workload, TARGET, 11, SAMPLES)
    kernels = compiled(TEMPLATE, workload, [(config, TARGET) for config in configs], target)
    activations, constants = random_case(workload, seed=7)
    expected = workload.reference_in_threads(activations, constants, 8)
    bench = CudaBench(Device(), activations, expected)
    failures = []
    for config, kernel in zip(configs, kernels, strict=True):
        candidate = bench.load(kernel, TEMPLATE.pack(workload, config, constants))
        for poison in (0x55, 0xAA):
            wrong = complaints(candidate.run_over(poison), expected, workload, TARGET)
            if wrong:
                failures.append(f"{config}: {wrong}")
        if bench.restore_inputs():
            failures.append(f"{config}: inputs were written to")
    assert not failures, "\n".join(failures)
