"""The share of a side's values from which on a whole product corrects faster than lists of them."""

from __future__ import annotations

from autoq.templates.target import Target

DEFAULT_CROSSOVERS = {"cpu": 0.1, "cuda": 1 / 128}
"""The crossover by the kind of a target, where none is given. On CUDA untuned lists have room for
no more."""


def default_crossover(target: Target) -> float:
    """The crossover that is assumed on a target."""
    return DEFAULT_CROSSOVERS[target.kind]
