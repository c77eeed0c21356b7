"""Perceptrons of what records teach: their inputs, what they learn, and how a file has them."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.knowledge.inputs import inputs_of
from autoq.knowledge.perceptron import Examples, Perceptrons, perceptrons_of, trained_perceptron

NAMES = (
    "tile",
    "stages",
    "log2(stages)",
    "workload.h",
    "workload.log2(rows)",
    "template=a",
    "same",
)


def features(rng: np.random.Generator, n: int) -> np.ndarray:
    """Tiles of 8 to 512, two to five stages, two templates, and what says nothing."""
    tile = 2.0 ** rng.integers(3, 10, n)
    stages = rng.integers(2, 6, n).astype(float)
    first = np.where(rng.random(n) < 0.5, 1, np.nan)
    columns = [tile, stages, np.log2(stages), rng.integers(1, 99, n), rng.uniform(3, 9, n), first]
    return np.stack([*columns, np.full(n, 7.0)], axis=1).astype(np.float32)


def test_inputs_are_of_one_scale_and_nothing_is_missing():
    found = features(np.random.default_rng(0), 500)
    found[:100, 0] = np.nan
    inputs = inputs_of(NAMES, found)
    # What stands as its logarithm too, the sizes of an operator and what never differs are none.
    assert [NAMES[i] for i in inputs.at] == [
        "tile", "log2(stages)", "workload.log2(rows)", "template=a"
    ]  # fmt: skip
    assert inputs.logs.tolist() == [True, False, False, False]
    assert inputs.flags.tolist() == [False, False, False, True]
    values = inputs.of(found)
    assert np.isfinite(values).all() and values.dtype == np.float32
    np.testing.assert_allclose(values[100:, 0].std(), 1, rtol=0.02)
    assert (values[:100, 0] == 0).all()
    # Between two powers of two stands as much as between any other two.
    steps = np.diff(np.unique(values[100:, 0]))
    np.testing.assert_allclose(steps, steps[0], rtol=1e-4)
    assert len(np.unique(values[:, 3])) == 2
    found[0, 0] = 1e30
    assert inputs.of(found)[0, 0] == 4


def examples(n: int, places: int) -> tuple[np.ndarray, np.ndarray, Examples]:
    """Times that are products of powers, each workload's times a constant of its own."""
    rng = np.random.default_rng(1)
    found = features(rng, n)
    times = 0.3 * np.log2(found[:, 0]) * (found[:, 5] == 1) - 0.5 * found[:, 2]
    place = rng.integers(0, places, n)
    constants = rng.normal(0, 3, places)
    inputs = inputs_of(NAMES, found)
    learnt = Examples(
        inputs.of(found), (times + constants[place]).astype(np.float32),
        np.ones(n, np.float32), place,
    )  # fmt: skip
    return found, times, learnt


def test_a_perceptron_learns_what_differs_within_workloads():
    _, times, learnt = examples(2000, 40)
    perceptron = trained_perceptron(learnt, seed=3)
    said = perceptron.predict(learnt.inputs)
    errors = said - said.mean() - (times - times.mean())
    assert errors.std() < 0.05 * times.std()
    assert abs(said.mean()) < 0.01
    again = trained_perceptron(learnt, seed=3)
    np.testing.assert_array_equal(again.predict(learnt.inputs), said)
    assert (trained_perceptron(learnt, seed=4).predict(learnt.inputs) != said).any()


def test_perceptrons_are_the_same_from_their_file():
    found, _, learnt = examples(200, 4)
    inputs = inputs_of(NAMES, found)
    perceptrons = Perceptrons(inputs, tuple(trained_perceptron(learnt, seed) for seed in range(2)))
    read = perceptrons_of(perceptrons.to_dict(), len(NAMES))
    np.testing.assert_array_equal(read.predict(found), perceptrons.predict(found))
    assert read.predict(found).shape == (2, 200)


@pytest.mark.parametrize(
    "damage",
    [
        lambda one: one["members"][0].pop(),
        lambda one: one["members"][0].__setitem__(0, "AAAA"),
        lambda one: one["inputs"].pop("middle"),
        lambda one: one["inputs"].__setitem__("at", "////////fw=="),
        lambda one: one["inputs"].__setitem__("logs", ""),
        lambda one: one["members"].__setitem__(0, 3),
    ],
)
def test_damaged_perceptrons_are_refused(damage):
    found, _, learnt = examples(60, 2)
    perceptrons = Perceptrons(inputs_of(NAMES, found), (trained_perceptron(learnt, 0),))
    written = perceptrons.to_dict()
    damage(written)
    with pytest.raises((ValueError, LookupError, TypeError)):
        perceptrons_of(written, len(NAMES))


def test_inputs_of_columns_that_are_not_there_are_refused():
    found, _, learnt = examples(60, 2)
    perceptrons = Perceptrons(inputs_of(NAMES, found), (trained_perceptron(learnt, 0),))
    with pytest.raises(ValueError, match="columns that are not there"):
        perceptrons_of(perceptrons.to_dict(), 3)
