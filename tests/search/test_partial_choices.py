"""Partial choices: draws of legal codes, all as likely as each other, whatever the rules read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import autoq.search.partial_choices as partial_choices
from autoq.search.knobs import Knobs
from autoq.search.partial_choices import PartialChoices, allowed
from autoq.search.rule_table import RuleTable
from autoq.search.space import Space


@dataclass(frozen=True)
class Tile:
    rows: int
    columns: int
    parts: int
    depth: int
    stages: int
    early: bool


KNOBS = {
    "rows": (0, 8, 16, 24, 32),
    "columns": (8, 16, 24, 32),
    "parts": (0, 1, 2, 3, 4, 8),
    "depth": (16, 32, 64),
    "stages": (1, 2, 3, 4),
    "early": (False, True),
}


def rows_are_there(one: Tile) -> bool:
    return one.rows > 0


def parts_divide_rows(one: Tile) -> bool:
    # It may be asked only where the rule before it holds, and divides by zero parts besides.
    return 64 // one.rows > 1 and (one.parts == 0 or one.rows % one.parts == 0)


def stages_fit(one: Tile) -> bool:
    return (one.rows + one.columns) * one.depth * one.stages <= 5000


def early_loads_have_stages(one: Tile) -> bool:
    # Reads the stages of early loads alone.
    return not one.early or one.stages > 2


def most_parts_have_depth(one: Tile) -> bool:
    return one.parts < 8 or one.depth > 16


RULES = (
    rows_are_there, parts_divide_rows, stages_fit, early_loads_have_stages, most_parts_have_depth
)  # fmt: skip


def parts_of(rules=RULES, knobs=None):
    knobs = Knobs(KNOBS) if knobs is None else knobs
    return knobs, [RuleTable(rule, Tile, knobs) for rule in rules]


def legal_codes(knobs, tables):
    every = np.arange(knobs.size)
    return every[allowed(knobs, tables, every)]


@pytest.mark.parametrize("most", [1, 30, 400, 1 << 17])
def test_draws_are_uniform_over_the_legal_codes(monkeypatch, most):
    """However many choices may be kept: none, some knobs', or all."""
    monkeypatch.setattr(partial_choices, "_MOST_CHOICES", most)
    knobs, tables = parts_of()
    legal = legal_codes(*parts_of())
    choices = PartialChoices(knobs, tables)
    drawn = choices.draw(np.random.default_rng(1), 400_000)
    codes, counts = np.unique(drawn, return_counts=True)
    assert (codes == legal).all()
    expected = len(drawn) / len(legal)
    squares = ((counts - expected) ** 2 / expected).sum()
    freedom = len(legal) - 1
    # Five standard deviations of chi-square with so many degrees of freedom.
    assert abs(squares - freedom) < 5 * np.sqrt(2 * freedom)


def test_rules_that_choices_decide_are_not_asked_again():
    knobs, tables = parts_of()
    choices = PartialChoices(knobs, tables)
    assert len(choices.codes) < knobs.size / 2
    # All but the one that cannot be asked about codes without rows are decided.
    assert [tables.index(one) for one in choices.open_rules] == [1]
    share = len(choices.draw(np.random.default_rng(0), 10_000)) / 10_000
    assert share > 2 * len(legal_codes(knobs, tables)) / knobs.size


def test_a_rule_that_reads_more_than_the_probes_saw_is_left_open(monkeypatch):
    """One value of two hundred makes the rule read another knob, which no probe may have."""

    @dataclass(frozen=True)
    class Pair:
        first: int
        second: int

    def seconds_matter_seldom(one: Pair) -> bool:
        return one.second < 3 if one.first == 77 else one.first % 2 == 0

    knobs = Knobs({"first": tuple(range(200)), "second": tuple(range(5))})
    table = RuleTable(seconds_matter_seldom, Pair, knobs)
    monkeypatch.setattr(partial_choices, "_PROBES", 16)
    choices = PartialChoices(knobs, [table])
    every = [a * 5 + b for a in range(200) for b in range(5) if (b < 3 if a == 77 else a % 2 == 0)]
    drawn = choices.draw(np.random.default_rng(0), 50_000)
    assert set(drawn.tolist()) == set(every)


def test_a_space_without_a_legal_code_gives_none():
    knobs, tables = parts_of((*RULES, lambda one: one.columns < 8))
    choices = PartialChoices(knobs, tables)
    assert len(choices.draw(np.random.default_rng(0), 1000)) == 0


def test_a_large_space_samples_by_them_and_is_seeded(monkeypatch):
    monkeypatch.setattr("autoq.search.legality.ENUMERATION_LIMIT", 1)
    space = Space(Tile, KNOBS, RULES)
    codes = space.sample_codes(np.random.default_rng(3), 200)
    again = Space(Tile, KNOBS, RULES).sample_codes(np.random.default_rng(3), 200)
    assert codes.tolist() == again.tolist()
    assert len(set(codes.tolist())) == 200
    assert space.legal_codes(codes).all()
    more = space.sample_codes(np.random.default_rng(4), 50, exclude=set(codes.tolist()))
    assert not {*more.tolist()} & {*codes.tolist()}
