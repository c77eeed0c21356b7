"""The wgmma kernels on a GPU, every output element against numpy, over poisoned output."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from wgmma_cases import CASES, TARGET, TEMPLATES, case_id

from autoq.kernel import compile_kernel
from autoq.measure.check import complaint, threaded_reference
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.operands import random_case
from autoq.runtime.cuda_driver import Device, device_count
from autoq.templates.workload import Workload

pytestmark = pytest.mark.gpu

SAMPLES = 6


@functools.cache
def device() -> Device:
    if device_count() == 0:
        pytest.skip("no CUDA GPU")
    found = Device()
    if found.arch != "sm_90a":
        pytest.skip(f"needs a Hopper GPU, not {found.arch}")
    found.make_current()
    return found


@functools.lru_cache(maxsize=4)
def expectation(workload: Workload) -> tuple:
    activations, operands = random_case(workload, seed=7)
    return activations, operands, threaded_reference(workload, activations, operands, 8)


def check(name: str, workload: Workload, config: object) -> None:
    template = TEMPLATES[name]
    kernel = compile_kernel(template.build(workload, config, TARGET), TARGET)
    activations, operands, expected = expectation(workload)
    bench = CudaBench(device(), activations, expected)
    candidate = bench.load(kernel, template.pack(workload, config, operands))
    for poison in (0x55, 0xAA):
        wrong = complaint(candidate.run_over(poison), expected, workload, TARGET)
        assert wrong is None, f"{config}: {wrong}"
    assert not bench.restore_inputs(), f"{config}: inputs were written to"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_default_is_exact(case: tuple[str, Workload]) -> None:
    device()
    name, workload = case
    check(name, workload, TEMPLATES[name].default(workload, TARGET))


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sampled_configurations_are_exact(case: tuple[str, Workload]) -> None:
    device()
    name, workload = case
    space = TEMPLATES[name].space(workload, TARGET)
    for config in space.sample(np.random.default_rng(11), SAMPLES):
        check(name, workload, config)
