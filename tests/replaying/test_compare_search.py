"""Two recorded spaces replayed in full: strategies beside each other, seeded and asserted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from autoq.errors import AutoqError
from autoq.measure.job import REGISTRY, load_registry
from autoq.replaying.comparison import compare_search
from autoq.replaying.loading import load, shipped_spaces
from autoq.replaying.plot import draw
from autoq.replaying.report import joined, table, to_json

SPACES = ("7x7x512-512-nhwcnc", "14x14x256-256-nhwcnc")
SEEDS = 4


@pytest.fixture(scope="module")
def paths():
    """The spaces of two convolutions over bytes in the layout NHWCnc, some 700 each."""
    return [next(p for p in shipped_spaces() if name in p.name) for name in SPACES]


@pytest.fixture(scope="module")
def found(paths):
    from without_processes import without_processes

    with without_processes():
        return compare_search(paths, ["informed", "random", "annealing"], SEEDS, 64, jobs=1)


def test_ours_needs_fewer_trials_than_the_others(found):
    for one in found:
        ours, random, annealing = one.rows
        assert ours.median[1] <= annealing.median[1] and ours.median[1] < random.median[1]
        assert ours.median[1] <= 24
        assert np.median(ours.curves[:, -1]) > 0.97


def test_the_same_seeds_give_the_same_curves(found, paths, in_this_process):
    again = compare_search(paths[:1], ["informed"], 2, 64, jobs=2)
    np.testing.assert_array_equal(again[0].rows[0].curves, found[0].rows[0].curves[:2])


def test_a_comparison_is_json_a_table_and_a_picture(found, tmp_path):
    data = json.loads(
        json.dumps(to_json(found, {"seeds": SEEDS, "trials": 64, "batch": 0}), allow_nan=False)
    )
    assert len(data["spaces"]) == 2 and len(data["overall"]) == 3
    row = data["spaces"][0]["strategies"][1]
    assert row["strategy"] == "random" and len(row["quartiles"]) == 3
    assert row["trials_to"]["90%"]["median"] <= 64
    lines = table(data).splitlines()
    assert len(lines) == 2 + 2 * 3 + 3
    draw(data, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_comparisons_of_several_spaces_are_joined(found):
    options = {"seeds": SEEDS, "trials": 64, "batch": 0}
    both = to_json(found, options)
    parts = [to_json([one], options) for one in found]
    assert joined(parts)["overall"] == both["overall"]
    with pytest.raises(AutoqError, match="cannot be joined"):
        joined([parts[0], {**parts[1], "trials": 32}])


def test_shipped_spaces_are_small_and_can_be_searched():
    templates = load_registry(REGISTRY)
    assert all(path.stat().st_size < 1 << 20 for path in shipped_spaces())
    for path in shipped_spaces()[::10]:
        found = load(path, templates)
        assert len(found.measured) >= 5 and not found.left_out


def test_mistakes_are_told(paths):
    with pytest.raises(AutoqError, match="'fast' is unknown"):
        compare_search(paths, ["fast"])
    with pytest.raises(AutoqError, match="at least 1"):
        compare_search(paths, ["random"], seeds=0)
    with pytest.raises(AutoqError, match="no recorded space"):
        compare_search([], ["random"])
