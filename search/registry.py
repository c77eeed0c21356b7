"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.annealing import Annealing
from autoq.search.strategies.classifier import Classifier
from autoq.search.strategies.diverse_annealing import DiverseAnnealing
from autoq.search.strategies.ideas import OTHERWISE, WITHOUT
from autoq.search.strategies.informed import Informed
from autoq.search.strategies.listed import Listed
from autoq.search.strategies.metaschedule import MetaSchedule
from autoq.search.strategies.prior_mean import Prior
from autoq.search.strategies.random_search import RandomSearch
from autoq.search.strategies.tpe import Tpe
from autoq.search.strategy import Strategy

MakeStrategy = Callable[[SearchSpace[Any], int], Strategy[Any]]

STRATEGIES: dict[str, MakeStrategy] = {
    "informed": Informed,
    "listed": Listed,
    "random": RandomSearch,
    "annealing": Annealing,
    "annealing-filtered": partial(Annealing, diversity_ratio=2),
    "diverse": DiverseAnnealing,
    "metaschedule": MetaSchedule,
    "classifier": Classifier,
    "tpe": Tpe,
}
ABLATIONS: dict[str, MakeStrategy] = {
    name: partial(Informed, ideas=ideas) for name, ideas in {**WITHOUT, **OTHERWISE}.items()
}
"""Ours with one idea left out, or with one that was no gain: for comparisons, not for tuning."""

KNOWING: dict[str, Callable[[SearchSpace[Any], int, Prior], Strategy[Any]]] = {
    "informed": Informed,
    "listed": Listed,
}
"""Those that can begin with what is known of their space beforehand."""

DEFAULT_STRATEGY = "informed"


def make_strategy(
    name: str, space: SearchSpace[Any], seed: int, prior: Prior | None = None
) -> Strategy[Any]:
    """A strategy by name, which begins with a prior if it can; KeyError for an unknown name."""
    if prior is not None and name in KNOWING:
        return KNOWING[name](space, seed, prior)
    return STRATEGIES[name](space, seed)
