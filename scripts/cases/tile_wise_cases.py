"""Products with tile-wise sparse weights that are measured: figure 6 of arXiv:2402.10876.

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

SPARSITIES = (0.0, 0.12, 0.25, 0.5, 0.75, 0.9, 0.95)


@dataclass(frozen=True)
class TileWiseCase:
    """A dense product whose weight is pruned to `sparsity` in tiles of `granularity` columns."""

    dense: Gemm | FloatGemm
    sparsity: float
    granularity: int

    @property
    def name(self) -> str:
        """What tells it from other cases."""
        work = self.dense
        return f"{work.in_dtype} {work} tw-{self.granularity} {self.sparsity}"

    def arrays(self) -> tuple[Any, dict[str, Any]]:
        """Activations and constants of a fixed seed, the weight pruned."""
        rng = np.random.default_rng(0)
        values, constants = self.dense.random_case(rng)
        weight = constants["weight"]
        if weight.dtype.kind == "i":
            weight[weight == 0] = 1  # what is zero is what is pruned
        scores = np.abs(rng.standard_normal(weight.T.shape))
        (made,) = tile_wise([scores], self.sparsity, [Bounds()], self.granularity)
        constants["weight"] = np.where(made.mask.T, weight, np.zeros((), weight.dtype))
        return values, constants

    def workload(self, constants: dict[str, Any]) -> Gemm | FloatGemm:
        """The product that knows the class of its weight."""
        sparsity = Sparsity.of_tiles(constants["weight"], self.granularity)
        return replace(self.dense, sparsity=sparsity)


def cases() -> list[TileWiseCase]:
    """4096 cubed of bytes and of 16-bit floats at every sparsity."""
    size = 4096
    found = []
    for dense in (Gemm(size, size, size), FloatGemm(size, size, size, weight_dtype="float16")):
        found += [TileWiseCase(dense, sparsity, 128) for sparsity in SPARSITIES]
    return found
