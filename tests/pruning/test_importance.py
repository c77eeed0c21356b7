"""Scores of weights, each against its formula."""

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.pruning.importance import by_activations, magnitude, taylor

WEIGHTS = np.array([[1.0, -2.0], [3.0, -4.0], [0.0, 6.0]], np.float32)


def test_scores():
    assert magnitude(WEIGHTS).tolist() == [[1, 2], [3, 4], [0, 6]]
    assert taylor(WEIGHTS, np.full((3, 2), 2.0)).tolist() == [[4, 16], [36, 64], [0, 144]]
    # Gradients that cancel over samples matter all the same.
    samples = np.stack([np.full((3, 2), 2.0), np.full((3, 2), -2.0)])
    assert np.array_equal(taylor(WEIGHTS, samples), taylor(WEIGHTS, samples[0]))
    assert by_activations(WEIGHTS, np.array([1.0, 2, 3])).tolist() == [[1, 2], [6, 8], [0, 18]]


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (lambda: taylor(WEIGHTS, np.ones((2, 3))), r"\[2, 3\].*\[3, 2\]"),
        (lambda: taylor(WEIGHTS, np.ones((0, 3, 2))), "no sample"),
        (lambda: taylor(WEIGHTS, np.full((3, 2), np.nan)), "gradients hold NaN"),
        (lambda: by_activations(WEIGHTS, np.ones(2)), "take 3"),
        (lambda: magnitude(np.full((2, 2), np.inf)), "weights hold NaN"),
    ],
)
def test_refused(score, words):
    with pytest.raises(InputError, match=words):
        score()
