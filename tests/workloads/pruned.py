"""Products with weights that `autoq prune` makes, in every pattern, as compile knows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.graph.ir import Graph, Layer
from autoq.graph.lowering.know_zeros import know_zeros
from autoq.pruning.matrices import prune_matrices
from autoq.pruning.pattern import Pattern
from autoq.pruning.patterns.block_wise import block_wise
from autoq.pruning.patterns.tile_wise import tile_wise
from autoq.pruning.ranking import Bounds
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import TEMPLATES
from autoq.templates.sparse.pruned_matrix import Pruned
from autoq.templates.target import Target

PATTERNS = (
    Pattern.make("tw", 16), Pattern.make("tw", 64), Pattern.make("trw", 32, run=8),
    Pattern.make("bw", 16), Pattern.make("bw", 32), Pattern.make("tew", 32, delta=0.02),
    Pattern.make("tvw", 32), Pattern.make("vw", 4), Pattern.make("ew"),
)  # fmt: skip


def pruned_case(
    rng: np.random.Generator, dense: Gemm | FloatGemm, pattern: Pattern, sparsity: float
) -> tuple[Any, dict[str, Any]]:
    """Random activations and constants, the weight pruned by random scores."""
    values, constants = dense.random_case(rng)
    weight = constants["weight"]
    weight[weight == 0] = 1  # what is zero is what is pruned
    scores = np.abs(rng.standard_normal(weight.T.shape))
    made: Pruned
    together = [scores], sparsity, [Bounds()], pattern.granularity
    # Blocks and runs of a small matrix come to no sparsity exactly.
    if pattern.kind == "bw":
        (made,) = block_wise(*together)
    elif pattern.kind == "trw":
        (made,) = tile_wise(*together, pattern.run)
    else:
        (made,) = prune_matrices([scores], pattern, sparsity, [Bounds()])
    constants["weight"] = np.where(made.mask.T, weight, np.zeros((), weight.dtype))
    return values, constants


def knowing(dense: Gemm | FloatGemm, constants: dict[str, Any], target: Target) -> Any:
    """The workload that a layer with these constants becomes."""
    graph = Graph(
        "product", {}, [Layer(dense, constants, ("x",), "y", ("product",))], ("x",), ("y",)
    )
    know_zeros(graph, target, TEMPLATES)
    (known,) = graph.nodes
    assert isinstance(known, Layer)
    return known.workload
