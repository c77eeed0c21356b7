from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from small_spaces import OtherConfig, small_space

from autoq.errors import AutoqError
from autoq.search.union import Candidate, UnionSpace


def test_enumerates_both_members(union):
    listed = list(union.enumerate())
    assert Counter(c.template for c in listed) == {"direct": 168, "split": 6}
    assert union.size == 288 + 9


def test_samples_both_templates_and_all_in_the_end(union):
    rng = np.random.default_rng(0)
    counts = Counter(c.template for c in union.sample(rng, 8))
    assert set(counts) == {"direct", "split"}
    assert set(union.sample(rng, 1000)) == set(union.enumerate())


def test_mutants_are_legal_and_sometimes_switch_template(union):
    rng = np.random.default_rng(0)
    start = union.sample(rng, 1)[0]
    mutants = [union.mutate(start, rng) for _ in range(300)]
    assert all(mutant in union and mutant != start for mutant in mutants)
    switched = sum(mutant.template != start.template for mutant in mutants)
    assert 3 <= switched <= 60


def test_mutants_that_are_to_stay_keep_their_template(union):
    rng = np.random.default_rng(0)
    starts = np.repeat(union.sample_codes(rng, 6), 60)
    assert (union.members_of(starts) != union.members_of(union.mutate_codes(starts, rng))).any()
    staying = union.mutate_codes(starts, rng, stay=True)
    assert (union.members_of(starts) == union.members_of(staying)).all()
    assert all(union.config(code) in union for code in staying.tolist())


def test_features_of_the_other_template_are_missing(union):
    one = Candidate("split", OtherConfig(tile=24, split=8))
    row = dict(zip(union.feature_names, union.encode([one])[0].tolist(), strict=True))
    assert (row["template=direct"], row["template=split"]) == (0, 1)
    assert (row["tile"], row["split"]) == (24, 8)
    assert np.isnan(row["stages"]) and np.isnan(row["elements"])


def test_knob_rows_mark_absent_knobs(union):
    codes = np.array([union.code(Candidate("split", OtherConfig(24, 8)))])
    assert union.knob_rows(codes).tolist() == [[1, -1, -1, -1, -1, -1, 0, 2]]


def test_one_member_behaves_like_the_member():
    space, union = small_space(), UnionSpace({"direct": small_space()})
    assert union.size == space.size
    assert union.feature_names == space.feature_names
    configs = space.sample(np.random.default_rng(0), 20)
    candidates = [Candidate("direct", config) for config in configs]
    assert (union.encode(candidates) == space.encode(configs)).all()
    assert [c.config for c in union.enumerate()] == list(space.enumerate())


def test_dictionaries_and_codes_round_trip(union):
    for candidate in union.enumerate():
        assert union.from_dict(json.loads(json.dumps(union.to_dict(candidate)))) == candidate
        assert union.config(union.code(candidate)) == candidate


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"template": "direct"}, "'template' and 'config'"),
        ({"template": "winograd", "config": {}}, "template 'winograd' is not one of"),
        ({"template": "split", "config": {"tile": 24, "split": 5}}, "split_divides"),
    ],
)
def test_from_dict_says_what_is_wrong(union, values, message):
    with pytest.raises(AutoqError, match=message):
        union.from_dict(values)


def test_rejections_name_the_template(union):
    assert union.rejection(Candidate("split", OtherConfig(24, 8))) is None
    assert union.rejection(Candidate("split", OtherConfig(24, 5))).startswith("split: split_div")
    assert "is not one of" in union.rejection(Candidate("other", None))
    assert Candidate("other", None) not in union
    assert OtherConfig(24, 8) not in union


def test_an_empty_union_is_refused():
    with pytest.raises(AutoqError, match="at least one space"):
        UnionSpace({})


def test_a_member_is_sampled_by_itself(union):
    rng = np.random.default_rng(0)
    assert union.member_count == 2
    codes = union.sample_member(1, rng, 4)
    assert len(set(codes.tolist())) == 4
    assert union.members_of(codes).tolist() == [1] * 4
    assert {union.config(code).template for code in codes.tolist()} == {"split"}
