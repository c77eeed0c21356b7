"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from autoq.search.annealing import Annealing
from autoq.search.classifier import Classifier
from autoq.search.diverse_annealing import DiverseAnnealing
from autoq.search.evolution import Evolution
from autoq.search.guided import Guided
from autoq.search.ideas import WITHOUT
from autoq.search.informed import Informed
from autoq.search.metaschedule import MetaSchedule
from autoq.search.random_search import RandomSearch
from autoq.search.search_space import SearchSpace
from autoq.search.strategy import Strategy
from autoq.search.thompson import Thompson
from autoq.search.tpe import Tpe

MakeStrategy = Callable[[SearchSpace[Any], int], Strategy[Any]]

STRATEGIES: dict[str, MakeStrategy] = {
    "informed": Informed,
    "guided": Guided,
    "random": RandomSearch,
    "annealing": Annealing,
    "annealing-filtered": partial(Annealing, diversity_ratio=2),
    "diverse": DiverseAnnealing,
    "metaschedule": MetaSchedule,
    "classifier": Classifier,
    "evolution": Evolution,
    "thompson": Thompson,
    "tpe": Tpe,
}
ABLATIONS: dict[str, MakeStrategy] = {
    name: partial(Informed, ideas=ideas) for name, ideas in WITHOUT.items()
}
"""Ours with one idea left out: for comparisons, not for tuning."""

DEFAULT_STRATEGY = "informed"
