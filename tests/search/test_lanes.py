"""Plain functions over lanes give what they give for each configuration by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from autoq.search.batch import Batched
from autoq.search.knobs import Knobs
from autoq.search.lanes import Lanes, choose, least, looked_up, most, of_each
from autoq.search.rule_table import RuleTable
from autoq.search.traced import Reads


@dataclass(frozen=True)
class Ring:
    stages: int

    @property
    def deep(self) -> bool:
        return self.stages > 2

    def bytes(self, each: int) -> int:
        return self.stages * each


@dataclass(frozen=True)
class Whole:
    deep = False
    stages = 0

    def bytes(self, each: int) -> int:
        return 7 * each


@dataclass(frozen=True)
class Config:
    tile: int
    wide: bool
    name: str
    weights: Ring | Whole
    parts: int | None

    @property
    def area(self) -> int:
        return self.tile * (self.tile + self.wide)


KNOBS = Knobs({
    "tile": (16, 24, 64, 96, 128),
    "wide": (False, True),
    "name": ("a", "b", "c"),
    "weights": (Ring(2), Ring(3), Whole(), Ring(5)),
    "parts": (None, 1, 2, 3),
})  # fmt: skip

FUNCTIONS = [
    lambda c: -(-c.area // 7) % 5 + (3 << c.wide) - 100 // c.tile,
    lambda c: max(c.tile, 60) if c.wide else min(c.tile, 60) / 3,
    lambda c: {"a": 1.5, "b": c.tile}.get(c.name, 0.25) * (1 if c.parts is None else c.parts),
    lambda c: c.weights.bytes(c.tile) + (c.weights.deep and not c.wide),
    lambda c: 2 if isinstance(c.weights, Ring) and c.weights == Ring(3) else c.weights.stages,
    lambda c: {16: 2.0, 64: 3.0}.get(c.tile, 1.0) + sum(range(c.tile // 16)),
    lambda c: choose(c.wide, most(c.tile, 50), least(c.tile, 50)) * looked_up({16: 3}, c.tile, 1),
    lambda c: int(f"{c.tile}{c.weights.stages}") + c.wide + c.wide,
    lambda c: 1 << 40 if c.tile * (1 << 57) > 1 << 62 else 0,
    lambda c: 1 / (c.tile - 16) if c.tile != 16 and c.tile < 100 else 0,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_lanes_compute_what_single_configurations_do(function):
    codes = np.arange(KNOBS.size)
    expected = [float(function(Config(*KNOBS.at(code)))) for code in codes.tolist()]
    found = np.full(len(codes), np.nan)
    for part, value in Batched(function, Config, KNOBS).over(KNOBS.positions(codes), codes):
        found[part] = value.values if type(value) is Lanes else value
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_a_rule_is_asked_once_for_each_choice_of_what_it_reads():
    asked = []

    def rule(config: Config) -> bool:
        asked.append(config)
        return config.tile < 64 or config.parts is not None

    table = RuleTable(rule, Config, KNOBS)
    codes = np.random.default_rng(0).permutation(KNOBS.size)
    columns = KNOBS.positions(codes)
    truth = [rule(Config(*KNOBS.at(code))) for code in codes.tolist()]
    assert table.mask(columns, np.arange(len(codes))).tolist() == truth
    del asked[:]
    assert table.mask(columns, np.arange(len(codes))[::-1]).tolist() == truth[::-1]
    assert not asked


def test_reads_are_those_of_every_configuration():
    reads = Reads()
    codes = np.arange(KNOBS.size)
    function = Batched(lambda c: c.tile if c.wide else c.parts is None, Config, KNOBS)
    function.over(KNOBS.positions(codes), codes, reads)
    assert reads == {0, 1, 4}


def test_of_each_asks_once_for_each_distinct_choice():
    asked = []

    def function(first, second):
        asked.append((first, second))
        return first + second, first * second

    assert of_each(function, 2, 3) == (5, 6)
    asked.clear()
    sums, products = of_each(function, Lanes(np.array([1, 4, 1, 4])), 3)
    assert (sums.values.tolist(), products.values.tolist()) == ([4, 7, 4, 7], [3, 12, 3, 12])
    assert asked == [(1, 3), (4, 3)]
    truths = Lanes(np.array([True, False, True, True]))
    (sums, _) = of_each(function, Lanes(np.array([1, 4, 1, 4])), truths)
    assert sums.values.tolist() == [2, 4, 2, 5]


def test_numbers_beside_none_are_lanes_of_their_own():
    """A knob that may be absent splits a batch by that alone."""

    @dataclass(frozen=True)
    class Shared:
        blocks: int | None
        size: int

    runs = []

    def work(one):
        runs.append(one)
        return one.size if one.blocks is None else one.size * one.blocks

    knobs = Knobs({"blocks": (None, 1, 2, 3, 4), "size": (10, 20)})
    codes = np.arange(200) % knobs.size
    batched = Batched(work, Shared, knobs)
    found = np.empty(200)
    for part, value in batched.over(knobs.positions(codes), np.arange(200)):
        found[part] = value.values if type(value) is Lanes else value
    assert found.tolist() == [work(Shared(*knobs.at(int(code)))) for code in codes]
    assert batched.alone == 0 and len(runs) - 200 == 3
