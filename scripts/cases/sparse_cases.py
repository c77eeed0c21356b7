"""Sparse products as they are measured beside other libraries."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.generation import (
    RESNET50_SHAPES,
    SPARSITIES,
    TRANSFORMER_SHAPES,
    VARIATION,
    dilated,
    random_matrix,
    uneven_lengths,
)
from autoq.templates.sparse.sparsity import VECTORS, Sparsity
from autoq.templates.sparse.structure import Structure, bucket
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.workload import Arrays, Workload


def product(m: int, k: int, n: int, sparsity: float, vector: int = 8) -> Spmm:
    """A product whose vector rows have about as many vectors as each other."""
    mean = round((1 - sparsity) * k)
    longest = min(k, round(1.2 * mean) + 8)
    blocks = -(-m // vector) * mean
    structure = Structure(bucket(blocks), bucket(mean), bucket(longest))
    return Spmm(m, n, k, vector, structure)


CASES: list[Workload] = [
    *(product(4096, 4096, 4096, sparsity) for sparsity in (0.7, 0.9, 0.98)),
    *(product(*shape, 0.9) for shape in ((2048, 1024, 256), (512, 4608, 256), (2048, 2048, 512))),
    product(4096, 4096, 4096, 0.9, 2),
    replace(product(4096, 4096, 4096, 0.9), weight_dtype="int16"),
    *(product(4096, 4096, 4096, sparsity, 128) for sparsity in (0.5, 0.75, 0.9)),
]
"""Products of equal rows, among them those of the issue's table."""


@dataclass(frozen=True)
class SparseCase:
    """A product by its name, and where its matrix comes from.

    scalars: the matrix is a random one of this shape, [rows, columns], of which each scalar became
    a vector; None for a matrix that comes up to the bounds of the workload's class. variation: of
    the lengths of its rows, the standard deviation by the mean. seed: of it.
    """

    name: str
    workload: Spmm
    sparsity: float
    scalars: tuple[int, int] | None = None
    seed: int = 0
    variation: float = VARIATION
    value_bits: int | None = None

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Random activations and constants."""
        rng = np.random.default_rng(self.seed)
        activations, constants = self.workload.random_case(rng)
        if self.scalars is not None:
            own = self.workload
            matrix = _dilated(
                self.scalars, self.sparsity, own.vector, self.seed, self.variation, own.weight_dtype
            )
            constants |= {
                "values": matrix.values, "columns": matrix.indices, "pointers": matrix.pointers,
            }  # fmt: skip
        if self.value_bits is not None:
            values = constants["values"]
            constants["values"] = values >> (8 * values.itemsize - self.value_bits)
        return activations, constants


def _lengths(shape: tuple[int, int], sparsity: float, seed: int, variation: float) -> np.ndarray:
    """Of the rows of `_dilated`'s matrix, which draws them first."""
    rows, columns = shape
    rng = np.random.default_rng(seed)
    return uneven_lengths(rng, rows, columns, (1 - sparsity) * columns, variation)


@functools.lru_cache(maxsize=8)
def _dilated(
    shape: tuple[int, int], sparsity: float, vector: int, seed: int, variation: float,
    dtype: str = "int8",
) -> VectorMatrix:  # fmt: skip
    rng = np.random.default_rng(seed)
    scalars = random_matrix(rng, shape, sparsity, variation=variation)
    return dilated(scalars, vector, rng, dtype)


@dataclass(frozen=True)
class Pair:
    """Types of values and of the dense side, by the paper's name; value_bits as of a case."""

    name: str
    values: str
    dense: str
    value_bits: int | None = None


PAIRS = (
    Pair("L16-R16", "int16", "int16"), Pair("L16-R8", "int16", "int8"),
    Pair("L16-R4", "int16", "int4"), Pair("L12-R4", "int16", "int4", 12),
    Pair("L8-R8", "int8", "int8"), Pair("L8-R4", "int8", "int4"), Pair("L4-R4", "int4", "int4"),
    Pair("f16", "float16", "float16"),
)  # fmt: skip
"""Those of the paper's table IV, and floats."""


def of_pair(workload: Spmm, pair: Pair) -> Spmm:
    """A product of bytes in other types, with outputs of bytes or of floats."""
    epilogue = Epilogue("float16") if pair.dense == "float16" else workload.epilogue
    return replace(workload, weight_dtype=pair.values, in_dtype=pair.dense, epilogue=epilogue)


def equal_rows(
    m: int, k: int, n: int, sparsity: float, vector: int = 8, pair: Pair | None = None
) -> SparseCase:
    """A product whose vector rows have the same number of vectors, at random columns."""
    shape = (m // vector, k)
    structure = Structure.of(_lengths(shape, sparsity, 0, 0.0))
    workload = Spmm(m, n, k, vector, structure)
    name, bits = f"{m}x{k}x{n} v{vector} {sparsity}", None
    if pair is not None:
        workload = of_pair(workload, pair)
        name, bits = f"{name} {pair.name}", pair.value_bits
    return SparseCase(name, workload, sparsity, shape, variation=0.0, value_bits=bits)


def table_cases() -> list[SparseCase]:
    """Large products by sparsity and length of vectors, and small ones."""
    large, small = (4096, 4096, 4096), ((2048, 1024, 256), (512, 4608, 256), (2048, 2048, 512))
    return [
        *(equal_rows(*large, sparsity) for sparsity in (0.7, 0.9, 0.98)),
        equal_rows(*large, 0.9, 8, PAIRS[1]),
        *(equal_rows(*shape, 0.9) for shape in small),
        equal_rows(*large, 0.9, 2),
        *(equal_rows(*large, sparsity, 128) for sparsity in (0.5, 0.75, 0.9)),
        *(equal_rows(*large, 0.75, vector) for vector in (16, 32, 64)),
        *(equal_rows(*large, sparsity, 8, PAIRS[-1]) for sparsity in (0.9, 0.98)),
        *(
            equal_rows(*large, sparsity, 128, pair)
            for pair, sparsity in itertools.product(
                (PAIRS[-1], PAIRS[5], PAIRS[1]), (0.5, 0.75, 0.9)
            )
        ),
    ]


LAYER = " as a layer"
"""Behind the name of the product whose matrix is the weight of a layer."""


@dataclass(frozen=True)
class LayerCase:
    """A layer of a model whose weight is the matrix of a sparse case: dense kernels compute it too.

    Activations and outputs lie the other way round than in the sparse product.
    """

    of: SparseCase

    @property
    def name(self) -> str:
        return f"{self.of.name}{LAYER}"

    @property
    def sparsity(self) -> float:
        return self.of.sparsity

    @property
    def workload(self) -> Gemm:
        own = self.of.workload
        zeros = Sparsity(VECTORS, own.vector, bucket(own.m), own.structure)
        return Gemm(own.n, own.m, own.k, own.in_dtype, own.weight_dtype, sparsity=zeros)

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Random activations and constants, the weight dense."""
        _, sparse = self.of.arrays()
        own = self.of.workload
        arrays = (sparse["pointers"], sparse["columns"], sparse["values"])
        activations, constants = self.workload.random_case(np.random.default_rng(self.of.seed))
        weight = VectorMatrix(own.m, own.k, own.vector, *arrays).to_dense()
        return activations, constants | {"weight": weight}


def model_layer_cases() -> list[LayerCase]:
    """Products of bytes of the table as layers, for what `compile` chooses."""
    plain = [case for case in table_cases() if case.workload.weight_dtype == "int8"]
    return [LayerCase(case) for case in plain if case.workload.in_dtype == "int8"]


def pair_cases() -> list[SparseCase]:
    """Every pair of types, by shape and by length of vectors."""
    large, middle = (4096, 4096, 4096), (2048, 2048, 512)
    shapes = (
        (middle, 8), ((2048, 1024, 256), 8), ((512, 4608, 256), 8), (middle, 4), (middle, 2),
        (large, 8), (large, 2),
    )  # fmt: skip
    return [
        equal_rows(*shape, 0.9, vector, pair)
        for (shape, vector), pair in itertools.product(shapes, PAIRS)
    ]


def layer_cases() -> list[SparseCase]:
    """The layer of the paper's figures 11 and 12, in every pair of types."""
    cases = []
    for sparsity, vector, pair in itertools.product((0.7, 0.9, 0.98), (2, 8), PAIRS):
        plain = product(256, 2304, 512, sparsity, vector)
        workload = of_pair(plain, pair)
        name = f"256x2304x512 v{vector} {sparsity} {pair.name}"
        cases.append(SparseCase(name, workload, sparsity, value_bits=pair.value_bits))
    return cases


COLLECTION_COLUMNS = (128, 256, 512)
"""Of the dense side."""


def collection_cases(vector: int = 8) -> list[SparseCase]:
    """96 matrices of pruned layers' shapes, 16 of each sparsity, with uneven rows."""
    shapes = list(dict.fromkeys((*TRANSFORMER_SHAPES, *RESNET50_SHAPES[::-1])))[:16]
    cases = []
    for seed, (shape, sparsity) in enumerate(itertools.product(shapes, SPARSITIES)):
        structure = Structure.of(_lengths(shape, sparsity, seed, VARIATION))
        for n in COLLECTION_COLUMNS:
            workload = Spmm(shape[0] * vector, n, shape[1], vector, structure)
            name = f"{shape[0]}x{shape[1]} dilated by {vector}, n {n}, {sparsity}"
            cases.append(SparseCase(name, workload, sparsity, shape, seed))
    return cases


ONE_SCALE = " one scale"
"""Behind the name of the product that has scales of its rows."""


def one_scale_cases() -> list[SparseCase]:
    """Products of bytes of the table with one scale and no bias, which is what other libraries do.

    Of the collection those with 256 columns too.
    """
    plain = [case for case in table_cases() if case.workload.weight_dtype == "int8"]
    plain = [case for case in plain if case.workload.in_dtype == "int8"]
    plain += [case for case in collection_cases() if case.workload.n == 256]
    epilogue = Epilogue(uniform=True)
    return [
        replace(
            case,
            name=f"{case.name}{ONE_SCALE}",
            workload=replace(case.workload, epilogue=epilogue),
        )
        for case in plain
    ]


SETS = {
    "table": table_cases, "one_scale": one_scale_cases, "layer": layer_cases, "pairs": pair_cases,
    "collection": collection_cases, "model_layers": model_layer_cases,
}  # fmt: skip
"""Cases by the name of what they are measured for."""
