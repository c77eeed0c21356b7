"""A tuning task: one workload, the templates that can compute it, and what is known so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoq.errors import ConfigError
from autoq.records.record import Record
from autoq.search.trial import Trial
from autoq.search.union import Candidate, UnionSpace
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from autoq.tuning.asking import Question


@dataclass(frozen=True)
class ModelWorkload:
    """A distinct workload of a model: how often it occurs, and the names of its nodes."""

    workload: Workload
    count: int
    nodes: tuple[str, ...] = ()


def roofline_seconds(workload: Workload, target: Target) -> float:
    """Least seconds by the target's rates; 0 where they are unknown."""
    dtype = getattr(workload, "in_dtype", "int8")
    return target.roofline_seconds(workload.operations, workload.bytes, dtype)


class Task:
    """The search for one workload's fastest kernel.

    Attributes:
        index: position in the model's list of tasks.
        model: the workload with its count.
        templates: that match it, by name.
        trials: measured and recorded, earlier runs included.
        pending: candidates asked for or under way.
        best: the fastest record, None before the first success.
        failures: of the trials, by kind.
        since_best: trials after the one that found `best`.
        exhausted: whether every configuration has been tried.
    """

    def __init__(
        self,
        index: int,
        model: ModelWorkload,
        templates: Sequence[Template],
        target: Target,
        seed: int,
    ) -> None:
        self.index = index
        self.seed = seed
        self.model = model
        self.templates = {template.name: template for template in templates}
        self.trials = 0
        self.pending = 0
        self.best: Record | None = None
        self.failures: Counter[str] = Counter()
        self.since_best = 0
        self.exhausted = False
        self.floor_seconds = roofline_seconds(model.workload, target)
        self._space = UnionSpace(
            {name: t.space(model.workload, target) for name, t in self.templates.items()}
        )
        self._untold: list[Trial[Candidate]] = []
        self._seen: set[int] = set()
        # Defaults are measured first, so that tuned is never slower than untuned.
        defaults = [
            Candidate(name, template.default(model.workload, target))
            for name, template in self.templates.items()
        ]
        self._defaults = [candidate for candidate in defaults if candidate in self._space]
        self._best_at_batch: list[float] = []

    @property
    def best_seconds(self) -> float | None:
        return None if self.best is None else self.best.seconds

    @property
    def last_gain(self) -> float:
        """Seconds of one kernel that the last batch saved; 0 before there are two."""
        if len(self._best_at_batch) < 2:
            return 0.0
        return self._best_at_batch[-2] - self._best_at_batch[-1]

    def question(self, n: int) -> tuple[list[Candidate], Question | None]:
        """The untuned defaults on the first call, and what to ask the strategy for the rest of n.

        All n are pending from now on; give the strategy's answer to `answered`. There is no
        question when the defaults are all that is wanted.
        """
        chosen: list[Candidate] = []
        while self._defaults and len(chosen) < n:
            self._take(self._defaults.pop(0), chosen)
        self.pending += n
        if len(chosen) == n:
            return chosen, None
        told, self._untold = self._untold, []
        names, wanted = tuple(self.templates), n - len(chosen)
        return chosen, Question(self.index, self.model.workload, names, self.seed, wanted, told)

    def answered(self, question: Question, answer: Sequence[Candidate]) -> list[Candidate]:
        """The candidates of an answer that are new; no answer at all ends the task."""
        chosen: list[Candidate] = []
        for candidate in answer:
            self._take(candidate, chosen)
        self.pending -= question.n - len(chosen)
        self.exhausted = self.exhausted or not answer
        return chosen

    def _take(self, candidate: Candidate, chosen: list[Candidate]) -> None:
        code = self._space.code(candidate)
        if code not in self._seen:
            self._seen.add(code)
            chosen.append(candidate)

    def config_dict(self, candidate: Candidate) -> dict[str, object]:
        """The knob values of a candidate, ready for a record."""
        return self._space.to_dict(candidate)["config"]

    def tell(self, records: Iterable[Record]) -> None:
        """Take in records of candidates that were proposed."""
        records = list(records)
        self.pending -= len(records)
        self._learn(records, counted=True)

    def give_up(self) -> None:
        """A candidate that was proposed could not be tried."""
        self.pending -= 1

    def resume(self, records: Iterable[Record], counted: bool) -> int:
        """Take in records of an earlier run; `counted` ones are trials of this run's total.

        Returns how many name a configuration that is no longer legal and were passed over.
        """
        known: list[Record] = []
        illegal = 0
        for record in records:
            try:
                code = self._space.code(self._candidate(record))
            except ConfigError:
                illegal += 1
                continue
            self._seen.add(code)
            known.append(record)
        self._learn(known, counted)
        return illegal

    def end_batch(self) -> None:
        """Note the best time, to see later what the next batch gains."""
        if self.best_seconds is not None:
            self._best_at_batch.append(self.best_seconds)

    def _candidate(self, record: Record) -> Candidate:
        return self._space.from_dict({"template": record.template, "config": record.config})

    def _learn(self, records: Sequence[Record], counted: bool) -> None:
        self._untold += [Trial(self._candidate(r), r.seconds, r.failure) for r in records]
        for record in records:
            best = self.best_seconds
            if record.seconds is not None and (best is None or record.seconds < best):
                self.best = record
                self.since_best = -1 if counted else 0
            if counted:
                self.trials += 1
                self.since_best += 1
                self.failures.update([record.failure] if record.failure else [])
