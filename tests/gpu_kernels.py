"""Kernels of the GPU tests: kept in a folder, which a machine without a GPU can fill beforehand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoq.cache import read_entry, write_entry
from autoq.devices import Host, resolve
from autoq.errors import BuildError
from autoq.kernel.kernel_store import KernelStore
from autoq.kernel.source_hash import source_hash
from autoq.measure.arrays import random_case, stored_activations, stored_outputs
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.runtime.cuda.driver import Device, device_count
from autoq.runtime.kernel import Kernel
from autoq.templates.base import Template
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload
from autoq.templates.workload_key import key


@dataclass
class Options:
    """`--kernel-store` and `--compile-only` of this run."""

    folder: Path | None = None
    compile_only: str | None = None


OPTIONS = Options()


def gpu_host() -> Host:
    """This machine's GPU, or the one that `--compile-only` names; skips where there is none."""
    if OPTIONS.compile_only:
        return Host(parse_target(OPTIONS.compile_only), None)
    if not device_count():
        pytest.skip("no CUDA GPU")
    Device().make_current()
    return resolve("cuda")


def gpu_target() -> Target:
    """The target of `gpu_host`."""
    return parse_target(f"cuda:{gpu_host().target.arch}")


def hopper_target() -> Target:
    """The target of `gpu_host`; skips on other GPUs than Hopper's."""
    target = gpu_target()
    if not target.has_wgmma:
        pytest.skip(f"needs a Hopper GPU, not {target.arch}")
    return target


def sampled(
    template: Template, workload: Workload, target: Target, seed: int, count: int
) -> list[Any]:
    """Distinct configurations of a template's space, the same ones for a seed.

    The folder keeps them too, because a large space takes seconds to sample.
    """
    space = template.space(workload, target)
    if OPTIONS.folder is None:
        return space.sample(np.random.default_rng(seed), count)
    sources = source_hash(template.module)
    parts = (template.name, key(workload), target, seed, count, sources)
    text = "\n".join(map(repr, parts))
    entry = OPTIONS.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.configs"
    kept = read_entry(entry, text)
    if kept is None:
        drawn = space.sample(np.random.default_rng(seed), count)
        kept = json.dumps([space.to_dict(config) for config in drawn]).encode()
        write_entry(entry, text, kept)
    return [space.from_dict(knobs) for knobs in json.loads(kept)]


def kernel_store() -> KernelStore:
    """Kernels of the folder that `--kernel-store` names."""
    return KernelStore(OPTIONS.folder)


def compiled(
    template: Template,
    workload: Workload,
    candidates: Sequence[tuple[Any, Target]],
    target: Target,
) -> list[Kernel]:
    """Kernels for `target` of configurations, each with the target whose instructions it uses.

    Fails the test with every complaint of the compilers; ends it when nothing shall run.
    """
    kernels: list[Kernel] = []
    complaints = []
    for config, form in candidates:
        try:
            kernels.append(kernel_store().kernel(template, workload, config, target, form))
        except BuildError as error:
            complaints.append(f"{form.arch} {config}: {error}")
    if complaints:
        pytest.fail("\n".join(complaints))
    end_if_compile_only()
    return kernels


def assert_right(
    template: Template,
    workload: Workload,
    candidates: Sequence[tuple[Any, Target]],
    target: Target,
    seed: int = 7,
    case: Any = None,
) -> None:
    """Run configurations, each with the target whose instructions it uses, on the GPU.

    Fails the test with every one that gives a wrong element over poisoned output, or writes to its
    inputs; activations and constants are a case's, else random ones of a seed.
    """
    kernels = compiled(template, workload, candidates, target)
    values, constants = random_case(workload, seed) if case is None else case
    expected = stored_outputs(workload, workload.reference_in_threads(values, constants, 8))
    bench = CudaBench(Device(), stored_activations(workload, values), expected)
    failures = []
    for (config, form), kernel in zip(candidates, kernels, strict=True):
        candidate = bench.load(kernel, template.pack(workload, config, constants))
        for poison in (0x55, 0xAA):
            wrong = complaints(candidate.run_over(poison), expected, workload, target)
            if wrong:
                failures.append(f"{form.arch} {config}: {wrong}")
        if bench.restore_inputs():
            failures.append(f"{form.arch} {config}: inputs were written to")
    assert not failures, "\n".join(failures)


def end_if_compile_only() -> None:
    """End the test here when nothing shall run."""
    if OPTIONS.compile_only:
        pytest.skip("compiled only")
