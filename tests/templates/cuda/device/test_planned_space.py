"""Spaces whose rules look at plans: each is made once, and defaults are the least legal ones."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from autoq.errors import ConfigError
from autoq.templates.cuda.device.planned_space import least, planned_space


@dataclass(frozen=True)
class Config:
    """A tile."""

    rows: int
    columns: int


def space_of(made: list[Config]):
    def plan(config: Config) -> int:
        made.append(config)
        return config.rows * config.columns

    def rules(plan_of):
        def some(config: Config) -> bool:
            """a tile has elements"""
            return plan_of(config) > 0

        def few(config: Config) -> bool:
            """a tile has at most 8 elements"""
            return plan_of(config) <= 8

        return [some, few]

    return planned_space(Config, {"rows": (0, 1, 2, 4), "columns": (1, 4)}, plan, rules)


def test_all_rules_see_one_plan() -> None:
    made: list[Config] = []
    space = space_of(made)
    assert space.legal(Config(2, 4)) and made == [Config(2, 4)]
    assert space.rejection(Config(4, 4)) == "few: a tile has at most 8 elements"


def test_the_least_legal_candidate_is_chosen() -> None:
    space = space_of([])
    candidates = [Config(4, 4), Config(2, 1), Config(2, 4)]
    assert least(space, candidates, lambda config: -config.rows * config.columns) == Config(2, 4)
    with pytest.raises(ConfigError, match="Config: none of the untuned choices is legal"):
        least(space, candidates[:1], lambda config: 0.0)
