"""The options of a tuning run, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoq.errors import InputError
from autoq.graph.precision import make_precision
from autoq.measure.job import REGISTRY, Timing
from autoq.measure.measurer import Measurer
from autoq.option_types import require_types
from autoq.paths import as_path
from autoq.search.registry import DEFAULT_STRATEGY, STRATEGIES
from autoq.templates.arrays.layout import LAYOUTS, NHWC
from autoq.tuning.clock import Clock, MonotonicClock

LONGEST_SECONDS = 10**9
"""Of any time given; a wait of more than 9e9 seconds overflows."""

MOST_JOBS = 512
"""Compilers at once; each is a process of half a gigabyte."""

# A trial is one of very many and makes a claim only; what a comparison finds stands. The clock and
# the load of a CPU need longer timings than the graph of a GPU.
_TRIALS = {
    "cuda": Timing(repeat=9, min_seconds=5e-4, budget_seconds=0.1),
    "cpu": Timing(repeat=9, min_seconds=2e-3, budget_seconds=0.1),
}
_COMPARISONS = {
    "cuda": Timing(repeat=20, min_seconds=1e-3, budget_seconds=0.4),
    "cpu": Timing(repeat=15, min_seconds=2e-3, budget_seconds=0.2),
}


@dataclass(frozen=True)
class TuneOptions:
    """How to tune.

    trials: over all tasks, those in the output of an earlier run included; trials_per_task: of one
    task at most; early_stopping: trials of a task without a better one, after which it is left;
    until_gain: the run ends where as many trials again should save less than this share of the
    model's time, 0 for never. timeout: seconds a candidate may run; build_timeout: seconds it may
    compile; time_budget: seconds of the whole run, which began at `started` of `clock`, by default
    with the call. repeat and number as in `measure.Timing`, 0 for its defaults; overlapped too, by
    default for a model on a device that overlaps launches; jobs: compilers at once, 0 for every
    core; cache_dir keeps machine code. layouts: of activations in which convolutions are tuned, in
    every pair of them. precision, threshold and tolerance as in
    `compilation.options.CompileOptions`, and so is knowledge, whose best predictions are tried
    behind the defaults. measurer replaces the device, e.g. by a recorded space.
    """

    trials: int
    tuner: str = DEFAULT_STRATEGY
    tasks: str = "all"
    trials_per_task: int | None = None
    early_stopping: int | None = None
    until_gain: float = 0.01
    timeout: float = 10.0
    build_timeout: float = 120.0
    time_budget: float | None = None
    repeat: int = 0
    number: int = 0
    cold: bool = False
    overlapped: bool | None = None
    seed: int = 0
    jobs: int = 0
    cache_dir: Path | None = None
    registry: str = REGISTRY
    device: int = 0
    layouts: tuple[str, ...] = (NHWC,)
    precision: str | None = None
    threshold: float | None = None
    tolerance: float | None = None
    knowledge: Path | None = None
    clock: Clock = field(default_factory=MonotonicClock)
    started: float | None = None
    measurer: Measurer | None = None

    def __post_init__(self) -> None:
        require_types(self)
        at_least_one = ("trials", "trials_per_task", "early_stopping")
        for name in at_least_one:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name.replace('_', '-')} {value}: at least 1 is needed")
        require_limits(self)
        if not 0 <= self.until_gain < 1:
            raise InputError(
                f"--until-gain {self.until_gain}: a share of the model's time is needed, "
                "from 0 (never) to below 1"
            )
        if self.tuner not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise InputError(f"--tuner {self.tuner!r} is unknown; choose from {known}")
        check_layouts(self.layouts)
        make_precision(self.precision, self.threshold, self.tolerance)


def check_layouts(layouts: Sequence[str]) -> None:
    """Raise InputError unless these are layouts of activations, at least one."""
    unknown = [name for name in layouts if name not in LAYOUTS]
    if unknown or not layouts:
        known = ", ".join(name.lower() for name in LAYOUTS)
        raise InputError(f"--layouts {','.join(unknown)!r} is unknown; choose from {known}")


def require_limits(options: Any) -> None:
    """Raise InputError for times, seeds and numbers of compilers that no run can have.

    options: with `timeout`, `build_timeout`, `time_budget`, `seed` and `jobs`, as those of tuning.
    """
    for name in ("timeout", "build_timeout", "time_budget"):
        value = getattr(options, name)
        if value is not None and not 0 < value <= LONGEST_SECONDS:
            raise InputError(
                f"--{name.replace('_', '-')} {value}: a positive time is needed, "
                f"at most {LONGEST_SECONDS} s"
            )
    if options.seed < 0:
        raise InputError(f"--seed {options.seed}: at least 0 is needed")
    if not 0 <= options.jobs <= MOST_JOBS:
        raise InputError(f"--jobs {options.jobs}: give 1 to {MOST_JOBS}, or 0 for every core")


def make_options(trials: int, options: Mapping[str, Any]) -> TuneOptions:
    """Options by field name; cache_dir may be text.

    Raises InputError for an unknown name or a value out of bounds.
    """
    known = {field.name for field in dataclasses.fields(TuneOptions)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InputError(f"unknown option {unknown[0]!r}; options are {', '.join(sorted(known))}")
    if options.get("cache_dir") is not None:
        options = {**options, "cache_dir": as_path(options["cache_dir"])}
    if options.get("knowledge") is not None:
        options = {**options, "knowledge": as_path(options["knowledge"])}
    return TuneOptions(trials=trials, **options)


def timing(options: TuneOptions, kind: str) -> Timing:
    """How a trial is timed."""
    return _as_asked(_TRIALS[kind], options, kind)


def comparison_timing(options: TuneOptions, kind: str) -> Timing:
    """How candidates are timed in turn with their default: longer than alone."""
    usual = _COMPARISONS[kind]
    asked = _as_asked(usual, options, kind)
    return dataclasses.replace(asked, repeat=max(usual.repeat, asked.repeat))


def _as_asked(usual: Timing, options: TuneOptions, kind: str) -> Timing:
    if kind == "cpu" and options.cold:
        raise InputError("--cold is for CUDA targets")
    return dataclasses.replace(
        usual,
        repeat=options.repeat or usual.repeat,
        number=options.number,
        cold=options.cold,
        overlapped=bool(options.overlapped),
    )
