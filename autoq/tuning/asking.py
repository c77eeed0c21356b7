"""Asking strategies for candidates: in this process, or in processes of their own.

A question for 32 candidates of a convolution takes a quarter to one second of one core, and the
first one of a task, for the defaults of all templates and what a model expects to be fast, half a
second; strategies of several tasks therefore think at the same time, while others are measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from autoq.errors import EnvironmentFault
from autoq.knowledge.choice import default_of, predicted
from autoq.knowledge.model import KnowledgeModel
from autoq.knowledge.prior import prior_of
from autoq.measure.job import load_registry
from autoq.process.child import Child, ChildCrash, Entry
from autoq.process.pool import ChildPool
from autoq.search.registry import make_strategy
from autoq.search.strategies.prior_mean import Prior
from autoq.search.strategy import Strategy
from autoq.search.trial import Trial
from autoq.search.union import Candidate, UnionSpace
from autoq.templates.target import Target
from autoq.templates.workload import Workload

PREDICTED = 4
"""Predictions that are measured before a strategy is asked: of a workload that a model has not
seen, the best of its first four reaches the best recorded speed in the median."""

_ASK_SECONDS = 1800.0
_MOST_CRASHES = 4

Trials = Sequence[Trial[Candidate]]


@dataclass(frozen=True)
class SearchSettings:
    """What all strategies of a run share.

    tuner is a key of `search.STRATEGIES`; knowledge is a model of records of the device, if any.
    """

    registry: str
    target: Target
    tuner: str
    knowledge: KnowledgeModel | None = None


@dataclass(frozen=True)
class Question:
    """At most n candidates are wanted for a workload, of which more is known than before.

    task, templates (names) and seed make the strategy the first time; told are the trials since
    the last question. opening: None for candidates of the strategy alone; else the first ones are
    the defaults of all templates but the first, and so many that a model expects to be fast, as far
    as they are not told.
    """

    task: int
    workload: Workload
    templates: tuple[str, ...]
    seed: int
    n: int
    told: Trials
    opening: int | None = None


class Strategies:
    """The strategies of some tasks, made when they are first asked."""

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings
        self._registry = load_registry(settings.registry)
        self._strategies: dict[int, Strategy[Candidate]] = {}
        self._openings: dict[int, list[Candidate]] = {}

    def answer(self, question: Question) -> list[Candidate]:
        """Tell, then ask; a strategy is not asked before what comes first."""
        if question.opening is not None and question.task not in self._openings:
            self._openings[question.task] = self._opening(question)
        first = self._openings.get(question.task, [])
        told = {trial.config for trial in question.told}
        first[:] = [candidate for candidate in first if candidate not in told]
        if first:
            answer, first[:] = first[: question.n], first[question.n :]
            self._strategy(question).tell(question.told)
            return answer
        strategy = self._strategy(question)
        strategy.tell(question.told)
        return strategy.ask(question.n)

    def _opening(self, question: Question) -> list[Candidate]:
        settings, workload = self._settings, question.workload
        target = settings.target
        templates = [self._registry[name] for name in question.templates]
        untuned, *found = (Candidate(t.name, default_of(t, workload, target)) for t in templates)
        if settings.knowledge is not None:
            best = predicted(settings.knowledge, workload, templates, target)
            found += [Candidate(one.template.name, one.config) for one in best[: question.opening]]
        space = self._space(question)
        others = dict.fromkeys(one for one in found if one in space and one != untuned)
        return list(others)

    def _strategy(self, question: Question) -> Strategy[Candidate]:
        strategy = self._strategies.get(question.task)
        if strategy is None:
            space = self._space(question)
            prior = self._prior(question, space)
            strategy = make_strategy(self._settings.tuner, space, question.seed, prior)
            self._strategies[question.task] = strategy
        return strategy

    def _space(self, question: Question) -> UnionSpace:
        workload, target = question.workload, self._settings.target
        return UnionSpace(
            {name: self._registry[name].space(workload, target) for name in question.templates}
        )

    def _prior(self, question: Question, space: UnionSpace) -> Prior | None:
        model = self._settings.knowledge
        if model is None:
            return None
        versions = {name: self._registry[name].version for name in question.templates}
        return prior_of(model, question.workload, space, self._settings.target, versions)


def serve(settings: SearchSettings) -> Callable[[Question], list[Candidate]]:
    """The handler of a child process."""
    return Strategies(settings).answer


class Asker(Protocol):
    """Answers questions, at once or later, `parallel` at the same time."""

    parallel: int

    def ask(self, question: Question) -> Future[list[Candidate]]: ...

    def close(self) -> None: ...


class LocalAsker:
    """Answers in the calling thread: deterministic, for replays and for busy hosts."""

    parallel = 1

    def __init__(self, settings: SearchSettings) -> None:
        self._strategies = Strategies(settings)

    def ask(self, question: Question) -> Future[list[Candidate]]:
        """The answer, already there."""
        future: Future[list[Candidate]] = Future()
        future.set_result(self._strategies.answer(question))
        return future

    def close(self) -> None:
        """Nothing to end."""


class ParallelAsker:
    """Answers in `size` child processes; a task's strategy stays in one of them.

    A strategy whose process dies is made again in another, from all that it was told. A future
    raises EnvironmentFault when the processes die again and again.
    """

    def __init__(self, settings: SearchSettings, size: int) -> None:
        entry = Entry("autoq.tuning.asking", "serve", settings)
        environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._pools = [ChildPool(lambda: Child(entry, environment), 1) for _ in range(size)]
        for pool in self._pools:
            pool.warm()
        self.parallel = size
        self._places: dict[int, int] = {}
        # By task: all that its strategy was told, and the process that it is in.
        self._told: dict[int, list[Trial[Candidate]]] = {}
        self._homes: dict[int, int | None] = {}

    def ask(self, question: Question) -> Future[list[Candidate]]:
        """The answer, when the task's process comes to it."""
        place = self._places.setdefault(question.task, len(self._places) % len(self._pools))
        return self._pools[place].submit(lambda child: self._answer(child, question))

    def _answer(self, child: Child, question: Question) -> list[Candidate]:
        task = question.task
        told = self._told.setdefault(task, [])
        told += question.told
        everything = dataclasses.replace(question, told=tuple(told))
        crashes = 0
        while True:
            at_home = child.alive and child.pid == self._homes.get(task)
            try:
                answer = child.call(question if at_home else everything, _ASK_SECONDS)
            except ChildCrash as error:
                crashes += 1
                if crashes == _MOST_CRASHES:
                    raise EnvironmentFault(f"the search's process {error}") from error
                continue
            self._homes[task] = child.pid
            return answer

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools:
            pool.close()
