"""How far a model carries: each workload ranked by a model that has not seen its shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autoq.knowledge.features import Columns
from autoq.knowledge.lessons import Lesson
from autoq.knowledge.model import trained

COUNTS = (1, 2, 4, 8, 16, 32)
"""Measurements after which the best so far is looked at."""


@dataclass(frozen=True)
class LeftOut:
    """One workload whose shape no training trial had.

    shares: of the recorded best speed, float64 [seeds, counts], after so many measurements in the
    order of the predictions; random and estimated: the same of random order and of the templates'
    estimates alone (medians over the seeds, float64 [counts]).
    """

    lesson: Lesson
    shares: np.ndarray
    random: np.ndarray
    estimated: np.ndarray


def leave_one_out(
    lessons: Sequence[Lesson],
    versions: Mapping[str, int],
    seeds: int,
    counts: Sequence[int] = COUNTS,
    notify: Callable[[str], None] = lambda text: None,
) -> list[LeftOut]:
    """Rank every lesson by models of all lessons of other shapes, one model for each seed."""
    shapes: dict[str, list[Lesson]] = defaultdict(list)
    for one in lessons:
        shapes[one.shape].append(one)
    found = []
    for shape, held in shapes.items():
        rest = [one for one in lessons if one.shape != shape]
        shares: list[list[np.ndarray]] = [[] for _ in held]
        for seed in range(seeds):
            model = trained(rest, "", "", versions, "", seed)
            for own, one in zip(shares, held, strict=True):
                order = np.argsort(model.predict(one.matrix(model.columns)), kind="stable")
                own.append(_shares(one, order, counts))
        for own, one in zip(shares, held, strict=True):
            rng = np.random.default_rng(0)
            draws = [
                _shares(one, rng.permutation(len(one.seconds)), counts)
                for _ in range(max(seeds, 32))
            ]
            estimates = one.matrix(Columns(["seconds_estimate"]))[:, 0]
            order = np.argsort(np.nan_to_num(estimates, nan=np.inf), kind="stable")
            found.append(
                LeftOut(one, np.array(own), np.median(draws, axis=0), _shares(one, order, counts))
            )
            notify(f"{one.workload}: {np.median(own, axis=0).round(3).tolist()}")
    return found


def _shares(lesson: Lesson, order: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Best speed among the first so many of an order, as a share of the best recorded."""
    best = np.minimum.accumulate(lesson.seconds[order])
    return np.array([lesson.seconds.min() / best[min(n, len(best)) - 1] for n in counts])
