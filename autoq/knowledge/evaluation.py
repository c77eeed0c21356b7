"""How far a model carries: each workload ranked by a model that has not seen its shape."""

from __future__ import annotations

import math
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np

from autoq.knowledge.features import Columns
from autoq.knowledge.lessons import Lesson
from autoq.knowledge.listing import listed
from autoq.knowledge.model import KnowledgeModel, trained
from autoq.measure.job import REGISTRY, load_registry
from autoq.records.lookup import template_versions
from autoq.records.recorded_space import DEFAULT, ESTIMATED
from autoq.search.recorded_space import RecordedSpace
from autoq.search.replay import replay
from autoq.search.search_space import ESTIMATE
from autoq.search.strategies.informed import Informed
from autoq.search.trial import Trial
from autoq.search.union import Candidate, UnionSpace
from autoq.templates.base import Template
from autoq.templates.registry import matching

COUNTS = (1, 2, 4, 8, 16, 32)
"""Measurements after which the best so far is looked at."""

PROMISES = (1.03, 1.05, 1.1, 1.15)
"""How much faster than the default a choice may have to promise to be, to be looked at."""


@dataclass(frozen=True)
class LeftOut:
    """One workload whose shape no training trial had.

    shares: of the recorded best speed, float64 [seeds, counts], after so many measurements of a
    list (`listing`); model: the same in the order of the predictions alone; adaptive: of the
    default search with the model as its prior, which begins with the untuned default where that was
    recorded and chooses four, four and then eight at once, by what those before them took; boosters
    and perceptrons: as model, of the order of those members alone; random and estimated: of random
    order and of the templates' estimates alone (medians over the seeds, float64 [counts]).

    family: name of the preferred template; default: time of its untuned default over the best that
    was recorded, None where it was not; choices: float64 [seeds, 2], the same of what is predicted
    to be the fastest of the defaults and best estimates, some of what `choice.predicted` looks at
    (of all without a default), and the logarithm of what that promises over the default, NaN
    without one.
    """

    lesson: Lesson
    shares: np.ndarray
    model: np.ndarray
    adaptive: np.ndarray
    boosters: np.ndarray
    perceptrons: np.ndarray
    random: np.ndarray
    estimated: np.ndarray
    family: str
    default: float | None
    choices: np.ndarray


@dataclass(frozen=True)
class Groups:
    """What is left out together: so many groups of shapes, 0 for each shape by itself.

    models: trained without a group, each of which serves several seeds; 0 for one each.
    """

    folds: int = 0
    models: int = 0


EACH = Groups()
"""Each shape is left out by itself, and every seed has a model of its own."""


def leave_one_out(
    lessons: Sequence[Lesson],
    templates: Mapping[str, Template],
    seeds: int,
    notify: Callable[[str], None] = lambda text: None,
    jobs: int = 1,
    least: int = 0,
    groups: Groups = EACH,
) -> list[LeftOut]:
    """Rank every lesson by models of all lessons of other shapes.

    jobs: processes, which take a group at a time, of registered templates if more than one; the
    result is the same with any number. least: lessons of fewer configurations are learnt from and
    not ranked. groups: what is left out together, and how often a model is trained.
    A lesson whose preferred template no other shape teaches is not ranked: nothing is known of it.
    """
    groupings: dict[str, list[Lesson]] = defaultdict(list)
    shapes = shapes_of_templates(lessons)
    for one in lessons:
        if len(one.seconds) >= least and len(shapes[preferred(one, templates).name]) > 1:
            group = (
                str(zlib.crc32(one.shape.encode()) % groups.folds) if groups.folds else one.shape
            )
            groupings[group].append(one)
    work = _Work(lessons, templates, seeds, groups.models or seeds)
    found: dict[str, list[LeftOut]] = {}
    for group, left in _each(work, groupings, jobs):
        found[group] = left
        for one in left:
            notify(f"{one.lesson.workload}: {np.median(one.shares, axis=0).round(3).tolist()}")
    return [one for group in groupings for one in found[group]]


def _each(
    work: _Work, groupings: Mapping[str, Sequence[Lesson]], jobs: int
) -> Iterator[tuple[str, list[LeftOut]]]:
    """What comes of each group, in the order of their ends."""
    if jobs == 1:
        for group, held in groupings.items():
            yield group, work.ranked(held)
        return
    # No fork may follow XGBoost's own threads, and numpy's would wait for each other in loops,
    # which takes time from the processes beside them.
    context = get_context("spawn")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    begun = work.lessons, tuple(work.templates), work.seeds, work.models
    with ProcessPoolExecutor(jobs, context, _begin, begun) as pool:
        futures = {pool.submit(_ranked, held): group for group, held in groupings.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()


_work: _Work | None = None
"""What a process of its own was begun with."""


def _begin(lessons: Sequence[Lesson], names: Sequence[str], seeds: int, models: int) -> None:
    """Templates are loaded anew in each process: they hold functions that none can send."""
    global _work
    registered = load_registry(REGISTRY)
    _work = _Work(lessons, {name: registered[name] for name in names}, seeds, models)


def _ranked(held: Sequence[Lesson]) -> list[LeftOut]:
    assert _work is not None
    return _work.ranked(held)


def preferred(lesson: Lesson, templates: Mapping[str, Template]) -> Template:
    """The template that makes a workload's untuned default."""
    fitting = matching(lesson.workload, lesson.target, list(templates.values()))
    return next(template for template in fitting if template.tunable)


def shapes_of_templates(lessons: Sequence[Lesson]) -> dict[str, set[str]]:
    """The shapes that have trials of each template."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in lessons:
        for name in set(one.templates):
            found[name].add(one.shape)
    return found


@dataclass(frozen=True)
class _Work:
    """What is done with each group of shapes."""

    lessons: Sequence[Lesson]
    templates: Mapping[str, Template]
    seeds: int
    models: int

    def ranked(self, lessons: Sequence[Lesson]) -> list[LeftOut]:
        """What models that have seen none of some lessons' shapes make of them."""
        held = [_Held(one, self.templates) for one in lessons]
        shapes = {one.shape for one in lessons}
        rest = [one for one in self.lessons if one.shape not in shapes]
        versions = template_versions(self.templates.values())
        for first in range(self.models):
            model = trained(rest, "", "", versions, "", first)
            for seed in range(first, self.seeds, self.models):
                for one in held:
                    one.rank(model, COUNTS, seed)
        return [one.left_out(COUNTS) for one in held]


class _Held:
    """A lesson that is held out, and what models that have not seen its shape make of it."""

    def __init__(self, lesson: Lesson, templates: Mapping[str, Template]) -> None:
        self._lesson = lesson
        first = preferred(lesson, templates)
        self._family = first.name
        default = first.name, first.default(lesson.workload, lesson.target)
        trials = zip(lesson.templates, lesson.configs, strict=True)
        self._default = next((i for i, trial in enumerate(trials) if trial == default), None)
        self._candidates = np.ones(len(lesson.seconds), bool)
        if self._default is not None:
            self._candidates = np.isin(lesson.drawn, (DEFAULT, ESTIMATED))
            self._candidates[self._default] = True
        spaces = {
            name: templates[name].space(lesson.workload, lesson.target)
            for name in dict.fromkeys(lesson.templates)
        }
        candidates = [
            Candidate(*trial) for trial in zip(lesson.templates, lesson.configs, strict=True)
        ]
        self._trials = dict(zip(candidates, map(_trial, candidates, lesson.seconds), strict=True))
        self._space = RecordedSpace(UnionSpace(spaces), candidates)
        self._rows = {self._space.code(one): i for i, one in enumerate(candidates)}
        self._begun = [] if self._default is None else [candidates[self._default]]
        self._estimates = lesson.matrix(Columns([ESTIMATE]))[:, 0]
        self._shares: list[np.ndarray] = []
        self._model: list[np.ndarray] = []
        self._adaptive: list[np.ndarray] = []
        self._boosters: list[np.ndarray] = []
        self._perceptrons: list[np.ndarray] = []
        self._choices: list[tuple[float, float]] = []

    def rank(self, model: KnowledgeModel, counts: Sequence[int], seed: int) -> None:
        """Take in a model's order, and a search that begins with it."""
        features = self._lesson.matrix(model.columns)
        slowness, doubted = model.doubted(features)
        mixed = listed(slowness, self._estimates, self._lesson.templates, max(counts))
        self._shares.append(_shares(self._lesson, mixed, counts))
        order = np.argsort(slowness, kind="stable")
        self._model.append(_shares(self._lesson, order, counts))
        for said, shares in zip(
            model.members(features), (self._boosters, self._perceptrons), strict=True
        ):
            alone = np.argsort(said.mean(axis=0), kind="stable")
            shares.append(_shares(self._lesson, alone, counts))
        self._adaptive.append(self._searched(model, slowness, counts, seed))
        first = int(np.argmin(np.where(self._candidates, doubted, np.inf)))
        promised = math.nan
        if self._default is not None:
            promised = float(doubted[self._default] - doubted[first])
        self._choices.append((self._over_best(first), promised))

    def _searched(
        self, model: KnowledgeModel, slowness: np.ndarray, counts: Sequence[int], seed: int
    ) -> np.ndarray:
        """Best speed of a search after each count of trials, as a share of the best recorded."""
        known = [name in model.about.versions for name in self._lesson.templates]
        believed = np.where(known, slowness, np.nan)

        def prior(codes: np.ndarray) -> np.ndarray:
            return believed[[self._rows[code] for code in codes.tolist()]]

        strategy = Informed(self._space, seed, prior)
        curve = replay(strategy, self._trials, max(counts), None, self._begun)
        best = float(self._lesson.seconds.min())
        return np.array([best / curve[min(n, len(curve)) - 1] for n in counts])

    def _over_best(self, trial: int) -> float:
        return float(self._lesson.seconds[trial] / self._lesson.seconds.min())

    def left_out(self, counts: Sequence[int]) -> LeftOut:
        """What the models came to, beside random order and estimates."""
        lesson = self._lesson
        rng = np.random.default_rng(0)
        draws = [
            _shares(lesson, rng.permutation(len(lesson.seconds)), counts)
            for _ in range(max(len(self._shares), 32))
        ]
        order = np.argsort(np.nan_to_num(self._estimates, nan=np.inf), kind="stable")
        return LeftOut(
            lesson, np.array(self._shares), np.array(self._model), np.array(self._adaptive),
            np.array(self._boosters), np.array(self._perceptrons),
            np.median(draws, axis=0),
            _shares(lesson, order, counts), self._family,
            None if self._default is None else self._over_best(self._default),
            np.array(self._choices),
        )  # fmt: skip


def _trial(candidate: Candidate, seconds: float) -> Trial[Candidate]:
    if math.isfinite(seconds):
        return Trial(candidate, seconds=float(seconds))
    return Trial(candidate, failure="runtime")


def _shares(lesson: Lesson, order: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Best speed among the first so many of an order, as a share of the best recorded."""
    best = np.minimum.accumulate(lesson.seconds[order])
    return np.array([lesson.seconds.min() / best[min(n, len(best)) - 1] for n in counts])
