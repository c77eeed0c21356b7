"""Small multilayer perceptrons: smooth where trees have steps, sums where trees have cuts.

The time of a kernel is nearly a product of powers of its sizes, and where one template's tiles end
another shape's begin: two layers over logarithms say so with few numbers, and carry it over to
shapes that no trial was of. They learn by Adam (Kingma and Ba, ICLR 2015) with decoupled weight
decay (Loshchilov and Hutter, ICLR 2019) and a rate that falls as a cosine, in numpy alone.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.knowledge.inputs import Inputs

_WIDTHS = 64, 32
_BATCH, _PASSES, _LEAST_STEPS = 512, 40, 400
_RATE, _DECAY, _WARM = 3e-3, 1e-2, 200
_MEAN, _SQUARE, _TINY = 0.9, 0.999, 1e-8
# Of the last layer's first weights: what is not learnt stays small.
_LAST = 0.1


@dataclass(frozen=True)
class Perceptron:
    """Layers of weights [inputs, outputs] and offsets [outputs] in turn, float32."""

    layers: tuple[np.ndarray, ...]

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Log of the time up to a constant: float64 [n] of inputs [n, inputs]."""
        hidden = inputs
        for weights, offsets in _pairs(self.layers)[:-1]:
            hidden = _activated(hidden @ weights + offsets)[0]
        weights, offsets = _pairs(self.layers)[-1]
        return (hidden @ weights + offsets)[:, 0].astype(np.float64)

    def rounded(self) -> Perceptron:
        """As a file has it."""
        return Perceptron(tuple(one.astype(np.float16).astype(np.float32) for one in self.layers))


def _pairs(layers: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(layers[::2], layers[1::2], strict=True))


def _activated(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """SiLU of what a layer sums up, and its derivative."""
    gate = 1 / (1 + np.exp(-found))
    return found * gate, gate * (1 + found * (1 - gate))


@dataclass(frozen=True)
class Examples:
    """What a perceptron learns from.

    inputs: float32 [n, inputs]; targets and weights: float32 [n]; places: of the workload of each,
    int64 [n], whose constant is no matter of the perceptron.
    """

    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    places: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)


def trained_perceptron(examples: Examples, seed: int) -> Perceptron:
    """A perceptron of examples; the same ones and seed give the same.

    Each workload has a constant of its own beside it, which is learnt with it and forgotten.
    """
    rng = np.random.default_rng(seed)
    sizes = [examples.inputs.shape[1], *_WIDTHS, 1]
    learnt: list[np.ndarray] = []
    for rows, columns in itertools.pairwise(sizes):
        scale = (_LAST if columns == 1 else 1.0) / np.sqrt(rows)
        learnt.append((scale * rng.standard_normal((rows, columns))).astype(np.float32))
        learnt.append(np.zeros(columns, np.float32))
    totals = np.bincount(examples.places, examples.weights)
    sums = np.bincount(examples.places, examples.weights * examples.targets)
    learnt.append((sums / np.maximum(totals, _TINY)).astype(np.float32))
    adam = _Adam(learnt)
    # Rows are taken into one array: memory that is new for each step takes as long as its products.
    taken = np.empty((_BATCH, sizes[0]), np.float32)
    count = -(-len(examples) // _BATCH)
    passes = max(_PASSES, -(-_LEAST_STEPS // count))
    for done in range(passes):
        order = rng.permutation(len(examples))
        for i in range(count):
            rows = order[i * _BATCH : (i + 1) * _BATCH]
            part = (done * count + i) / (passes * count)
            inputs = taken[: len(rows)]
            np.take(examples.inputs, rows, axis=0, out=inputs, mode="clip")
            adam.step(_gradients(learnt, examples, rows, inputs), part)
    found = Perceptron(tuple(learnt[:-1]))
    # Its own constant is none of the workloads': what it says of all trials has the mean zero.
    learnt[-2] -= np.float32(np.average(found.predict(examples.inputs), weights=examples.weights))
    return found.rounded()


def _gradients(
    learnt: Sequence[np.ndarray], examples: Examples, rows: np.ndarray, inputs: np.ndarray
) -> list[np.ndarray]:
    """Of the mean weighted square of errors over some rows, halved: by what is learnt.

    inputs: float32 [rows, inputs], those of the rows.
    """
    layers, constants = _pairs(learnt[:-1]), learnt[-1]
    hidden, slopes = [inputs], []
    for weights, offsets in layers[:-1]:
        found, slope = _activated(hidden[-1] @ weights + offsets)
        hidden.append(found)
        slopes.append(slope)
    weights, offsets = layers[-1]
    places = examples.places[rows]
    errors = (hidden[-1] @ weights + offsets)[:, 0] + constants[places] - examples.targets[rows]
    errors *= examples.weights[rows] / len(rows)
    gradients = [np.bincount(places, errors, len(constants)).astype(np.float32)]
    back = errors[:, None]
    for level in range(len(layers) - 1, -1, -1):
        gradients = [hidden[level].T @ back, back.sum(axis=0), *gradients]
        if level:
            back = (back @ layers[level][0].T) * slopes[level - 1]
    return gradients


class _Adam:
    """Changes arrays in place; those of two dimensions decay."""

    def __init__(self, learnt: Sequence[np.ndarray]) -> None:
        self._learnt, self._steps = learnt, 0
        self._means = [np.zeros_like(one) for one in learnt]
        self._squares = [np.zeros_like(one) for one in learnt]

    def step(self, gradients: Sequence[np.ndarray], part: float) -> None:
        """One step; part: of the whole training that is done, in [0, 1)."""
        self._steps += 1
        rate = _RATE * min(1, self._steps / _WARM) * (1 + np.cos(np.pi * part)) / 2
        first, second = 1 - _MEAN**self._steps, 1 - _SQUARE**self._steps
        for one, gradient, mean, square in zip(
            self._learnt, gradients, self._means, self._squares, strict=True
        ):
            mean += (1 - _MEAN) * (gradient - mean)
            square += (1 - _SQUARE) * (gradient**2 - square)
            step = (mean / first) / (np.sqrt(square / second) + _TINY)
            if one.ndim == 2:
                step += _DECAY * one
            one -= rate * step


@dataclass(frozen=True)
class Perceptrons:
    """Some perceptrons over the same inputs."""

    inputs: Inputs
    members: tuple[Perceptron, ...]

    def predict(self, features: np.ndarray) -> np.ndarray:
        """What each says of features [n, columns]: float64 [members, n]."""
        inputs = self.inputs.of(features)
        return np.array([one.predict(inputs) for one in self.members])

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: bytes of numbers, float16 for weights, in base64."""
        return {
            "inputs": {name: _text(value) for name, value in vars(self.inputs).items()},
            "members": [[_text(layer.astype(np.float16)) for layer in one.layers]
                        for one in self.members],
        }  # fmt: skip


def perceptrons_of(values: Mapping[str, Any], columns: int) -> Perceptrons:
    """What `Perceptrons.to_dict` gave, of features of so many columns.

    Raises ValueError, KeyError or TypeError for anything else.
    """
    kinds = {"at": np.int64, "logs": bool, "flags": bool, "middle": np.float32,
             "spread": np.float32}  # fmt: skip
    inputs = Inputs(**{name: _array(values["inputs"][name], kind) for name, kind in kinds.items()})
    width = len(inputs.at)
    if any(len(one) != width for one in vars(inputs).values()):
        raise ValueError("inputs of different numbers")
    if width and not 0 <= inputs.at.min() <= inputs.at.max() < columns:
        raise ValueError("inputs of columns that are not there")
    sizes = [width, *_WIDTHS, 1]
    members = []
    for texts in values["members"]:
        arrays = [_array(text, np.float16).astype(np.float32) for text in texts]
        layers = []
        for (weights, offsets), rows, size in zip(_pairs(arrays), sizes, sizes[1:], strict=False):
            layers += [weights.reshape(rows, size), offsets.reshape(size)]
        if len(layers) != len(arrays) or len(layers) != 2 * len(sizes) - 2:
            raise ValueError("a perceptron of another number of layers")
        members.append(Perceptron(tuple(layers)))
    return Perceptrons(inputs, tuple(members))


def _text(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _array(text: str, kind: Any) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), kind).copy()
