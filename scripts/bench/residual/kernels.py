"""autoq's kernels of residual-compensated products, compiled and checked before they are timed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autoq.compilation.selection import Chosen, choose
from autoq.devices import Host
from autoq.errors import BuildError, InputError
from autoq.kernel.kernel_store import KernelStore
from autoq.measure.bench import POISON, Bench, CpuBench, LoadedCandidate
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import REGISTRY, Job, Timing
from autoq.measure.stopwatch import Stopwatch
from autoq.records.database import Database
from autoq.runtime.kernel import Kernel
from autoq.templates import TEMPLATES
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import compensated, integer_product, quantise
from autoq.templates.program import Stage

ALLOWED = 1e-6
"""Largest difference from the reference, in units of its largest element: float32's rounding."""

_CHECKED = 64
_BUILD_SECONDS = 120.0
_WORTH_PROCESSES = 4
"""Kernels from which on processes that compile save more time than they take to start."""


@dataclass(frozen=True)
class Compiled:
    """Machine code of a workload, and the stages that it calls or launches, in order."""

    workload: ResidualGemm
    chosen: Chosen
    kernel: Kernel
    stages: tuple[Stage, ...]

    def constants(self, threshold: float, **others: np.ndarray) -> tuple[np.ndarray, ...]:
        """Packed constants under which every side takes part sparsely, where there is a choice.

        others: b and bias, where the workload has them as constants.
        """
        given: dict[str, Any] = dict(others)
        if self.workload.correction == "sparse":
            given["threshold"] = np.array([threshold], np.float32)
            given["crossover"] = np.ones(1, np.float32)
        return self.chosen.template.constants(self.workload, self.chosen.config, given)


class Compiler:
    """Compiles each workload once, by the best record or the untuned default.

    records: files besides those that ship; cache: a folder that keeps machine code, or None.
    """

    def __init__(self, host: Host, records: Sequence[Path] = (), cache: Path | None = None) -> None:
        self.host = host
        self._database = Database.load(list(records), shipped=True)
        self._store = KernelStore(cache)
        self._compiled: dict[ResidualGemm, Compiled] = {}

    @property
    def folder(self) -> Path | None:
        """What keeps machine code."""
        return self._store.folder

    def __call__(self, workload: ResidualGemm) -> Compiled:
        """Raises InputError where no template computes the workload, BuildError for its kernel."""
        if workload not in self._compiled:
            chosen, target = self._choose(workload), self.host.target
            kernel = self._store.kernel(chosen.template, workload, chosen.config, target)
            self._keep(workload, chosen, kernel)
        return self._compiled[workload]

    def prepare(self, workloads: Iterable[ResidualGemm]) -> None:
        """Compile several workloads at once, in processes. Raises as a call does."""
        missing = [item for item in dict.fromkeys(workloads) if item not in self._compiled]
        if len(missing) < _WORTH_PROCESSES:
            return
        settings = BuildSettings(REGISTRY, self.host.target, self._store.folder)
        jobs = min(len(os.sched_getaffinity(0)), len(missing))
        builder = Builder(settings, jobs, _BUILD_SECONDS)
        try:
            started = []
            for workload in missing:
                chosen = self._choose(workload)
                job = Job(workload, chosen.template.name, chosen.config)
                started.append((workload, chosen, builder.submit(job)))
            for workload, chosen, future in started:
                built = future.result()
                if built.kernel is None:
                    raise BuildError(f"{workload}: {built.message}")
                self._keep(workload, chosen, built.kernel)
        finally:
            builder.close()

    def _choose(self, workload: ResidualGemm) -> Chosen:
        chosen = choose(workload, self.host, self._database, list(TEMPLATES))
        if chosen is None:
            target = self.host.target
            raise InputError(f"{workload}: no kernel for {target.kind} {target.arch}")
        return chosen

    def _keep(self, workload: ResidualGemm, chosen: Chosen, kernel: Kernel) -> None:
        program = chosen.template.program(workload, chosen.config, self.host.target)
        self._compiled[workload] = Compiled(workload, chosen, kernel, program.stages)


def bench_of(host: Host, activations: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Bench:
    """Inputs and outputs on the host's device."""
    if host.target.kind == "cpu":
        return CpuBench(activations, outputs)
    from autoq.measure.cuda_bench import CudaBench
    from autoq.runtime.cuda.driver import Device

    return CudaBench(Device(0), activations, outputs)


@dataclass(frozen=True)
class Block:
    """Some rows and columns of a product, where it is compared with the reference.

    kept_a, kept_b: whether a value takes part in a sparse correction, bool of all rows and columns.
    """

    a: np.ndarray
    b: np.ndarray
    kept_a: np.ndarray
    kept_b: np.ndarray
    rows: np.ndarray
    columns: np.ndarray

    @classmethod
    def drawn(cls, a: np.ndarray, b: np.ndarray, least: float) -> Block:
        """Rows and columns at random of matrices of which magnitudes above `least` matter."""
        rng = np.random.default_rng(0)
        rows = np.sort(rng.permutation(len(a))[:_CHECKED])
        columns = np.sort(rng.permutation(b.shape[1])[:_CHECKED])
        some_a, some_b = a[rows], b[:, columns]
        kept = np.abs(some_a) > least, np.abs(some_b) > least
        return cls(some_a, some_b, *kept, rows, columns)

    def expected(self, correction: str, bits: int) -> np.ndarray:
        """float32 [rows, columns] of the product in one of its forms."""
        left, right = quantise(self.a, bits, axis=1), quantise(self.b, bits, axis=0)
        sums = integer_product(left.values, right.values, bits)
        some = None
        if correction != "none":
            a, b = left.values, right.values
            if correction == "sparse":
                a, b = np.where(self.kept_a, a, np.int8(0)), np.where(self.kept_b, b, np.int8(0))
            some = integer_product(a, right.residual, bits)
            some += integer_product(left.residual, b, bits)
        return compensated(sums, some, left.scale, right.scale, bits)

    def check(self, name: str, y: np.ndarray, expected: np.ndarray, allowed: float) -> None:
        """SystemExit unless y [m, n] has the expected elements, to `allowed` of the largest."""
        self.compare(name, y[np.ix_(self.rows, self.columns)], expected, allowed)

    def compare(self, name: str, found: np.ndarray, expected: np.ndarray, allowed: float) -> None:
        """The same of the block's own elements [rows, columns]."""
        error = float(np.abs(found - expected).max() / np.abs(expected).max())
        if not error <= allowed:
            raise SystemExit(f"{name}: wrong by {error:.3g} of the largest element, not timed")


@dataclass(frozen=True)
class Ready:
    """A right kernel over inputs on the device; what it is loaded with is kept alive."""

    watch: Stopwatch
    loaded: LoadedCandidate


def loaded(
    bench: Bench, compiled: Compiled, constants: Sequence[np.ndarray], block: Block, timing: Timing
) -> Ready:
    """Load and check a kernel, then make it ready to be timed. SystemExit for a wrong one."""
    candidate = bench.load(compiled.kernel, constants)
    workload = compiled.workload
    (y,) = candidate.run_over(POISON[0])
    expected = block.expected(workload.correction, workload.bits)
    block.check(str(workload), y, expected, ALLOWED)
    return Ready(candidate.stopwatch(timing), candidate)


def summed(times: Mapping[str, Sequence[float]], operations: int) -> dict[str, dict[str, float]]:
    """Of each form's seconds the least and the median in microseconds, and their rates in TOPS."""
    return {
        form: {
            "us_least": 1e6 * min(seconds),
            "us_median": 1e6 * float(np.median(seconds)),
            "tops_best": operations / min(seconds) / 1e12,
            "tops_median": operations / float(np.median(seconds)) / 1e12,
        }
        for form, seconds in times.items()
    }
