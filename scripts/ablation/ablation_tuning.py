"""Tuning the bars of the ablation on a device, and measuring a sub-space whole.

A bar is the search of one variant's space with one seed. Bars of a group search at the same time,
each a batch at a time, so that compilers never wait for a strategy that thinks; every trial goes
to the bar's record file when it is measured, and a bar that finds trials of its own there goes on
behind them.
"""

from __future__ import annotations

import dataclasses
import queue
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ablation_variants import SEARCHED, TEMPLATES, Variant

from autoq import __version__
from autoq.errors import ConfigError
from autoq.measure.job import UNTRIED, Job, Measurement
from autoq.measure.measurer import Measurer
from autoq.records.journal import Journal
from autoq.records.lines import read_records
from autoq.records.record import Device
from autoq.search.space import Space
from autoq.search.trial import Trial
from autoq.search.union import Candidate
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from autoq.tuning.asking import Asker, Question
from autoq.tuning.provenance import Provenance

# Sub-spaces of the paper's knobs that may be measured whole, the largest first.
SUB_SPACES = (
    ("BLK_ROW_WARPS", "BLK_COL_WARPS", "WARP_ROW_TILES", "WARP_COL_TILES", "CHUNK"),
    ("BLK_ROW_WARPS", "BLK_COL_WARPS", "WARP_ROW_TILES", "WARP_COL_TILES"),
    ("BLK_ROW_WARPS", "WARP_ROW_TILES", "WARP_COL_TILES"),
    ("WARP_ROW_TILES", "WARP_COL_TILES"),
)
_TEMPLATES = {template.name: template for template in TEMPLATES}
_POLL_SECONDS = 1.0


@dataclass(eq=False)
class Bar:
    """The search of a variant's space for one convolution with one seed.

    index numbers the bar among those of an asker; trials are in the order of their measurement.
    """

    index: int
    case: str
    variant: Variant
    workload: Conv2d
    seed: int
    journal: Journal
    trials: list[Trial[Candidate]] = field(default_factory=list)
    told: int = 0
    under_way: int = 0
    exhausted: bool = False

    def resume(self, target: Target, device: Device) -> None:
        """Take in what the record file holds of this bar on the device."""
        template = _TEMPLATES[self.variant.template]
        space = template.space(self.workload, target)
        path = self.journal.path
        for record in read_records(path).records if path.exists() else ():
            same = (record.template, record.template_version) == (template.name, template.version)
            if not same or record.workload != self.workload or record.device.name != device.name:
                continue
            try:
                candidate = Candidate(record.template, space.from_dict(record.config))
            except ConfigError:
                continue
            self.trials.append(Trial(candidate, record.seconds, record.failure))

    def question(self, n: int) -> Question:
        """Ask for n candidates, telling what was measured since the last question."""
        told, self.told = self.trials[self.told :], len(self.trials)
        names = (self.variant.template,)
        return Question(self.index, self.workload, names, self.seed, n, told)

    def best(self, first: int | None = None) -> Trial[Candidate] | None:
        """The fastest of the first trials, of all for None; None without a right kernel."""
        right = [trial for trial in self.trials[:first] if trial.seconds is not None]
        return min(right, key=lambda trial: trial.seconds, default=None)

    def summary(self) -> dict[str, Any]:
        """Its seed, trials, failures by kind, and microseconds of the best of the first trials."""
        after = [count for count in (32, 64, 128, 256) if count < len(self.trials)]
        marks = {str(count): self.best(count) for count in (*after, len(self.trials))}
        best = self.best()
        return {
            "seed": self.seed,
            "trials": len(self.trials),
            "failures": dict(Counter(t.failure for t in self.trials if t.failure)),
            "best_us_after": {
                count: None if trial is None else trial.seconds * 1e6
                for count, trial in marks.items()
            },
            "config": None if best is None else dataclasses.asdict(best.config.config),
        }


@dataclass
class BarSearch:
    """Runs bars to their number of trials, or until `stop` says so."""

    asker: Asker
    measurer: Measurer
    target: Target
    trials: int
    batch: int
    stop: Callable[[], bool]
    progress: Callable[[str], None]
    _events: queue.SimpleQueue[Callable[[], None]] = field(default_factory=queue.SimpleQueue)

    def run(self, bars: Sequence[Bar]) -> bool:
        """Whether all bars have their trials."""
        for bar in bars:
            bar.resume(self.target, self.measurer.device)
        shown = -1
        while True:
            stopping = self.stop()
            for bar in bars:
                if not stopping:
                    self._ask(bar)
            if not any(bar.under_way for bar in bars):
                return all(self._complete(bar) for bar in bars)
            self._handle_events()
            done = sum(len(bar.trials) for bar in bars)
            if done // 100 != shown:
                shown = done // 100
                self.progress(f"{bars[0].case}: {done} of {self.trials * len(bars)} trials")

    def remeasured(self, bars: Sequence[Bar]) -> list[float | None]:
        """Microseconds of each bar's best kernel, timed once more behind one another.

        The time by which a kernel became the best of many is a lucky one; this one is not.
        """
        best = [bar.best() for bar in bars]
        jobs = [
            None if trial is None else self.measurer.submit(_job(bar, trial.config))
            for bar, trial in zip(bars, best, strict=True)
        ]
        found = [None if job is None else job.result().seconds for job in jobs]
        return [None if seconds is None else seconds * 1e6 for seconds in found]

    def _complete(self, bar: Bar) -> bool:
        return bar.exhausted or len(bar.trials) >= self.trials

    def _ask(self, bar: Bar) -> None:
        if bar.under_way or self._complete(bar):
            return
        bar.under_way = min(self.batch, self.trials - len(bar.trials))

        def answered(future: Future[list[Candidate]]) -> None:
            self._events.put(lambda: self._submit(bar, future.result()))

        self.asker.ask(bar.question(bar.under_way)).add_done_callback(answered)

    def _submit(self, bar: Bar, candidates: Sequence[Candidate]) -> None:
        bar.under_way = len(candidates)
        bar.exhausted = not candidates
        for candidate in candidates:
            self.measurer.submit(_job(bar, candidate)).add_done_callback(
                self._measured(bar, candidate)
            )

    def _measured(self, bar: Bar, candidate: Candidate) -> Callable[[Future[Measurement]], None]:
        def done(future: Future[Measurement]) -> None:
            self._events.put(lambda: self._keep(bar, candidate, future.result()))

        return done

    def _keep(self, bar: Bar, candidate: Candidate, found: Measurement) -> None:
        template, now = _TEMPLATES[candidate.template], datetime.now(timezone.utc)
        provenance = Provenance(self.measurer.device, _tvm_version(), __version__)
        knobs = dataclasses.asdict(candidate.config)
        bar.under_way -= 1
        if found.failure == UNTRIED:
            return
        bar.journal.append([provenance.record(bar.workload, template, knobs, found, now)])
        bar.trials.append(Trial(candidate, found.seconds, found.failure))

    def _handle_events(self) -> None:
        try:
            event = self._events.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return
        event()
        while not self._events.empty():
            self._events.get()()


def _job(bar: Bar, candidate: Candidate) -> Job:
    return Job(bar.workload, candidate.template, candidate.config)


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
    workload: Conv2d,
    target: Target,
    config: Mapping[str, Any] | None,
    measurer: Measurer,
    limit: int,
) -> dict[str, Any]:
    """A sub-space around a configuration of the search, measured whole.

    Returns the table's `exhaustive_us`, `exhaustive_knobs` (which vary), the number of
    configurations, of failures, and the best one.
    """
    space = TEMPLATE.space(workload, target)
    if config is None or not limit:
        return {"exhaustive_us": None}
    knobs, members = sub_space(space, space.from_dict(config), limit)
    jobs = [Job(workload, SEARCHED.template, member) for member in members]
    futures = [measurer.submit(job) for job in jobs]
    found = [future.result() for future in futures]
    right = [(m.seconds, c) for m, c in zip(found, members, strict=True) if m.seconds is not None]
    failures = Counter(m.failure for m in found if m.failure)
    best = min(right, key=lambda pair: pair[0], default=None)
    again = None if best is None else measurer.submit(Job(workload, SEARCHED.template, best[1]))
    seconds = None if again is None else again.result().seconds
    return {
        "exhaustive_us": None if seconds is None else seconds * 1e6,
        "exhaustive_knobs": list(knobs),
        "exhaustive_size": len(members),
        "exhaustive_failures": dict(failures),
        "exhaustive_config": None if best is None else dataclasses.asdict(best[1]),
    }


def record_file(folder: Path, case: str, seed: int) -> Path:
    """Where the trials of a convolution's bars of one seed are kept."""
    return folder / f"{case.lower().replace(' ', '-')}-seed{seed}.jsonl"


def _tvm_version() -> str:
    import tvm

    return str(tvm.__version__)
