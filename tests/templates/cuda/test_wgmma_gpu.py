"""The wgmma kernels on a GPU, every output element against numpy, over poisoned output."""

from __future__ import annotations

import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
from wgmma_cases import CASES, SHARING, TARGET, TEMPLATES, case_id, shared_cases

from autoq.errors import BuildError
from autoq.kernel import compile_kernel
from autoq.measure.check import complaint, threaded_reference
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.operands import random_case
from autoq.runtime.cuda_driver import Device, device_count
from autoq.runtime.kernel import CudaKernel
from autoq.templates.workload import Workload

pytestmark = pytest.mark.gpu

SAMPLES = 6
ALL_CASES = CASES + [
    (name, workload)
    for name, template in TEMPLATES.items()
    for workload in SHARING
    if template.matches(workload, TARGET)
]

Job = tuple[str, Workload, Any]


@functools.cache
def device() -> Device:
    if device_count() == 0:
        pytest.skip("no CUDA GPU")
    found = Device()
    if found.arch != "sm_90a":
        pytest.skip(f"needs a Hopper GPU, not {found.arch}")
    found.make_current()
    return found


@functools.cache
def jobs() -> dict[tuple[str, Workload], list[Job]]:
    """The default and some sampled configurations of every case, clusters among them."""
    rng = np.random.default_rng(11)
    found = {}
    for name, workload in ALL_CASES:
        template = TEMPLATES[name]
        configs = [template.default(workload, TARGET)]
        configs += template.space(workload, TARGET).sample(rng, SAMPLES)
        found[name, workload] = [(name, workload, config) for config in configs]
    for name, workload, config in shared_cases(each=3):
        found[name, workload].append((name, workload, config))
    return found


def compile_job(job: Job) -> CudaKernel | str:
    """The kernel, or what the compiler says against it."""
    name, workload, config = job
    try:
        return compile_kernel(TEMPLATES[name].build(workload, config, TARGET), TARGET)
    except BuildError as error:
        return str(error)


@functools.cache
def kernels() -> dict[Job, CudaKernel | str]:
    """All kernels of the module, compiled at once on all cores."""
    every = [job for case in jobs().values() for job in case]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        return dict(zip(every, pool.map(compile_job, every), strict=True))


@pytest.mark.parametrize("case", ALL_CASES, ids=case_id)
def test_every_element_is_exact(case: tuple[str, Workload]) -> None:
    current = device()
    name, workload = case
    template = TEMPLATES[name]
    activations, operands = random_case(workload, seed=7)
    expected = threaded_reference(workload, activations, operands, 8)
    bench = CudaBench(current, activations, expected)
    failures = []
    for job in jobs()[case]:
        kernel, config = kernels()[job], job[2]
        if isinstance(kernel, str):
            failures.append(f"{config}: {kernel}")
            continue
        candidate = bench.load(kernel, template.pack(workload, config, operands))
        for poison in (0x55, 0xAA):
            wrong = complaint(candidate.run_over(poison), expected, workload, TARGET)
            if wrong:
                failures.append(f"{config}: {wrong}")
        if bench.restore_inputs():
            failures.append(f"{config}: inputs were written to")
    assert not failures, "\n".join(failures)
