"""Buckets of figures, and classes of sparse matrices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.sparse.structure import Structure, bucket


@given(st.integers(0, 10**9))
def test_a_bucket_is_the_next_of_its_ends(count: int) -> None:
    end = bucket(count)
    assert count <= end <= count * 1.25 and bucket(end) == end
    assert end < 8 or bin(end).rstrip("0") in ("0b1", "0b101", "0b11", "0b111")
    assert all(bucket(one) == end for one in range(count, min(end, count + 20) + 1))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40))
def test_a_class_bounds_its_matrices(lengths: list[int]) -> None:
    rows = np.array(lengths)
    found = Structure.of(rows)
    assert found.blocks >= rows.sum() and found.longest_row >= rows.max()
    assert found.mean_row * len(rows) >= rows.sum()
    assert Structure.of(rows[::-1]) == found


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 600), st.integers(0, 9))
def test_random_rows_are_within_the_bounds(rows: int, columns: int, blocks: int, seed: int) -> None:
    structure = Structure(blocks, bucket(-(-blocks // rows)), bucket(min(columns, blocks)))
    lengths = structure.random_lengths(np.random.default_rng(seed), rows, columns)
    assert lengths.shape == (rows,) and lengths.min() >= 0
    assert lengths.sum() <= structure.blocks
    assert lengths.max() == min(structure.longest_row, columns, blocks)


def test_an_extent_may_be_bounded() -> None:
    exact, bounded = (TensorSpec("v", (8, 2), "int8", at_most=b) for b in (False, True))
    shapes = [(8, 2), (5, 2), (0, 2), (9, 2), (8, 1), (8,)]
    assert [exact.fits(shape) for shape in shapes] == [True] + [False] * 5
    assert [bounded.fits(shape) for shape in shapes] == [True] * 3 + [False] * 3
