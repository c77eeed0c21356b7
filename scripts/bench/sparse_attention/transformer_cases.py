"""The encoders of Magicube's figure 17, as ONNX models and as artifacts."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from autoq import compile
from autoq.devices import Host
from autoq.models.sparse_transformer import sparse_transformer, vector_mask

LAYERS, DEPTH = 4, 64
PRECISIONS = ("attention8-8", "attention16-8", "attention8-4")
"""Bits of the softmax and of q, k and v, those of the figure."""


@dataclass(frozen=True)
class Shape:
    """So many tokens, heads of 64 values and sequences."""

    length: int
    heads: int
    batch: int

    def __str__(self) -> str:
        return f"length {self.length} heads {self.heads} batch {self.batch}"

    @property
    def width(self) -> int:
        """Values of a token."""
        return self.heads * DEPTH

    def feed(self) -> np.ndarray:
        """An input, float16 [batch, length, width]."""
        return _normal((self.batch, self.length, self.width))

    def weights(self) -> dict[str, np.ndarray]:
        """The weights of the model by name; they depend on the width alone."""
        small = sparse_transformer(np.ones((1, 1), bool), self.heads, LAYERS, 1)
        return {
            tensor.name: numpy_helper.to_array(tensor)
            for tensor in small.graph.initializer
            if tensor.name != "mask" and tensor.data_type == onnx.TensorProto.FLOAT16
        }


@dataclass(frozen=True)
class Case:
    """An encoder of a shape under a mask of a sparsity, in a precision."""

    shape: Shape
    sparsity: float
    precision: str

    def __str__(self) -> str:
        bits = self.precision.removeprefix("attention")
        return f"sparse transformer {self.shape} {self.sparsity} {bits}"

    @property
    def mask(self) -> np.ndarray:
        return mask_of(self.shape.length, self.sparsity)

    def artifact(self, folder: Path) -> Path:
        """Where the compiled model lies."""
        return folder / f"{str(self).replace(' ', '_')}.tar"


@functools.lru_cache(maxsize=1)
def _normal(shape: tuple[int, int, int]) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, np.float32).astype(np.float16)


@functools.lru_cache(maxsize=2)
def mask_of(length: int, sparsity: float) -> np.ndarray:
    """The mask of a length and a sparsity, which all heads, batches and precisions share."""
    return vector_mask(length, sparsity)


def grid(precisions: Sequence[str]) -> list[Case]:
    """The figure's grid, in every precision."""
    shapes = (Shape(*each) for each in itertools.product((4096, 8192), (4, 8), (2, 8)))
    return [Case(*each) for each in itertools.product(shapes, (0.9, 0.95), precisions)]


def compiled(case: Case, host: Host, records: Sequence[Path], folder: Path) -> Path:
    """Compile a case; the path of its artifact."""
    path = case.artifact(folder)
    model = path.with_suffix(".onnx")
    shape = case.shape
    onnx.save(sparse_transformer(case.mask, shape.heads, LAYERS, shape.batch), model)
    compile(
        model, target=host, output=path, precision=case.precision, tuning_records=records,
        cache_dir=folder / "kernels",
    )  # fmt: skip
    model.unlink()
    return path
