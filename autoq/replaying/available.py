"""The strategies that can run here."""

from __future__ import annotations

from autoq.search.registry import STRATEGIES


def available() -> list[str]:
    """Names of the strategies, without those whose packages are not installed."""
    return list(STRATEGIES)
