from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from autoq.errors import AutoqError
from autoq.search.knobs import Knobs

KNOBS = Knobs({"a": (1, 2, 3), "b": (False, True), "c": ("x", None, (1, 2), -1.5)})


def test_codes_count_the_product_with_the_last_knob_fastest():
    assert KNOBS.size == 24
    assert KNOBS.at(0) == (1, False, "x")
    assert KNOBS.at(1) == (1, False, None)
    assert KNOBS.at(23) == (3, True, -1.5)


def test_codes_indices_and_values_agree():
    codes = np.arange(KNOBS.size)
    assert (KNOBS.codes(KNOBS.indices(codes)) == codes).all()
    assert list(KNOBS.rows(codes)) == [KNOBS.at(code) for code in codes.tolist()]
    assert list(KNOBS.rows(codes[:0])) == []


def test_values_are_told_apart_by_kind():
    assert KNOBS.index(0, 1) == 0
    assert KNOBS.index(0, True) is None
    assert KNOBS.index(1, 1) is None
    assert KNOBS.index(2, [1, 2]) == 2
    assert KNOBS.index(2, {}) is None


def test_numbers_with_a_zero_have_no_logarithm():
    assert Knobs({"pad": (0, 16)}).columns == ("pad",)
    assert Knobs({"pad": (8, 16)}).columns == ("pad", "log2(pad)")


@dataclass(frozen=True)
class Ring:
    stages: int


@dataclass(frozen=True)
class Resident:
    parts: int | None


def test_fields_of_a_value_are_columns_by_themselves():
    knobs = Knobs({"weights": (Ring(2), Ring(4), Resident(None), Resident(8))})
    found = dict(zip(knobs.columns, knobs.encode(np.arange(4)).T, strict=True))
    np.testing.assert_array_equal(found["weights:Ring"], [1, 1, 0, 0])
    np.testing.assert_array_equal(found["weights.stages"], [2, 4, np.nan, np.nan])
    np.testing.assert_array_equal(found["log2(weights.stages)"], [1, 2, np.nan, np.nan])
    np.testing.assert_array_equal(found["weights.parts"], [np.nan, np.nan, np.nan, 8])
    assert len(found) == 6


def test_too_large_a_space_is_refused():
    with pytest.raises(AutoqError, match="at most"):
        Knobs({f"k{i}": range(100) for i in range(12)})
