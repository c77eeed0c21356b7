"""Codes that a model expects to be fast: the best of some, and what mutation makes of those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autoq.knowledge.model import KnowledgeModel
from autoq.search.space import Space
from autoq.templates.target import Target
from autoq.templates.workload import Workload

Slowness = Callable[[np.ndarray], np.ndarray]
"""Log of the time as predicted, up to a constant: float64 [n] of codes int64 [n]."""

# How often the best of what is known are mutated, how many of them, and into how many each.
_CLIMBS, _CLIMBERS, _MUTANTS = 4, 12, 2


def slowness_of(
    model: KnowledgeModel, workload: Workload, name: str, space: Space[Any], target: Target
) -> Slowness:
    """What a model says of codes of a template's space; name: of the template."""
    return lambda codes: model.doubted(
        model.columns.matrix(workload, name, space, codes, target)
    )[1]  # fmt: skip


def opinion_of(
    model: KnowledgeModel, workload: Workload, name: str, space: Space[Any], target: Target, at: int
) -> Slowness:
    """What one member of a model says, the `at`-th of them and over again.

    Members agree about what was recorded and differ about the rest, so that what each of them
    expects to be fast is more varied than what all do.
    """

    def opinion(codes: np.ndarray) -> np.ndarray:
        features = model.columns.matrix(workload, name, space, codes, target)
        members = np.concatenate(model.members(features))
        return members[at % len(members)]

    return opinion


def climbed(
    space: Space[Any], codes: np.ndarray, slowness: Slowness, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Some codes and mutants of the fastest of them, int64 [n], with the slowness of each."""
    slow = slowness(codes)
    for _ in range(_CLIMBS):
        best = codes[np.argsort(slow, kind="stable")[:_CLIMBERS]]
        mutants = np.setdiff1d(space.mutate_codes(np.repeat(best, _MUTANTS), rng), codes)
        if len(mutants):
            codes = np.concatenate([codes, mutants])
            slow = np.concatenate([slow, slowness(mutants)])
    return codes, slow
