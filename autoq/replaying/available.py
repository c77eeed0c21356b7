"""The strategies that can run here."""

from __future__ import annotations

from importlib.util import find_spec

from autoq.search.registry import STRATEGIES

_PACKAGES = {"tpe": "optuna"}


def available() -> list[str]:
    """Names of the strategies, without those whose packages are not installed."""
    return [
        name
        for name in STRATEGIES
        if name not in _PACKAGES or find_spec(_PACKAGES[name]) is not None
    ]
