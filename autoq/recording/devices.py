"""The devices of a recording, each with a measurer; kernels come from compilers or a bundle."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from autoq import __version__
from autoq.devices import Host
from autoq.errors import InputError
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import Job
from autoq.measure.measurer import DeviceMeasurer
from autoq.measure.packing_ahead import PackingAhead, PackingSettings
from autoq.measure.runner import Runner
from autoq.measure.worker import WorkerSettings
from autoq.recording.kept_kernels import KeptKernels, Place
from autoq.recording.options import RecordOptions
from autoq.records.record import Device
from autoq.runtime.cpu.features import require_no_gpu
from autoq.tuning.provenance import Provenance

# Compilers for each process that packs constants, where both are at work.
_COMPILERS = 4


@contextmanager
def opened_measurers(
    host: Host, options: RecordOptions, scratch: Path, places: Mapping[Job, Place] | None
) -> Iterator[list[DeviceMeasurer]]:
    """A measurer for each device of the options; places: of kernels that are not compiled here.

    Raises TargetError for a device that is not there, InputError for devices of several names.
    """
    if host.target.kind == "cpu":
        for ordinal in options.devices:
            require_no_gpu(ordinal)
    cores = len(os.sched_getaffinity(0))
    cuda = ""
    if host.target.kind == "cuda" and places is None:
        from autoq.kernel.nvcc import nvcc_version

        cuda = nvcc_version()
    with ExitStack() as held:
        pairs = []
        each = max(1, options.compilers // len(options.devices))
        for ordinal in options.devices:
            settings = WorkerSettings(
                options.registry, host.target, ordinal, options.seed, cores, scratch
            )
            packing = None
            if host.target.kind == "cuda":
                own = cores // len(options.devices) if places is not None else each // _COMPILERS
                packing = PackingAhead(
                    PackingSettings(options.registry, options.seed, scratch), max(1, own)
                )
            timing = options.timing(host.target.kind)
            runner = Runner(settings, timing, options.timeout, packing)
            held.callback(runner.close)
            builder = _builder(host, options, scratch, each, places)
            held.callback(builder.close)
            builder.warm()
            pairs.append((builder, runner))
        # Devices take seconds to answer first, which they do together.
        with ThreadPoolExecutor(len(pairs)) as asking:
            found = [*asking.map(lambda pair: pair[1].describe(), pairs)]
        measurers = []
        for (builder, runner), answer in zip(pairs, found, strict=True):
            device = dataclasses.replace(answer, cuda=cuda)
            exclusive = host.target.kind == "cpu"
            measurers.append(DeviceMeasurer(builder, runner, device, exclusive))
            held.callback(measurers[-1].close)
        names = {(one.device.name, one.device.arch) for one in measurers}
        if len(names) > 1:
            listed = ", ".join(sorted(name for name, _ in names))
            raise InputError(f"--devices: {listed} differ; record each kind of device by itself")
        yield measurers


def provenance_of(device: Device) -> Provenance:
    """What the records of a device carry."""
    import tvm

    return Provenance(device, str(tvm.__version__), __version__)


def _builder(
    host: Host,
    options: RecordOptions,
    scratch: Path,
    jobs: int,
    places: Mapping[Job, Place] | None,
) -> Any:
    if places is not None:
        return KeptKernels(places)
    settings = BuildSettings(options.registry, host.target, options.cache_dir)
    return Builder(settings, jobs, options.build_timeout, scratch)
