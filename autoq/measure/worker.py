"""What the runner's child process does: hold a device, check candidates and time them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import cpu_name
from autoq.errors import AutoqError, DriverError
from autoq.measure.arrays import random_case, stored_activations, stored_outputs
from autoq.measure.bench import POISON, Bench, CpuBench, LoadedCandidate
from autoq.measure.check import Expected
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.job import Job, Measurement, Timing, load_registry
from autoq.measure.packed_constants import PackedConstants
from autoq.measure.packing_ahead import read_packed
from autoq.measure.stopwatch import Stopwatch, in_turn, timings
from autoq.measure.stored_reference import stored_reference
from autoq.records.record import Device
from autoq.runtime.cuda import driver as cuda_driver
from autoq.runtime.kernel import Kernel
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Workload

# Bytes of inputs, references and packed constants that a worker keeps on the host; the inputs and
# outputs lie on the device as well.
_CACHE_BYTES = 4 << 30


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker holds: a device of the target, and where references outlive it.

    scratch is a folder for references, which a successor then need not compute again; threads
    compute one.
    """

    registry: str
    target: Target
    ordinal: int
    seed: int
    threads: int
    scratch: Path


@dataclass(frozen=True)
class Describe:
    """Asks for the `records.Device`."""


@dataclass(frozen=True)
class Prepare:
    """Asks to have a workload's inputs and reference ready; the reply is None."""

    workload: Workload


@dataclass(frozen=True)
class Run:
    """Asks to check and time a kernel of a prepared workload; the reply is an Outcome.

    packed: a file of `packing_ahead` with its constants, None to pack them here.
    """

    job: Job
    kernel: Kernel
    timing: Timing
    packed: Path | None = None


@dataclass(frozen=True)
class Compare:
    """Asks to check kernels of one prepared workload and to time them in turn.

    The reply is an Outcome for each, in their order.
    """

    candidates: tuple[tuple[Job, Kernel], ...]
    timing: Timing


@dataclass(frozen=True)
class Company:
    """Asks to time what overlaps among launches of these kernels from now on; the reply is None."""

    kernels: tuple[tuple[Job, Kernel], ...]


@dataclass(frozen=True)
class Outcome:
    """A measurement, and whether the device is still good for another."""

    measurement: Measurement
    device_lost: bool = False


@dataclass(frozen=True)
class _Case:
    """Activations and the expected outputs are as they are stored, two 4-bit values a byte."""

    activations: Arrays
    constants: PackedConstants
    expected: Expected
    bench: Bench

    @property
    def bytes(self) -> int:
        inputs = sum(array.nbytes for array in self.activations)
        return inputs + self.expected.bytes + self.constants.bytes


def serve(settings: WorkerSettings) -> Callable[[Any], Any]:
    """The handler of a child process."""
    return Worker(settings).handle


class Worker:
    """One device, and the cases of the workloads last measured on it."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._templates = load_registry(settings.registry)
        self._gpu = cuda_driver.Device(settings.ordinal) if settings.target.kind == "cuda" else None
        self._judges = ThreadPoolExecutor(settings.threads)
        self._cases: OrderedDict[Workload, _Case] = OrderedDict()
        self._company: list[LoadedCandidate] = []

    def handle(self, request: Describe | Prepare | Company | Run | Compare) -> Any:
        """Answer one request."""
        if isinstance(request, Describe):
            return self._describe()
        if isinstance(request, Prepare):
            self._prepare(request.workload)
            return None
        if isinstance(request, Company):
            self._company = self._loaded(request.kernels)
            return None
        if isinstance(request, Compare):
            return self._compare(request)
        return self._run(request)

    def _describe(self) -> Device:
        if self._gpu is None:
            return Device(cpu_name(), self._settings.target.arch)
        return Device(self._gpu.name, self._gpu.arch, driver=_nvidia_driver())

    def _prepare(self, workload: Workload) -> None:
        if workload in self._cases:
            self._cases.move_to_end(workload)
            return
        settings = self._settings
        values, constants = random_case(workload, settings.seed)
        expected = stored_reference(
            settings.scratch, settings.seed, settings.threads, workload, values, constants
        )
        expected = stored_outputs(workload, expected)
        activations = stored_activations(workload, values)
        bench: Bench = (
            CpuBench(activations, expected)
            if self._gpu is None
            else CudaBench(self._gpu, activations, expected)
        )
        self._cases[workload] = _Case(
            activations,
            PackedConstants(workload, constants),
            Expected(expected, workload, settings.target, self._judges.map),
            bench,
        )
        while len(self._cases) > 1 and self._held_bytes() > _CACHE_BYTES:
            self._cases.popitem(last=False)

    def _held_bytes(self) -> int:
        return sum(case.bytes for case in self._cases.values())

    def _run(self, request: Run) -> Outcome:
        try:
            return Outcome(self._check_and_time(request))
        except AutoqError as error:
            return Outcome(Measurement(failure="runtime", message=str(error)), self._lost())

    def _check_and_time(self, request: Run) -> Measurement:
        case = self._cases[request.job.workload]
        loaded = self._load(case, request.job, request.kernel, request.timing, request.packed)
        if isinstance(loaded, Measurement):
            return loaded
        seconds = timings(self._stopwatch(loaded, request.timing), request.timing)
        if case.bench.restore_inputs():
            return Measurement(failure="correctness", message="wrote over its inputs")
        return measured(seconds)

    def _compare(self, request: Compare) -> list[Outcome]:
        """Time those that compute the right thing; an error of the device fails them all."""
        case = self._cases[request.candidates[0][0].workload]
        timing = request.timing
        try:
            loaded = [self._load(case, *pair, timing) for pair in request.candidates]
            watches = [
                None if isinstance(x, Measurement) else self._stopwatch(x, timing) for x in loaded
            ]
            rounds = iter(in_turn([watch for watch in watches if watch is not None], timing))
            # Each of them has kept its inputs whole in its own trial; this is for the next one.
            case.bench.restore_inputs()
        except AutoqError as error:
            failed = Outcome(Measurement(failure="runtime", message=str(error)), self._lost())
            return [failed] * len(request.candidates)
        times = (x if isinstance(x, Measurement) else measured(next(rounds)) for x in loaded)
        return [Outcome(one) for one in times]

    def _loaded(self, kernels: Sequence[tuple[Job, Kernel]]) -> list[LoadedCandidate]:
        """Those that compute the right thing."""
        found = []
        for job, kernel in kernels:
            self._prepare(job.workload)
            one = self._load(self._cases[job.workload], job, kernel, Timing(overlapped=True))
            found += [] if isinstance(one, Measurement) else [one]
        return found

    def _stopwatch(self, loaded: LoadedCandidate, timing: Timing) -> Stopwatch:
        return loaded.stopwatch(timing, self._company if timing.overlapped else ())

    def _load(
        self,
        case: _Case,
        job: Job,
        kernel: Kernel,
        timing: Timing,
        packed: Path | None = None,
    ) -> LoadedCandidate | Measurement:
        """A candidate whose every output element is right, or what is wrong with it."""
        template = self._templates[job.template]
        if packed is None:
            constants = case.constants.of(template, job.config)
        else:
            constants = read_packed(packed)
        loaded = case.bench.load(kernel, constants)
        launches = 2 if timing.overlapped else 1
        wrong = _check(case, loaded, launches)
        if wrong and case.bench.restore_inputs():
            # An earlier candidate had written over the inputs: judge this one by good ones.
            wrong = _check(case, loaded, launches)
        return Measurement(failure="correctness", message=wrong) if wrong else loaded

    def _lost(self) -> bool:
        """Whether the CUDA context carries a sticky error."""
        if self._gpu is None:
            return False
        try:
            self._gpu.synchronize()
        except DriverError:
            return True
        return False


def _check(case: _Case, loaded: LoadedCandidate, launches: int) -> str | None:
    for poison in POISON:
        wrong = case.expected.complaint(loaded.run_over(poison, launches)) or loaded.left_dirty()
        if wrong:
            return wrong
    return None


def measured(seconds: Sequence[float]) -> Measurement:
    """Times among launches of others are differences, below 0 where a device is used besides."""
    found = [one for one in seconds if one > 0]
    if not found:
        return Measurement(failure="runtime", message="no time above 0: the device is busy")
    return Measurement(seconds=float(np.median(found)), repeats=len(found))


def _nvidia_driver() -> str:
    """Version of the kernel driver, e.g. "580.65.06"; the CUDA version it supports if unknown."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return cuda_driver.driver_version()
    found = re.search(r"(\d+\.\d+(?:\.\d+)?)\s", text)
    return found.group(1) if found else cuda_driver.driver_version()
