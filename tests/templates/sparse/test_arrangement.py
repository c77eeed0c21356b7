"""Orders of k in which tiles are 2:4."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.templates.sparse.arrangement import NO_K, arrange
from autoq.templates.sparse.stage_arrangement import arrange_stages, stages_needed


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
    found = arrange(kept, unit)
    assert found.k.shape[1] == 4 and len(found.k) % unit == 0 and len(found.k) >= unit
    assert found.used.sum(axis=-1).max() <= 2
    for own, used in zip(kept, found.used, strict=True):
        np.testing.assert_array_equal(np.sort(found.k[used]), np.flatnonzero(own))
    there = np.unique(found.k[found.k != NO_K])
    np.testing.assert_array_equal(there, np.flatnonzero(kept.any(axis=0)))
    assert len(found.k) <= max(1, -(-k // (2 * unit))) * unit


def test_half_of_k_takes_few_more_places_than_there_are_k() -> None:
    assert arrange(random_sets(16, 2048, 0.5), 32).k.size <= 2048 * 1.13
    assert arrange(random_sets(11, 2048, 0.3), 32).k.size == 2048
    assert arrange(random_sets(12, 2048, 0.7), 32).k.size <= 2048 * 1.5


def test_tiles_of_few_k_leave_stages_out() -> None:
    """Every k has its place, and pairs of tiles multiply less than two thirds of all stages."""
    kept = random_sets(8, 2048, 0.22)
    units = np.arange(8) // 2 == np.arange(4)[:, None]
    found = arrange_stages(kept, units, 32, 1024)
    assert found.used.sum(axis=-1).max() <= 2
    for own, used in zip(kept, found.used, strict=True):
        np.testing.assert_array_equal(np.sort(found.k[used]), np.flatnonzero(own))
    needed = stages_needed(units, found, 32)
    assert needed.sum() < 0.67 * 4 * (2048 // 128)
    assert not stages_needed(units, arrange(kept, 32), 32).sum() < needed.sum()


def test_the_same_weight_has_the_same_order() -> None:
    kept = random_sets(6, 640, 0.5)
    np.testing.assert_array_equal(arrange(kept, 32).k, arrange(kept.copy(), 32).k)
