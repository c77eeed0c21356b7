"""A tuning task: one workload, the templates that can compute it, and what is known so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from autoq.errors import ConfigError
from autoq.knowledge.choice import default_of
from autoq.records.record import Record
from autoq.search.trial import Trial
from autoq.search.union import Candidate, UnionSpace
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from autoq.tuning.asking import Question
from autoq.tuning.contest import Contest

# Rates of a made-up device, by which defaults are put in order where a target's are unknown.
_NOMINAL_OPERATIONS, _NOMINAL_BYTES = 1e12, 2e10


@dataclass(frozen=True)
class ModelWorkload:
    """A distinct workload of a model: how often it occurs, and the names of its nodes."""

    workload: Workload
    count: int
    nodes: tuple[str, ...] = ()


def roofline_seconds(workload: Workload, target: Target) -> float:
    """Least seconds by the target's rates; 0 where they are unknown."""
    return target.roofline_seconds(workload.operations_by_dtype, workload.bytes)


class Task:
    """The search for one workload's fastest kernel.

    Attributes:
        index: position in the model's list of tasks.
        model: the workload with its count.
        templates: that match it, by name; the first one's default is used without tuning.
        trials: measured and recorded, earlier runs included.
        pending: candidates asked for or under way.
        failures: of the trials, by kind.
        since_best: trials after the one that found the fastest.
        exhausted: whether every configuration has been tried.
        openings_left: how many of the templates' defaults, and of what a model predicts to be fast,
            have not been asked for; `predicted` are the latter.
        contest: the times of the trials and of comparisons.
        best_after: the best seconds after each trial that counts, infinite before a success.
    """

    def __init__(
        self,
        index: int,
        model: ModelWorkload,
        templates: Sequence[Template],
        target: Target,
        seed: int,
        predicted: int = 0,
    ) -> None:
        self.index = index
        self.seed = seed
        self.model = model
        self.templates = {template.name: template for template in templates}
        self.trials = 0
        self.pending = 0
        self.failures: Counter[str] = Counter()
        self.since_best = 0
        self.exhausted = False
        self._predicted = predicted
        self.floor_seconds = roofline_seconds(model.workload, target)
        self._space = UnionSpace(
            {name: t.space(model.workload, target) for name, t in self.templates.items()}
        )
        self._begun = False
        self._untold: list[Trial[Candidate]] = []
        self._seen: set[int] = set()
        self._target = target
        self.openings_left = len(self.templates) + predicted
        self.contest = Contest(self._find_default)
        self.best_after: list[float] = []
        self._best_at_batch: list[float] = []

    def _find_default(self) -> int | None:
        first = next(iter(self.templates.values()))
        untuned = Candidate(first.name, default_of(first, self.model.workload, self._target))
        # Every default is legal in its own space, by contract of the templates.
        return self._space.code(untuned) if untuned in self._space else None

    @property
    def best(self) -> Record | None:
        """The record that `compile` will choose, None before the first success."""
        return self.contest.best

    @property
    def best_seconds(self) -> float | None:
        return None if self.best is None else self.best.seconds

    @property
    def last_gain(self) -> float | None:
        """Seconds of one kernel that the last batch saved; None before there are two."""
        if len(self._best_at_batch) < 2:
            return None
        return max(0.0, self._best_at_batch[-2] - self._best_at_batch[-1])

    @property
    def importance(self) -> float:
        """Rough seconds in the model of all its occurrences, before anything is measured."""
        workload = self.model.workload
        nominal = workload.operations / _NOMINAL_OPERATIONS + workload.bytes / _NOMINAL_BYTES
        return self.model.count * (self.floor_seconds or nominal)

    @property
    def default_untried(self) -> bool:
        """Whether the untuned default still has to be asked for."""
        return self.contest.default is not None and self.contest.default not in self._seen

    def question(self, n: int) -> tuple[list[Candidate], Question | None]:
        """The untuned default if it is untried, else what to ask the strategy for n candidates.

        They are pending from now on; give the strategy's answer to `answered`. Its first answers
        are the defaults of the other templates, which may take a second to find, and predictions.
        """
        if not self._begun:
            self._begun = True
            self.openings_left -= 1
            if self.default_untried:
                untuned = self._space.config(self.contest.default)
                self._seen.add(self.contest.default)
                self.pending += 1
                return [untuned], None
        if self.openings_left:
            n = min(n, self.openings_left)
            self.openings_left -= n
        self.pending += n
        told, self._untold = self._untold, []
        names = tuple(self.templates)
        return [], Question(
            self.index, self.model.workload, names, self.seed, n, told, opening=self._predicted
        )

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
        for record in records:
            self._learn(record, self._candidate(record), counted=True)

    def give_up(self, candidates: int = 1) -> None:
        """Candidates that were proposed, or asked for, are not tried."""
        self.pending -= candidates

    def resume(self, records: Iterable[Record], counted: bool, live: bool = False) -> int:
        """Take in records of another run in the order of their file.

        `counted` ones are of this run's output: trials of its total, and comparisons that stand.
        `live` ones are of a run beside this one, whose comparisons may not have known all claims.
        Returns how many name a configuration that is no longer legal and were passed over.
        """
        illegal = 0
        compared: list[Record] = []
        for record in records:
            try:
                candidate = self._candidate(record)
            except ConfigError:
                illegal += 1
                continue
            if compared and not (record.confirmed and record.time == compared[0].time):
                self.settle(compared, live)
                compared = []
            if record.confirmed and counted:
                compared.append(record)
            code = self._space.code(candidate)
            if code in self._seen and record.confirmed:
                continue
            self._seen.add(code)
            self._learn(record, candidate, counted)
        self.settle(compared, live)
        return illegal

    def settle(self, records: Sequence[Record], keep_claims: bool = False) -> None:
        """Take in the records of a comparison; as `Contest.settle`."""
        if records:
            found = [(self._space.code(self._candidate(record)), record) for record in records]
            self.contest.settle(found, keep_claims)

    def entrants(self) -> list[Candidate]:
        """The candidates of a comparison that begins now, none where there is no need for one."""
        return [self._space.config(code) for code in self.contest.begin()]

    def end_batch(self) -> None:
        """Note the best time, to see later what the next batch gains."""
        fastest = self.contest.fastest
        if fastest is not None and fastest.seconds is not None:
            self._best_at_batch.append(fastest.seconds)

    def _candidate(self, record: Record) -> Candidate:
        candidate = self._space.from_dict({"template": record.template, "config": record.config})
        self._space.code(candidate)
        return candidate

    def _learn(self, record: Record, candidate: Candidate, counted: bool) -> None:
        self._untold.append(Trial(candidate, record.seconds, record.failure))
        before = self.contest.fastest
        self.contest.claim(self._space.code(candidate), record)
        if self.contest.fastest is not before:
            self.since_best = -1 if counted else 0
        if counted:
            self.trials += 1
            self.since_best += 1
            self.failures.update([record.failure] if record.failure else [])
            fastest = self.contest.fastest
            known = fastest is not None and fastest.seconds is not None
            self.best_after.append(fastest.seconds if known else inf)
