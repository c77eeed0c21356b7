from __future__ import annotations

import json
from dataclasses import dataclass, make_dataclass, replace
from enum import Enum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_spaces import SmallConfig, small_space

from autoq.errors import AutoqError
from autoq.search.space import Space

GOOD = SmallConfig(tile=32, stages=2, async_copy=True, layout="nhwc", cluster=(1, 2))


def differing(first, second) -> int:
    space = small_space()
    return sum(getattr(first, name) != getattr(second, name) for name in space.knobs)


def test_size_is_the_product_of_knob_values(space):
    assert space.size == 4 * 4 * 2 * 3 * 3


def test_enumerate_is_every_legal_configuration_once(space):
    listed = list(space.enumerate())
    assert len(listed) == len(set(listed)) == 168
    assert all(space.legal(config) for config in listed)


def test_rejection_names_the_rule(space):
    assert space.rejection(GOOD) is None
    assert space.rejection(replace(GOOD, tile=128, stages=3)) == (
        "tile_fits: tile times stages must stay within 256 elements"
    )
    assert "cluster_needs_async" in space.rejection(replace(GOOD, async_copy=False))
    assert space.rejection(replace(GOOD, tile=17)) == "tile=17 is not one of (16, 32, 64, 128)"


def test_a_restricted_space_is_the_part_with_those_values(space):
    part = space.restricted({"layout": ("nchw",), "stages": (2, 3)})
    assert set(part.enumerate()) == {
        config
        for config in space.enumerate()
        if config.layout == "nchw" and config.stages in (2, 3)
    }
    assert part.encode(list(part.enumerate())).shape[1] == len(part.feature_names)
    assert "elements" in part.feature_names


@pytest.mark.parametrize("values", [{"stages": (2, 5)}, {"warps": (1,)}, {"async_copy": (1,)}])
def test_restrictions_name_what_a_space_lacks(space, values):
    with pytest.raises(AutoqError, match=f"cannot restrict '{next(iter(values))}' to "):
        space.restricted(values)


def test_contains_takes_anything(space):
    assert GOOD in space
    assert replace(GOOD, tile=128, stages=4) not in space
    assert "text" not in space
    assert replace(GOOD, cluster=[{}]) not in space


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 200))
@settings(max_examples=40, deadline=None)
def test_samples_are_legal_and_distinct(seed, n):
    space = small_space()
    drawn = space.sample(np.random.default_rng(seed), n)
    assert len(drawn) == len(set(drawn)) == min(n, 168)
    assert all(config in space for config in drawn)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_mutants_are_legal_and_differ_in_one_knob(seed):
    space = small_space()
    rng = np.random.default_rng(seed)
    config = space.sample(rng, 1)[0]
    for _ in range(10):
        mutant = space.mutate(config, rng)
        assert mutant in space
        assert differing(config, mutant) == 1
        config = mutant


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_dictionaries_and_codes_round_trip(seed):
    space = small_space()
    config = space.sample(np.random.default_rng(seed), 1)[0]
    stored = json.loads(json.dumps(space.to_dict(config)))
    assert space.from_dict(stored) == config
    assert isinstance(space.from_dict(stored).cluster, tuple)
    assert space.config(space.code(config)) == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tile": 17}, "tile=17 is not one of"),
        ({"tile": True}, "tile=True is not one of"),
        ({"cluster": [1]}, "cluster=.* is not one of"),
        ({"colour": 1}, "unknown knob 'colour'"),
        ({"tile": 128, "stages": 4}, "tile_fits: tile times stages"),
    ],
)
def test_from_dict_says_what_is_wrong(space, change, message):
    with pytest.raises(AutoqError, match=message) as error:
        space.from_dict({**space.to_dict(GOOD), **change})
    assert "\n" not in str(error.value)


class Kind(Enum):
    WHOLE = "whole"
    SPLIT = "split"


@dataclass(frozen=True)
class Ring:
    stages: int
    kind: Kind = Kind.WHOLE


@dataclass(frozen=True)
class Resident:
    parts: int | None = None


@dataclass(frozen=True)
class StructuredConfig:
    weights: Ring | Resident
    kind: Kind
    blocks: int | None


def test_knobs_may_be_dataclasses_enums_and_none():
    weights = (Ring(1), Ring(2), Ring(2, Kind.SPLIT), Resident(), Resident(2))
    knobs = {"weights": weights, "kind": tuple(Kind), "blocks": (None, 1)}
    space = Space(StructuredConfig, knobs)
    configs = list(space.enumerate())
    assert len(set(configs)) == space.size == 20
    written = [json.loads(json.dumps(space.to_dict(config))) for config in configs]
    assert [space.from_dict(values) for values in written] == configs
    assert [space.config(space.code(config)) for config in configs] == configs
    assert written[4] == {
        "weights": {"stages": 2, "kind": "whole"}, "kind": "whole", "blocks": None,
    }  # fmt: skip
    assert written[12]["weights"] == {"parts": None}
    for wrong in (
        {"stages": True, "kind": "whole"},
        {"stages": 2},
        {"parts": 0},
        {},
        None,
        "whole",
    ):
        with pytest.raises(AutoqError, match=r"weights=.* is not one of"):
            space.from_dict(written[0] | {"weights": wrong})
    assert np.unique(space.encode(configs), axis=0).shape == (20, len(space.feature_names))


def test_knob_values_that_can_change_are_refused():
    loose = make_dataclass("Loose", [("stages", int)])
    for values in ((loose(1),), ([1],), (Ring,), (Ring([1]),)):
        with pytest.raises(AutoqError, match="knob 'weights'"):
            Space(make_dataclass("Config", [("weights", object)], frozen=True), {"weights": values})


def test_from_dict_names_a_missing_knob(space):
    with pytest.raises(AutoqError, match="missing knob 'async_copy'"):
        space.from_dict({"stages": 1})


def test_encode_has_numbers_logs_one_hots_and_derived_features(space):
    row = dict(zip(space.feature_names, space.encode([GOOD])[0].tolist(), strict=True))
    assert row == {
        "tile": 32,
        "log2(tile)": 5,
        "stages": 2,
        "log2(stages)": 1,
        "async_copy": 1,
        "layout=nhwc": 1,
        "layout=nchw": 0,
        "layout=nchw32c": 0,
        "cluster.0": 1,
        "log2(cluster.0)": 0,
        "cluster.1": 2,
        "log2(cluster.1)": 1,
        "elements": 64,
    }


def test_encode_tells_every_configuration_apart(space):
    encoded = space.encode(list(space.enumerate()))
    assert encoded.shape == (168, len(space.feature_names))
    assert len(np.unique(encoded, axis=0)) == 168
    assert space.encode([]).shape == (0, len(space.feature_names))


def test_derived_infinity_is_missing():
    config_type = make_dataclass("One", [("a", int)], frozen=True)
    space = Space(config_type, {"a": (0, 1)}, features=lambda c: {"odd": float("inf")})
    assert np.isnan(space.encode([config_type(0)])[0, -1])


def test_derived_features_must_agree():
    config_type = make_dataclass("One", [("a", int)], frozen=True)
    space = Space(config_type, {"a": (0, 1)}, features=lambda c: {f"f{c.a}": 1.0})
    with pytest.raises(AutoqError, match="derived features differ"):
        space.encode([config_type(0), config_type(1)])


@dataclass(frozen=True)
class Sparse:
    a: int
    b: int
    c: int


def nearly_equal(config: Sparse) -> bool:
    """a, b and c are equal"""
    return config.a == config.b == config.c


@pytest.fixture(scope="module")
def sparse() -> Space[Sparse]:
    """60 legal configurations of 216000, none of which has a legal neighbour."""
    return Space(Sparse, dict.fromkeys("abc", range(60)), constraints=(nearly_equal,))


def test_sampling_finds_the_few_legal_ones(sparse):
    assert len(set(sparse.sample(np.random.default_rng(0), 100))) == 60


def test_mutation_without_legal_neighbour_samples_another(sparse):
    mutant = sparse.mutate(Sparse(3, 3, 3), np.random.default_rng(0))
    assert mutant in sparse
    assert mutant != Sparse(3, 3, 3)


def test_a_space_without_legal_configurations_is_empty():
    def never(config: Sparse) -> bool:
        """nothing is legal"""
        return False

    space = Space(Sparse, dict.fromkeys("abc", (1, 2)), constraints=(never,))
    assert space.sample(np.random.default_rng(0), 5) == []
    assert list(space.enumerate()) == []


def test_a_single_configuration_mutates_to_itself():
    space = Space(Sparse, dict.fromkeys("abc", (1,)))
    assert space.mutate(Sparse(1, 1, 1), np.random.default_rng(0)) == Sparse(1, 1, 1)


def test_a_space_too_large_to_enumerate_still_samples():
    space = Space(Sparse, dict.fromkeys("abc", range(10_000)))
    assert len(set(space.sample(np.random.default_rng(0), 50))) == 50


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"a": (1,), "b": (1,)}, "fields and knobs differ in .'c'."),
        ({"a": (1,), "b": (1,), "c": ()}, "knob 'c' has no values"),
        ({"a": (1,), "b": (1,), "c": (1, 1)}, "knob 'c' repeats a value"),
        ({"a": (1,), "b": (1,), "c": (object(),)}, "knob 'c': .* is no JSON value"),
    ],
)
def test_unusable_knobs_are_refused(knobs, message):
    with pytest.raises(AutoqError, match=message):
        Space(Sparse, knobs)


def test_a_missing_knob_takes_its_default():
    """Records outlive knobs that are added behind them."""
    older = make_dataclass("Config", [("tile", int)], frozen=True)
    newer = make_dataclass("Config", [("tile", int), ("layout", str, "nhwc")], frozen=True)
    space = Space(newer, {"tile": (16, 32), "layout": ("nhwc", "blocked")})
    written = Space(older, {"tile": (16, 32)}).to_dict(older(32))
    assert space.from_dict(written) == newer(32, "nhwc")
    without = Space(newer, {"tile": (16, 32), "layout": ("blocked",)})
    with pytest.raises(AutoqError, match="layout='nhwc' is not one of"):
        without.from_dict(written)
