from __future__ import annotations

import numpy as np
import pytest
from tiled_space import recorded, tile_space

from autoq.search.replay import optimum, replay
from autoq.search.strategies.thompson import Thompson


@pytest.fixture(scope="module")
def measured():
    return recorded()


def shares(measured, **settings) -> np.ndarray:
    """Final speeds of 3 seeds as shares of the optimum's."""
    runs = [replay(Thompson(tile_space(), seed, **settings), measured, 128) for seed in range(3)]
    return np.array([optimum(measured) / run[-1] for run in runs])


def test_finds_fast_configurations_when_it_scores_everything(measured):
    assert np.median(shares(measured)) > 0.9


def test_climbs_from_a_sample_of_a_larger_space(measured):
    assert np.median(shares(measured, pool=256, models=4)) > 0.85
