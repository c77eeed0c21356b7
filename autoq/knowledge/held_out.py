"""A lesson that is held out, and what models that have not seen its shape make of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autoq.knowledge.features import Columns
from autoq.knowledge.lessons import Lesson, preferred
from autoq.knowledge.model import KnowledgeModel
from autoq.records.recorded_space import DEFAULT, ESTIMATED
from autoq.search.recorded_space import RecordedSpace
from autoq.search.replay import replay
from autoq.search.search_space import ESTIMATE
from autoq.search.strategies.informed import Informed
from autoq.search.strategies.listed import list_order
from autoq.search.trial import Trial
from autoq.search.union import Candidate, UnionSpace
from autoq.templates.base import Template

COUNTS = (1, 2, 4, 8, 16, 32)
"""Measurements after which the best so far is looked at."""

_DRAWS = 32
"""Random orders, of which the median counts."""


@dataclass(frozen=True)
class LeftOut:
    """One workload whose shape no training trial had.

    shares: of the recorded best speed, float64 [seeds, counts], after so many measurements of a
    list (`search.strategies.listed`); model: the same in the order of the predictions alone;
    adaptive: of the default search with the model as its prior, which begins with the untuned
    default where that was recorded and chooses four, four and then eight at once, by what those
    before them took; boosters and perceptrons: as model, of the order of those members alone;
    random and estimated: of random order and of the templates' estimates alone (medians over the
    seeds, float64 [counts]).

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


def joined(parts: Sequence[LeftOut]) -> LeftOut:
    """What several models make of one lesson, their seeds one behind the other."""
    by_seed = "shares", "model", "adaptive", "boosters", "perceptrons", "choices"
    return dataclasses.replace(
        parts[0],
        **{name: np.concatenate([getattr(one, name) for one in parts]) for name in by_seed},
    )


class HeldOut:
    """Collects what models that have not seen a lesson's shape make of it.

    Args:
        lesson: of a recorded space.
        templates: all that computed something of it, by name.
    """

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
        mixed = list_order(slowness, self._estimates, self._lesson.templates, max(counts))
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
            _shares(lesson, rng.permutation(len(lesson.seconds)), counts) for _ in range(_DRAWS)
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
