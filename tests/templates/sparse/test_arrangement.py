"""Orders of k in which tiles are 2:4."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.templates.sparse.arrangement import NO_K, arrange


def random_sets(tiles: int, k: int, share: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kept = np.zeros((tiles, k), bool)
    for own in kept:
        own[rng.permutation(k)[: round(k * share)]] = True
    return kept


@pytest.mark.parametrize("unit", [1, 16, 32])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.7, 1.0])
@pytest.mark.parametrize(("tiles", "k"), [(1, 16), (3, 100), (9, 520), (40, 256)])
def test_no_tile_keeps_three_of_four(tiles: int, k: int, share: float, unit: int) -> None:
    kept = random_sets(tiles, k, share)
    groups = arrange(kept, unit)
    assert groups.shape[1] == 4 and len(groups) % unit == 0 and len(groups) >= unit
    there = groups[groups != NO_K]
    np.testing.assert_array_equal(np.sort(there), np.flatnonzero(kept.any(axis=0)))
    of_groups = kept[:, groups] & (groups != NO_K)
    assert of_groups.sum(axis=-1).max() <= 2
    assert len(groups) <= max(1, -(-k // (2 * unit))) * unit


def test_half_of_k_takes_few_more_places_than_there_are_k() -> None:
    assert arrange(random_sets(16, 2048, 0.5), 32).size <= 2048 * 1.13
    assert arrange(random_sets(11, 2048, 0.3), 32).size == 2048


def test_the_same_weight_has_the_same_order() -> None:
    kept = random_sets(6, 640, 0.5)
    np.testing.assert_array_equal(arrange(kept, 32), arrange(kept.copy(), 32))
