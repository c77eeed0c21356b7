"""Search: spaces of legal configurations and strategies that choose what to measure.

Knows numpy and xgboost; knows nothing of TVM, files, processes or devices.
"""

from __future__ import annotations

from autoq.search.registry import DEFAULT_STRATEGY, STRATEGIES
from autoq.search.search_space import SearchSpace
from autoq.search.space import Space
from autoq.search.strategy import Strategy
from autoq.search.trial import FAILURES, Trial
from autoq.search.union import Candidate, UnionSpace

__all__ = [
    "DEFAULT_STRATEGY",
    "FAILURES",
    "STRATEGIES",
    "Candidate",
    "SearchSpace",
    "Space",
    "Strategy",
    "Trial",
    "UnionSpace",
]
