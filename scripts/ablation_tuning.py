"""Tuning the bars of the ablation on a device, and measuring a sub-space whole."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ablation_variants import SEARCHED, TEMPLATES, VARIANTS

from autoq import __version__
from autoq.measure.job import Job
from autoq.measure.measurer import Measurer
from autoq.records.journal import Journal
from autoq.search.space import Space
from autoq.templates.cuda.conv2d_mma_sync import TEMPLATE
from autoq.templates.cuda.mma_sync_config import MmaSyncConfig
from autoq.templates.target import Target
from autoq.templates.workload import Conv2d
from autoq.tuning.asking import Asker
from autoq.tuning.interrupt import StopOnSignal
from autoq.tuning.loop import Loop, Provenance
from autoq.tuning.options import TuneOptions
from autoq.tuning.scheduler import Limits, Scheduler
from autoq.tuning.task import ModelWorkload, Task

# Sub-spaces of the paper's knobs that may be measured whole, the largest first.
SUB_SPACES = (
    ("BLK_ROW_WARPS", "BLK_COL_WARPS", "WARP_ROW_TILES", "WARP_COL_TILES", "CHUNK"),
    ("BLK_ROW_WARPS", "BLK_COL_WARPS", "WARP_ROW_TILES", "WARP_COL_TILES"),
    ("BLK_ROW_WARPS", "WARP_ROW_TILES", "WARP_COL_TILES"),
    ("WARP_ROW_TILES", "WARP_COL_TILES"),
)

Bars = dict[str, dict[str, Any]]


def tune_bars(
    workloads: Mapping[str, Conv2d],
    target: Target,
    settings: TuneOptions,
    batch: int,
    asker: Asker,
    measurer: Measurer,
    journal: Journal,
) -> dict[str, Bars]:
    """Every variant of every workload, tuned; bars by the workload's name, then the variant's."""
    templates = {template.name: template for template in TEMPLATES}
    pairs = list(itertools.product(workloads, VARIANTS))
    tasks = [
        Task(
            index,
            ModelWorkload(variant.workload(workloads[name]), 1, (f"{name} {variant.name}",)),
            [templates[variant.template]],
            target,
            settings.seed,
        )
        for index, (name, variant) in enumerate(pairs)
    ]
    limits = Limits(settings.trials, settings.trials_per_task)
    with StopOnSignal() as signals:
        Loop(
            Scheduler(tasks, limits, pipelined=False, batch=batch),
            asker,
            measurer,
            journal,
            Provenance(measurer.device, _tvm_version(), __version__),
            lambda records: print(_progress(tasks, limits.trials), flush=True),
            lambda: signals.requested,
        ).run()
    bars: dict[str, Bars] = {name: {} for name in workloads}
    for (name, variant), task in zip(pairs, tasks, strict=True):
        bars[name][variant.name] = bar_of(task)
    return bars


def bar_of(task: Task) -> dict[str, Any]:
    """The best time of a task in microseconds, its configuration, and how many trials it took."""
    best = task.best
    return {
        "us": None if best is None or best.seconds is None else best.seconds * 1e6,
        "config": None if best is None else dict(best.config),
        "trials": task.trials,
        "failures": dict(task.failures),
    }


def sub_space(
    space: Space[MmaSyncConfig], config: MmaSyncConfig, limit: int
) -> tuple[tuple[str, ...], list[MmaSyncConfig]]:
    """The largest of SUB_SPACES around a configuration with at most `limit` legal members.

    Returns its knobs, all others being those of `config`, and its members; none when even the
    smallest is larger.
    """
    for knobs in SUB_SPACES:
        fixed = {name: (getattr(config, name),) for name in space.knobs if name not in knobs}
        members = list(space.restricted(fixed).enumerate())
        if len(members) <= limit:
            return knobs, members
    return (), []


def exhaustive(
    workload: Conv2d, target: Target, bar: Mapping[str, Any], measurer: Measurer, limit: int
) -> dict[str, Any]:
    """A sub-space around the best configuration of the search, measured whole.

    Returns the table's `exhaustive_us`, `exhaustive_knobs` (which vary), the number of
    configurations, of failures, and the best one.
    """
    space = TEMPLATE.space(workload, target)
    if bar["config"] is None or not limit:
        return {"exhaustive_us": None}
    knobs, members = sub_space(space, space.from_dict(bar["config"]), limit)
    jobs = [Job(workload, SEARCHED.template, config) for config in members]
    futures = [measurer.submit(job) for job in jobs]
    found = [future.result() for future in futures]
    right = [(m.seconds, c) for m, c in zip(found, members, strict=True) if m.seconds is not None]
    failures = Counter(m.failure for m in found if m.failure)
    best = min(right, key=lambda pair: pair[0], default=None)
    return {
        "exhaustive_us": None if best is None else best[0] * 1e6,
        "exhaustive_knobs": list(knobs),
        "exhaustive_size": len(members),
        "exhaustive_failures": dict(failures),
        "exhaustive_config": None if best is None else dataclasses.asdict(best[1]),
    }


def _progress(tasks: Sequence[Task], trials: int) -> str:
    failures = sum((task.failures for task in tasks), Counter())
    return f"{sum(task.trials for task in tasks)} of {trials} trials, failures {dict(failures)}"


def _tvm_version() -> str:
    import tvm

    return str(tvm.__version__)
