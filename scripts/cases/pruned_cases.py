"""Pruned weights that are measured: figures 6 and 7 of arXiv:2402.10876, 2:4 and convolutions.

A case is a workload with the weight that it has: a random one, pruned as `autoq prune` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.pruning.matrices import prune_matrices
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.conversion import to_vectors
from autoq.templates.sparse.sparsity import (
    ELEMENTS,
    TILE_WISE,
    TILES_AND_ELEMENTS,
    TWO_FOUR,
    TWO_FOUR_TILES,
    VECTORS,
    Sparsity,
)
from autoq.templates.sparse.structure import Structure
from autoq.templates.workload import Arrays, Workload

TWO_OF_FOUR = Pattern.make("vw", 4)
TILES = Pattern.make("tw", 128)
_CLASSES = {
    "ew": ELEMENTS, "tw": TILE_WISE, "bw": TILE_WISE, "tew": TILES_AND_ELEMENTS, "vw": TWO_FOUR,
    "tvw": TWO_FOUR_TILES,
}  # fmt: skip
_LEAST_TILE = 64
"""Extent of a block that is a tile; smaller ones are vectors of so many outputs."""
_TOLERANCE = 0.02
"""How far a sparsity may be missed: a matrix of 64 x 64 is one tile, of few rows and columns."""


@dataclass(frozen=True)
class PrunedCase:
    """A dense product or convolution whose weight is pruned to `sparsity` in a pattern."""

    dense: Gemm | FloatGemm | Conv2d
    sparsity: float
    pattern: Pattern

    @property
    def name(self) -> str:
        """What tells it from other cases."""
        return f"{self.dense.in_dtype} {self.dense} {self.pruning}"

    @property
    def pruning(self) -> str:
        """The pattern and the share of zeros: "tw-128 0.75"."""
        return f"{'2:4' if self.two_four else self.pattern} {self.sparsity}"

    @property
    def two_four(self) -> bool:
        """Whether cuSPARSELt has a product of the pattern."""
        return self.pattern == TWO_OF_FOUR

    def arrays(self) -> tuple[Any, dict[str, Any]]:
        """Activations and constants of a fixed seed, the weight pruned."""
        rng = np.random.default_rng(0)
        values, constants = self.dense.random_case(rng)
        shape = constants["weight"].shape
        weight = constants["weight"].reshape(shape[0], -1)
        if weight.dtype.kind == "i":
            weight[weight == 0] = 1  # what is zero is what is pruned
        scores = np.abs(rng.standard_normal(weight.T.shape))
        (made,) = prune_matrices(
            [scores], self.pattern, self.sparsity, [Bounds()], tolerance=_TOLERANCE
        )
        pruned = np.where(made.mask.T, weight, np.zeros((), weight.dtype))
        constants["weight"] = pruned.reshape(shape)
        return values, constants

    def workload(self, constants: dict[str, Any]) -> Workload:
        """The product that knows the class of its weight: of float32 there are single values."""
        of = _CLASSES[self.pattern.kind]
        if self.dense.in_dtype == "float32":
            of = ELEMENTS
        elif self.pattern.kind == "bw" and self.pattern.granularity < _LEAST_TILE:
            of = VECTORS
        elif of == TWO_FOUR_TILES and self.pattern.vector != TWO_OF_FOUR.vector:
            of = TILE_WISE
        granularity = 1 if of in (ELEMENTS, TWO_FOUR) else self.pattern.granularity
        weight = constants["weight"].reshape(len(constants["weight"]), -1)
        knowing = self.dense.with_sparsity(Sparsity.of(of, weight, granularity))
        assert knowing is not None
        return knowing

    def reference(self, activations: Any, constants: dict[str, Any], threads: int) -> Arrays:
        """The outputs, on so many threads."""
        return self.dense.reference_in_threads(activations, constants, threads)


@dataclass(frozen=True)
class TurnedCase(PrunedCase):
    """A case whose x is [k, m], and its y [columns that are left, m]: "k-major".

    That is a sparse product of vectors of a tile's outputs, whose activations need not be turned
    where kernels before it write them so. Columns that have no weight are constants and no rows.
    """

    @property
    def pruning(self) -> str:
        return f"k-major {super().pruning}"

    def arrays(self) -> tuple[Any, dict[str, Any]]:
        (x,), constants = super().arrays()
        left = constants["weight"].any(axis=1)
        matrix = to_vectors(constants["weight"][left], self.pattern.granularity)
        turned: dict[str, Any] = {
            "values": matrix.values, "columns": matrix.indices, "pointers": matrix.pointers,
            "scalars": constants.get("scalars", pack_scalars()),
        }  # fmt: skip
        if "bias" in constants:
            turned |= {name: constants[name][left] for name in ("bias", "scale")}
            turned["b_zero_point"] = int(constants.get("x_zero_point", 0))
        else:  # a product of floats, which Spmm adds to a bias and scales
            rows = int(left.sum())
            turned |= {"bias": np.zeros(rows, np.float32), "scale": np.ones(rows, np.float32)}
        return [np.ascontiguousarray(x.T)], turned

    def workload(self, constants: dict[str, Any]) -> Workload:
        structure = Structure.of(np.diff(constants["pointers"]))
        rows, work = len(constants["bias"]), self.dense
        return Spmm(
            rows, work.m, work.k, self.pattern.granularity, structure, work.in_dtype,
            work.weight_dtype, Epilogue(work.outputs[0].dtype),
        )  # fmt: skip

    def reference(self, activations: Any, constants: dict[str, Any], threads: int) -> Arrays:
        x, constants = super().arrays()
        (y,) = self.dense.reference_in_threads(x, constants, threads)
        return (np.ascontiguousarray(y[:, constants["weight"].any(axis=1)].T),)


def convolutions() -> list[PrunedCase]:
    """ResNet-50's 3x3 convolutions of 128 images, in tiles of 64 filters."""
    found = []
    for size, channels in ((56, 64), (28, 128), (14, 256), (7, 512)):
        conv = Conv2d(
            128, size, size, channels, channels, 3, 3, padding=(1, 1, 1, 1), in_dtype="uint8",
            epilogue=Epilogue("uint8"),
        )  # fmt: skip
        found += _at(conv, Pattern.make("tw", 64), (0.5, 0.75, 0.9))
    return found


def _at(
    dense: Gemm | FloatGemm | Conv2d, pattern: Pattern, sparsities: Iterable[float]
) -> list[PrunedCase]:
    return [PrunedCase(dense, sparsity, pattern) for sparsity in sparsities]


def cases() -> list[PrunedCase]:
    """4096 cubed of bytes, 16-bit floats and float32 in every pattern; larger 2:4 weights."""
    size = 4096
    single = Gemm(size, size, size, "float32", "float32", Epilogue("float32"))
    tensor_cores = (Gemm(size, size, size), FloatGemm(size, size, size, weight_dtype="float16"))
    found = []
    for dense in tensor_cores:
        found += _at(dense, TILES, (0.0, 0.12, 0.25, 0.5, 0.75, 0.9, 0.95))
        found += _at(dense, TWO_OF_FOUR, (0.5,))
        found += _at(dense, Pattern.make("tvw", 128), (0.5, 0.75, 0.9))
        found += _at(dense, Pattern.make("bw", 64), (0.5, 0.75, 0.9))
        for delta in (0.01, 0.05, 0.1):
            pattern = Pattern.make("tew", 128, delta=delta)
            found += _at(dense, pattern, (s for s in (0.5, 0.75, 0.9) if s + delta < 1))
        found += _at(dense, Pattern.make("ew"), (0.9, 0.95, 0.98, 0.99))
    found += _at(single, Pattern.make("ew"), (0.5, 0.75, 0.9, 0.95))
    found += _at(single, TILES, (0.5, 0.75, 0.9, 0.95))
    found += [
        TurnedCase(dense, sparsity, TILES)
        for dense in tensor_cores
        for sparsity in (0.25, 0.5, 0.75, 0.9)
    ]
    for dense in (Gemm(8192, 8192, 8192), Gemm(3456, 4096, 2048)):
        found += _at(dense, TWO_OF_FOUR, (0.5,))
    return found
