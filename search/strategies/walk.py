"""Simulated annealing of many parallel chains over the scores of a cost model."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np

Score = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Schedule:
    """How a walk runs.

    Attributes:
        points: parallel chains.
        iterations: at most so many steps.
        patience: stop after so many steps without a change of the best set.
        temperature: of the first step.
        cooling: taken off the temperature at each step.
    """

    points: int = 128
    iterations: int = 500
    patience: int = 50
    temperature: float = 1.0
    cooling: float = 0.002


@dataclass(frozen=True)
class Challenge:
    """Mutants that compete with the chains' present points, at most one for each chain.

    Attributes:
        chains: positions of the challenged chains, int64 [m], distinct.
        codes: mutants, int64 [m].
        scores: of the mutants, float [m].
    """

    chains: np.ndarray
    codes: np.ndarray
    scores: np.ndarray


Propose = Callable[[np.ndarray, np.random.Generator], list[Challenge]]


class BestSet:
    """The n best-scored codes that were offered, without the excluded ones."""

    def __init__(self, n: int, exclude: Set[int]) -> None:
        self._n = n
        self._exclude = exclude
        self._scores: dict[int, float] = {}
        self._worst = -np.inf

    def offer(self, codes: np.ndarray, scores: np.ndarray) -> bool:
        """Take in codes [m] with scores [m]; true when the set changed."""
        good = np.flatnonzero(scores > self._worst)
        new = {
            code: score
            for code, score in zip(codes[good].tolist(), scores[good].tolist(), strict=True)
            if code not in self._scores and code not in self._exclude
        }
        if not new or not self._n:
            return False
        before = self._scores.keys()
        merged = sorted({**self._scores, **new}.items(), key=lambda item: -item[1])[: self._n]
        kept = dict(merged)
        changed = kept.keys() != before
        self._scores = kept
        if len(kept) == self._n:
            self._worst = merged[-1][1]
        return changed

    def ranked(self) -> list[tuple[int, float]]:
        """The codes with their scores, best first."""
        return list(self._scores.items())


def anneal(
    starts: np.ndarray,
    score: Score,
    propose: Propose,
    best: BestSet,
    schedule: Schedule,
    rng: np.random.Generator,
) -> np.ndarray:
    """Walk the chains from starts [points] and fill best; returns where they end.

    A challenger is accepted when it scores higher, and otherwise with probability
    exp((new - old) / temperature) (source: autotvm/tuner/sa_model_optimizer.py).
    """
    points = starts.copy()
    scores = score(points)
    best.offer(points, scores)
    temperature = schedule.temperature
    changed_at = 0
    for step in range(schedule.iterations):
        if step >= changed_at + schedule.patience:
            break
        for challenge in propose(points, rng):
            change = (challenge.scores - scores[challenge.chains]) / (temperature + 1e-5)
            accepted = rng.random(len(change)) < np.exp(np.minimum(change, 1.0))
            chains = challenge.chains[accepted]
            points[chains] = challenge.codes[accepted]
            scores[chains] = challenge.scores[accepted]
            if best.offer(challenge.codes, challenge.scores):
                changed_at = step
        temperature -= schedule.cooling
    return points
