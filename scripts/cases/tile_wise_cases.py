"""Products with pruned weights that are measured: figure 6 of arXiv:2402.10876, and 2:4.

A case is a workload with the weight that it has: a random one, pruned as `autoq prune` does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.pruning.patterns.tile_wise import tile_wise
from autoq.pruning.ranking import Bounds
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.two_four import random_two_four

SPARSITIES = (0.0, 0.12, 0.25, 0.5, 0.75, 0.9, 0.95)


@dataclass(frozen=True)
class TileWiseCase:
    """A dense product whose weight is pruned to `sparsity` in tiles of `granularity` columns.

    granularity: 0 for 2:4 weights instead of tiles.
    """

    dense: Gemm | FloatGemm
    sparsity: float
    granularity: int

    @property
    def name(self) -> str:
        """What tells it from other cases."""
        work = self.dense
        pattern = f"tw-{self.granularity}" if self.granularity else "2:4"
        return f"{work.in_dtype} {work} {pattern} {self.sparsity}"

    def arrays(self) -> tuple[Any, dict[str, Any]]:
        """Activations and constants of a fixed seed, the weight pruned."""
        rng = np.random.default_rng(0)
        values, constants = self.dense.random_case(rng)
        weight = constants["weight"]
        if weight.dtype.kind == "i":
            weight[weight == 0] = 1  # what is zero is what is pruned
        if not self.granularity:
            constants["weight"] = random_two_four(rng, weight)
            return values, constants
        scores = np.abs(rng.standard_normal(weight.T.shape))
        (made,) = tile_wise([scores], self.sparsity, [Bounds()], self.granularity)
        constants["weight"] = np.where(made.mask.T, weight, np.zeros((), weight.dtype))
        return values, constants

    def workload(self, constants: dict[str, Any]) -> Gemm | FloatGemm:
        """The product that knows the class of its weight."""
        if not self.granularity:
            return replace(self.dense, sparsity=Sparsity.two_four())
        sparsity = Sparsity.of_tiles(constants["weight"], self.granularity)
        return replace(self.dense, sparsity=sparsity)


def cases() -> list[TileWiseCase]:
    """4096 cubed of bytes and of 16-bit floats at every sparsity, and 2:4 weights."""
    size = 4096
    found = []
    for dense in (Gemm(size, size, size), FloatGemm(size, size, size, weight_dtype="float16")):
        found += [TileWiseCase(dense, sparsity, 128) for sparsity in SPARSITIES]
        found.append(TileWiseCase(dense, 0.5, 0))
    larger = (Gemm(8192, 8192, 8192), Gemm(3456, 4096, 2048))
    return found + [TileWiseCase(dense, 0.5, 0) for dense in larger]
