"""A small LeNet on scikit-learn's digits whose products run through integers: table 7 of the paper.

One convolution, as a product of its patches, and two fully connected layers. It is trained in
float32 by torch on the CPU, and run in numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from residual.rows import Case
from residual.variants import ONE_SCALE, Variants, relative_error

BITS = (8, 4)
THRESHOLDS = (1.0, 0.1, 0.01, 0.0)
SIDE, FILTER, POOL = 8, 3, 2
CHANNELS, HIDDEN, CLASSES = 16, 64, 10
POOLED = (SIDE - FILTER + 1) // POOL
TEST_IMAGES = 797
_EPOCHS, _BATCH = 40, 50

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


class MissingPackages(Exception):
    """What the network needs is not installed; the message is one line."""


@dataclass(frozen=True)
class Digits:
    """Images, float32 [n, 8, 8] of values up to 1, and the digit that each shows, int64 [n]."""

    images: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class LeNet:
    """Weights, float32 [k, n], and biases, float32 [n], of the convolution and of both layers.

    Rows of the convolution's weight are the filter's pixels; those of the first layer are the
    pooled pixels, each of them with all its channels.
    """

    weights: tuple[np.ndarray, np.ndarray, np.ndarray]
    biases: tuple[np.ndarray, np.ndarray, np.ndarray]

    def factors(self, images: np.ndarray, product: Product) -> Iterator[np.ndarray]:
        """The left factors of the three products of a batch [n, 8, 8], then the logits [n, 10]."""
        conv, first, second = self.weights
        windows = np.lib.stride_tricks.sliding_window_view(images, (FILTER, FILTER), axis=(1, 2))
        patches = windows.reshape(-1, FILTER * FILTER)
        yield patches
        y = np.maximum(product(patches, conv) + self.biases[0], 0)
        y = y.reshape(len(images), POOLED, POOL, POOLED, POOL, CHANNELS).max(axis=(2, 4))
        y = y.reshape(len(images), -1)
        yield y
        y = np.maximum(product(y, first) + self.biases[1], 0)
        yield y
        yield product(y, second) + self.biases[2]

    def logits(self, images: np.ndarray, product: Product) -> np.ndarray:
        """float32 [n, 10], the last of `factors`."""
        *_, found = self.factors(images, product)
        return found


def load_digits() -> tuple[Digits, Digits]:
    """Images to train on and images to test with. Raises MissingPackages."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise MissingPackages(_missing(error)) from error
    found = load()
    order = np.random.default_rng(0).permutation(len(found.images))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    images = (found.images / found.images.max()).astype(np.float32)
    return tuple(Digits(images[part], found.target[part]) for part in (train, test))


def trained(digits: Digits, seed: int = 0) -> LeNet:
    """The network after some epochs of Adam. Raises MissingPackages."""
    try:
        import torch
    except ImportError as error:
        raise MissingPackages(_missing(error)) from error
    torch.manual_seed(seed)
    conv = torch.nn.Conv2d(1, CHANNELS, FILTER)
    first = torch.nn.Linear(CHANNELS * POOLED * POOLED, HIDDEN)
    second = torch.nn.Linear(HIDDEN, CLASSES)
    network = torch.nn.Sequential(
        conv, torch.nn.ReLU(), torch.nn.MaxPool2d(POOL), torch.nn.Flatten(),
        first, torch.nn.ReLU(), second,
    )  # fmt: skip
    images, labels = torch.from_numpy(digits.images[:, None]), torch.from_numpy(digits.labels)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(images)).split(_BATCH):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimiser.step()
    by_channel = first.weight.detach().reshape(HIDDEN, CHANNELS, -1)
    matrices = (
        conv.weight.detach().reshape(CHANNELS, -1),
        by_channel.transpose(1, 2).reshape(HIDDEN, -1),
        second.weight.detach(),
    )
    return LeNet(
        tuple(np.ascontiguousarray(matrix.numpy().T) for matrix in matrices),
        tuple(layer.bias.detach().numpy() for layer in (conv, first, second)),
    )


def _missing(error: ImportError) -> str:
    return f"table 7 needs scikit-learn and torch ({error}): pip install 'autoq[bench]'"


def forms(bits: int) -> dict[str, Product]:
    """The forms of the product by name; "float32" is the plain one."""
    found: dict[str, Product] = {
        "float32": np.matmul,
        "one_scale_direct": lambda a, b: Variants(a, b, bits, ONE_SCALE).direct,
        "direct": lambda a, b: Variants(a, b, bits).direct,
    }
    for threshold in THRESHOLDS:
        found[f"sparse_{threshold}"] = lambda a, b, t=threshold: Variants(a, b, bits).sparse(t)
    return found


def accuracy_row(network: LeNet, digits: Digits, bits: int) -> dict[str, Any]:
    """The shares of images that are recognised, and the logits' relative errors, by form."""
    logits = {form: network.logits(digits.images, product) for form, product in forms(bits).items()}
    return {
        "bits": bits,
        "images": len(digits.labels),
        "accuracy": {
            form: float(np.mean(found.argmax(axis=1) == digits.labels))
            for form, found in logits.items()
        },
        "logits_error": {
            form: relative_error(found, logits["float32"]) for form, found in logits.items()
        },
    }


def cases() -> list[Case]:
    """A row for each number of bits; the network is trained by the first that is measured."""

    @cache
    def prepared() -> tuple[LeNet, Digits]:
        train, test = load_digits()
        return trained(train), test

    return [
        Case("lenet", f"LeNet {bits} bits", lambda bits=bits: accuracy_row(*prepared(), bits))
        for bits in BITS
    ]
