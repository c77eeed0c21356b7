"""The mma.sync kernels on a GPU, every output element against numpy, over poisoned output."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from mma_sync_cases import CASES, INT4_CASES, case_id, random_blocked, random_four_bit

from autoq.kernel import compile_kernel
from autoq.measure.check import complaint, threaded_reference
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.operands import random_case, stored_activations, stored_output
from autoq.runtime.cuda_driver import Device, device_count
from autoq.templates.cuda.conv2d_mma_sync import TEMPLATE
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

pytestmark = pytest.mark.gpu

SAMPLES = 3
# Drawn to find one of each way to load duplicates with each way to pack.
DRAWN = 64


@functools.cache
def device() -> Device:
    if device_count() == 0:
        pytest.skip("no CUDA GPU")
    found = Device()
    found.make_current()
    return found


@functools.lru_cache(maxsize=4)
def expectation(workload: Workload) -> tuple:
    values, operands = random_case(workload, seed=7)
    expected = threaded_reference(workload, values, operands, 8)
    return stored_activations(workload, values), operands, stored_output(workload, expected)


def forms() -> list[Target]:
    """Targets whose form of the kernel this GPU can run: compiled for its own arch."""
    capability = parse_target(f"cuda:{device().arch}").compute_capability
    return [
        parse_target(f"cuda:{arch}")
        for arch in ("sm_75", "sm_80")
        if int(arch.removeprefix("sm_")) <= capability
    ]


def check(workload: Workload, config: object, form: Target) -> None:
    own = parse_target(f"cuda:{device().arch}")
    kernel = compile_kernel(TEMPLATE.build(workload, config, form), own)
    activations, operands, expected = expectation(workload)
    bench = CudaBench(device(), activations, expected)
    candidate = bench.load(kernel, TEMPLATE.pack(workload, config, operands))
    for poison in (0x55, 0xAA):
        wrong = complaint(candidate.run_over(poison), expected, workload, own)
        assert wrong is None, f"{form.arch} {config}: {wrong}"
    assert not bench.restore_inputs(), f"{form.arch} {config}: inputs were written to"


@pytest.mark.parametrize("workload", CASES + INT4_CASES, ids=case_id)
def test_default_is_exact(workload: Workload) -> None:
    for form in forms():
        check(workload, TEMPLATE.default(workload, form), form)


@pytest.mark.parametrize("workload", CASES + INT4_CASES[::2], ids=case_id)
def test_sampled_configurations_are_exact(workload: Workload) -> None:
    for form in forms():
        space = TEMPLATE.space(workload, form)
        drawn = space.sample(np.random.default_rng(11), DRAWN)
        each_kind = {(config.duplicates, config.packing): config for config in drawn}
        for config in dict.fromkeys([*drawn[:SAMPLES], *each_kind.values()]):
            check(workload, config, form)


@pytest.mark.parametrize("seed", range(12))
def test_random_four_bit_convolutions_are_exact(seed: int) -> None:
    workload = random_four_bit(seed)
    for form in (*forms(), parse_target(f"cuda:{device().arch}")):
        (config,) = TEMPLATE.space(workload, form).sample(np.random.default_rng(seed), 1)
        check(workload, config, form)


@pytest.mark.parametrize("seed", range(12))
def test_random_convolutions_in_nhwcnc_are_exact(seed: int) -> None:
    workload = random_blocked(seed)
    for form in forms():
        space = TEMPLATE.space(workload, form)
        for config in (
            TEMPLATE.default(workload, form),
            *space.sample(np.random.default_rng(seed), 2),
        ):
            check(workload, config, form)
