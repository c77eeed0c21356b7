"""Sampled products over masks of pruned layers' shapes: Magicube's figure 15."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.sparse.generation import (
    RESNET50_SHAPES,
    SPARSITIES,
    TRANSFORMER_SHAPES,
    dilated,
    random_matrix,
)
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.workload import Arrays

OUTPUTS = {"int16": "float16", "int8": "int32", "int4": "int32", "float16": "float16"}
"""Types of factors, and of what comes of them."""


@dataclass(frozen=True)
class SampledCase:
    """A sampled product by its name, whose mask is a random matrix of scalars of a shape, [rows,
    columns], of which each became a vector. seed: of the mask.
    """

    name: str
    workload: Sddmm
    sparsity: float
    scalars: tuple[int, int]
    seed: int

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Random activations and constants."""
        activations, constants = self.workload.random_case(np.random.default_rng(self.seed))
        mask = _mask(self.scalars, self.sparsity, self.workload.vector, self.seed)
        return activations, constants | {"columns": mask.indices, "pointers": mask.pointers}


def _mask(shape: tuple[int, int], sparsity: float, vector: int, seed: int) -> VectorMatrix:
    rng = np.random.default_rng(seed)
    return dilated(random_matrix(rng, shape, sparsity), vector, rng)


def sampled_collection(
    k: int = 256, vector: int = 8, dtypes: Sequence[str] = tuple(OUTPUTS)
) -> list[SampledCase]:
    """96 masks, 16 of each sparsity, with uneven rows, in each type."""
    shapes = list(dict.fromkeys((*TRANSFORMER_SHAPES, *RESNET50_SHAPES[::-1])))[:16]
    cases = []
    for seed, (shape, sparsity) in enumerate(itertools.product(shapes, SPARSITIES)):
        mask = _mask(shape, sparsity, vector, seed)
        structure = Structure.of(mask.lengths)
        for dtype in dtypes:
            out = OUTPUTS[dtype]
            workload = Sddmm(mask.rows, mask.columns, k, vector, structure, dtype, dtype, out)
            name = f"{shape[0]}x{shape[1]} dilated by {vector}, k {k}, {sparsity}, {dtype}"
            cases.append(SampledCase(name, workload, sparsity, shape, seed))
    return cases
