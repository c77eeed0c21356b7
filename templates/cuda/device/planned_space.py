"""Spaces whose rules look at what follows from a configuration, and untuned choices of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from autoq.errors import ConfigError
from autoq.search.space import Space

C = TypeVar("C")
P = TypeVar("P")


def planned_space(
    config_type: type[C], knobs: Mapping[str, Sequence[Any]], plan: Callable[[C], P],
    rules: Callable[[Callable[[C], P]], Sequence[Callable[[C], bool]]],
    features: Callable[[C], Mapping[str, float]] | None = None,
) -> Space[C]:  # fmt: skip
    """A `Space` of knobs under rules that look at plans.

    plan(config): what follows from a configuration, such as its tiling; rules(plan_of): the rules,
    which ask `plan_of` for it. All of them look at one configuration before the next, so that each
    plan is made once.
    """
    return Space(config_type, knobs, rules(functools.lru_cache(maxsize=1)(plan)), features)


def least(legal: Space[C], candidates: Iterable[C], seconds: Callable[[C], float]) -> C:
    """The legal one of some candidates that takes the fewest estimated seconds.

    Raises ConfigError where none is legal.
    """
    found = min((config for config in candidates if config in legal), key=seconds, default=None)
    if found is None:
        raise ConfigError(f"{legal.config_type.__name__}: none of the untuned choices is legal")
    return found
