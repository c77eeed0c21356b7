"""What is learnt: small convolutional networks and a small Transformer, on data generated here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn.functional import max_pool2d, scaled_dot_product_attention

CLASSES, EXTENT, CHANNELS, BLOCKS = 10, 8, 32, 3
WIDTH, HEADS, LAYERS = 64, 4, 2
PAIRS = 8
"""Pairs of a key and a value in a sequence, behind which two keys are asked for."""

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Task:
    """A network and what it learns.

    data: inputs and classes of so many samples of a seed. skipped: weights that stay dense, those
    of the first layer and of the last, as is usual. rate: of Adam. epochs: of the dense network.
    reads, heads, shared_rows: as in `schedule.Reads`, where they are known.
    """

    network: Callable[[], nn.Module]
    data: Callable[[int, int], Batch]
    skipped: tuple[str, ...]
    epochs: int
    rate: float = 1e-3
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    heads: tuple[tuple[tuple[str, ...], int], ...] = ()
    shared_rows: tuple[tuple[str, ...], ...] = ()


def images(count: int, seed: int) -> Batch:
    """Images of CLASSES prototypes, shifted, scaled and noisy: float32 [count, 1, 8, 8]."""
    prototypes = np.random.default_rng(0).standard_normal((CLASSES, EXTENT, EXTENT))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    shifts = rng.integers(-2, 3, (count, 2))
    made = np.stack(
        [np.roll(prototypes[k], shift, (0, 1)) for k, shift in zip(labels, shifts, strict=True)]
    )
    made = made * rng.uniform(0.5, 1.0, (count, 1, 1)) + 0.7 * rng.standard_normal(made.shape)
    return torch.from_numpy(made[:, None].astype(np.float32)), torch.from_numpy(labels)


def convolutions() -> nn.Module:
    """Three convolutions and two linear layers."""
    return nn.Sequential(
        nn.Conv2d(1, CHANNELS, 3, padding=1), nn.ReLU(),
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4 * CHANNELS, 64), nn.ReLU(), nn.Linear(64, CLASSES),
    )  # fmt: skip


class _Residual(nn.Module):
    """A convolution, blocks of two around which a sum goes on, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.side = nn.Conv2d(1, CHANNELS, 3, padding=1), nn.Conv2d(CHANNELS, WIDTH, 1)
        self.inner, self.outer = nn.ModuleList(), nn.ModuleList()
        for block in range(BLOCKS):
            before = WIDTH if block else CHANNELS
            self.inner.append(nn.Conv2d(before, CHANNELS, 3, padding=1))
            self.outer.append(nn.Conv2d(CHANNELS, WIDTH, 3, padding=1))
        self.classes = nn.Linear(4 * WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 [n, 1, EXTENT, EXTENT] to [n, CLASSES]."""
        x = max_pool2d(torch.relu(self.first(x)), 2)
        added = self.side(x)
        for inner, outer in zip(self.inner, self.outer, strict=True):
            x = torch.relu(added + outer(torch.relu(inner(x))))
            added = x
        return self.classes(max_pool2d(x, 2).flatten(1))


def _residual_reads() -> dict[str, tuple[str, ...]]:
    """Outer convolutions read inner ones, and these, but for the first, the whole sum."""
    summed = ("side.weight", *(f"outer.{block}.weight" for block in range(BLOCKS)))
    found: dict[str, tuple[str, ...]] = {}
    for block in range(BLOCKS):
        found[f"outer.{block}.weight"] = (f"inner.{block}.weight",)
        if block:
            found[f"inner.{block}.weight"] = summed
    return found


def sequences(count: int, seed: int) -> Batch:
    """Pairs of distinct keys with values, then two of the keys: int64 [count, PAIRS + 2].

    A pair is the token key * CLASSES + value, a key alone the token CLASSES ** 2 + key. The class
    is the larger one of the values of both keys.
    """
    rng = np.random.default_rng(seed)
    keys = rng.permuted(np.tile(np.arange(CLASSES), (count, 1)), axis=1)[:, :PAIRS]
    values = rng.integers(0, CLASSES, (count, PAIRS))
    asked = rng.permuted(np.tile(np.arange(PAIRS), (count, 1)), axis=1)[:, :2]
    last = CLASSES**2 + np.take_along_axis(keys, asked, axis=1)
    tokens = np.concatenate([keys * CLASSES + values, last], axis=1)
    larger = np.take_along_axis(values, asked, axis=1).max(axis=1)
    return torch.from_numpy(tokens), torch.from_numpy(larger)


class _Layer(nn.Module):
    """Attention and two linear layers, each behind a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (
            nn.Linear(WIDTH, WIDTH) for _ in range(4)
        )  # fmt: skip
        self.expand, self.contract = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, tokens, WIDTH] to as much."""
        y = self.before(x)
        heads = (
            part(y).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        x = x + self.output(scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        return x + self.contract(torch.relu(self.expand(self.between(x))))


class _Transformer(nn.Module):
    """Layers over embedded tokens, and a linear layer of the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES**2 + CLASSES, WIDTH)
        self.layers = nn.Sequential(*(_Layer() for _ in range(LAYERS)))
        self.classes = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 [n, tokens] to [n, CLASSES]."""
        return self.classes(self.layers(self.embedding(tokens))[:, -1])


def _weights(layer: int, *names: str) -> tuple[str, ...]:
    """Of a layer of the Transformer."""
    return tuple(f"layers.{layer}.{name}.weight" for name in names)


def _transformer_reads() -> dict[str, tuple[str, ...]]:
    """What attention and the perceptron hold inside a layer."""
    pairs = (("output", "value"), ("contract", "expand"))
    return {
        _weights(layer, reader)[0]: _weights(layer, read)
        for layer in range(LAYERS)
        for reader, read in pairs
    }


_PARTS = ("query", "key", "value")
_READERS = (_PARTS, ("output",), ("expand",), ("contract",))

TASKS = {
    "cnn": Task(convolutions, images, ("0.weight", "11.weight"), 15),
    "residual": Task(
        _Residual, images, ("first.weight", "classes.weight"), 15, reads=_residual_reads()
    ),
    "transformer": Task(
        _Transformer,
        sequences,
        ("classes.weight",),
        30,
        reads=_transformer_reads(),
        heads=tuple((_weights(layer, *_PARTS), WIDTH // HEADS) for layer in range(LAYERS)),
        shared_rows=tuple(_weights(layer, *names) for layer in range(LAYERS) for names in _READERS),
    ),
}
"""By name."""
