"""How the keys of a step are dealt to reads of eight rows."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.templates.cuda.sparse_attention.eights import by_eights


def passes(residue: np.ndarray) -> int:
    """How often shared memory is read: each eight as often as its most common residue occurs."""
    return sum(np.bincount(eight).max() for eight in residue.reshape(-1, 8))


@pytest.mark.parametrize(
    ("counts", "least"),
    [
        ((4,) * 8, 4),
        ((5, 5, 5, 5, 3, 3, 3, 3), 5),
        # Two residues of two keys make two perfect eights, and no third.
        ((5, 5, 5, 5, 4, 4, 2, 2), 6),
        ((7, 7, 7, 7, 1, 1, 1, 1), 7),
        ((32, 0, 0, 0, 0, 0, 0, 0), 32),
    ],
)
def test_eights_take_the_fewest_passes(counts: tuple[int, ...], least: int) -> None:
    residue = np.random.default_rng(3).permutation(np.repeat(np.arange(8), counts))
    order = by_eights(residue)
    assert sorted(order) == list(range(32))
    assert passes(residue[order]) == least


def test_no_order_of_random_keys_is_worse_than_by_turns() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        residue = rng.integers(0, 8, 32)
        # The first of each residue, then the second of each, and so on.
        rank = [np.count_nonzero(residue[:i] == each) for i, each in enumerate(residue)]
        by_turns = residue[sorted(range(32), key=lambda i, r=rank: (r[i], residue[i]))]
        found = passes(residue[by_eights(residue)])
        assert max(4, np.bincount(residue).max()) <= found <= passes(by_turns)
