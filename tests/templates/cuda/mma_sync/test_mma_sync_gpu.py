"""The mma.sync kernels on a GPU, every output element against numpy, over poisoned output."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from gpu_kernels import compiled, gpu_target, sampled
from mma_sync_cases import CASES, INT4_CASES, case_id, random_blocked, random_four_bit

from autoq.measure.arrays import random_case, stored_activations, stored_outputs
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.runtime.cuda.driver import Device
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

pytestmark = pytest.mark.gpu

SAMPLES = 3
# Drawn to find one of each way to load duplicates with each way to pack.
DRAWN = 64


@functools.lru_cache(maxsize=4)
def expectation(workload: Workload) -> tuple:
    values, constants = random_case(workload, seed=7)
    expected = workload.reference_in_threads(values, constants, 8)
    return stored_activations(workload, values), constants, stored_outputs(workload, expected)


def forms() -> list[Target]:
    """Targets whose form of the kernel this GPU can run: compiled for its own arch."""
    capability = gpu_target().compute_capability
    return [
        parse_target(f"cuda:{arch}")
        for arch in ("sm_75", "sm_80")
        if int(arch.removeprefix("sm_")) <= capability
    ]


def check(workload: Workload, candidates: list[tuple[Any, Target]]) -> None:
    own = gpu_target()
    kernels = compiled(TEMPLATE, workload, candidates, own)
    activations, constants, expected = expectation(workload)
    bench = CudaBench(Device(), activations, expected)
    for (config, form), kernel in zip(candidates, kernels, strict=True):
        candidate = bench.load(kernel, TEMPLATE.pack(workload, config, constants))
        for poison in (0x55, 0xAA):
            wrong = complaints(candidate.run_over(poison), expected, workload, own)
            assert wrong is None, f"{form.arch} {config}: {wrong}"
        assert not bench.restore_inputs(), f"{form.arch} {config}: inputs were written to"


@pytest.mark.parametrize("workload", CASES + INT4_CASES, ids=case_id)
def test_default_is_exact(workload: Workload) -> None:
    check(workload, [(TEMPLATE.default(workload, form), form) for form in forms()])


@pytest.mark.parametrize("workload", CASES + INT4_CASES[::2], ids=case_id)
def test_sampled_configurations_are_exact(workload: Workload) -> None:
    candidates = []
    for form in forms():
        drawn = sampled(TEMPLATE, workload, form, 11, DRAWN)
        each_kind = {(config.duplicates, config.packing): config for config in drawn}
        chosen = dict.fromkeys([*drawn[:SAMPLES], *each_kind.values()])
        candidates += [(config, form) for config in chosen]
    check(workload, candidates)


@pytest.mark.parametrize("seed", range(12))
def test_random_four_bit_convolutions_are_exact(seed: int) -> None:
    workload, candidates = random_four_bit(seed), []
    for form in (*forms(), gpu_target()):
        (config,) = sampled(TEMPLATE, workload, form, seed, 1)
        candidates.append((config, form))
    check(workload, candidates)


@pytest.mark.parametrize("seed", range(12))
def test_random_convolutions_in_nhwcnc_are_exact(seed: int) -> None:
    workload, candidates = random_blocked(seed), []
    for form in forms():
        drawn = sampled(TEMPLATE, workload, form, seed, 2)
        candidates += [(c, form) for c in (TEMPLATE.default(workload, form), *drawn)]
    check(workload, candidates)
