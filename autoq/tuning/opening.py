"""The processes of a run: those that measure on a device, and those of the strategies."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from autoq.devices import Host
from autoq.knowledge.model import KnowledgeModel
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.measurer import DeviceMeasurer, Measurer
from autoq.measure.runner import Runner
from autoq.measure.worker import WorkerSettings
from autoq.tuning.asking import Asker, LocalAsker, ParallelAsker, SearchSettings
from autoq.tuning.options import TuneOptions, timing
from autoq.tuning.pacing import Pacing


def make_asker(
    host: Host, options: TuneOptions, local: bool, knowledge: KnowledgeModel | None = None
) -> Asker:
    """Strategies in processes of their own, unless `local` or the CPU is what is measured."""
    settings = SearchSettings(options.registry, host.target, options.tuner, knowledge)
    if local or host.target.kind == "cpu":
        return LocalAsker(settings)
    return ParallelAsker(settings, size=max(1, min(4, len(os.sched_getaffinity(0)) // 4)))


def device_measurer(
    host: Host, options: TuneOptions, scratch: Path, seconds: float | None = None
) -> DeviceMeasurer:
    """Builder and runner for a host's device; scratch is a folder for references.

    Raises TargetError when the device or its compiler is missing, OutOfTime when the device
    needs more than `seconds` to start.
    """
    cuda = ""
    if host.target.kind == "cuda":
        from autoq.kernel.nvcc import nvcc_version

        cuda = nvcc_version()
    cores = len(os.sched_getaffinity(0))
    worker = WorkerSettings(
        options.registry, host.target, options.device, options.seed, cores, scratch
    )
    build = BuildSettings(options.registry, host.target, options.cache_dir)
    runner = Runner(worker, timing(options, host.target.kind), options.timeout)
    builder = Builder(build, options.jobs or cores, options.build_timeout, scratch)
    try:
        builder.warm()
        device = dataclasses.replace(runner.describe(seconds), cuda=cuda)
    except BaseException:
        runner.close()
        builder.close()
        raise
    return DeviceMeasurer(builder, runner, device, exclusive=host.target.kind == "cpu")


@contextmanager
def opening_measurer(
    host: Host, options: TuneOptions, scratch: Path, pacing: Pacing
) -> Iterator[Callable[[], Measurer]]:
    """The measurer of the options, or that of the device, whose processes start meanwhile.

    Asking for it raises as `device_measurer` does; it is closed at the end.
    """
    seconds = None if options.time_budget is None else max(0.0, pacing.left)

    def opened() -> Measurer:
        if options.measurer is not None:
            return options.measurer
        return device_measurer(host, options, scratch, seconds)

    with ThreadPoolExecutor(1) as thread:
        opening = thread.submit(opened)
        try:
            yield opening.result
        finally:
            if opening.exception() is None:
                opening.result().close()
