"""Random sparse matrices like those of pruned networks: their shapes, and rows of uneven lengths.

Stands in for the Deep Learning Matrix Collection (Gale et al., SC 2020), whose files are scalar
matrices of pruned ResNet-50 and Transformer layers; `dilated` makes vectors of their scalars.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.oracle.random_arrays import random_array
from autoq.templates.sparse.vector_matrix import VectorMatrix

RESNET50_SHAPES = (
    (64, 64), (64, 256), (64, 576), (128, 256), (128, 512), (128, 1152), (256, 64), (256, 512),
    (256, 1024), (256, 2304), (512, 128), (512, 256), (512, 1024), (512, 2048), (512, 4608),
    (1024, 256), (1024, 512), (2048, 512), (2048, 1024),
)  # fmt: skip
"""Rows and columns of ResNet-50's convolutions as matrices."""

TRANSFORMER_SHAPES = ((512, 512), (2048, 512), (512, 2048))
"""Rows and columns of the products of a Transformer's layers."""

SPARSITIES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Shares of zeros of the collection's matrices that are measured."""

VARIATION = 0.4
"""Standard deviation of a row's length, as a share of the mean length."""


def uneven_lengths(
    rng: np.random.Generator, rows: int, columns: int, mean: float, variation: float = VARIATION
) -> np.ndarray:
    """Entries of each row [rows], around a mean and at most `columns`, gamma distributed."""
    if not mean or not variation:
        return np.full(rows, min(round(mean), columns), np.int64)
    shape = variation**-2
    drawn = rng.gamma(shape, mean / shape, rows)
    drawn *= mean / drawn.mean()
    return np.clip(np.rint(drawn), 0, columns).astype(np.int64)


def random_matrix(
    rng: np.random.Generator,
    shape: tuple[int, int],
    sparsity: float,
    vector: int = 1,
    dtype: str = "int8",
    variation: float = VARIATION,
) -> VectorMatrix:
    """A matrix [rows, columns] in vectors, of which a share `sparsity` is missing."""
    rows, columns = shape
    vector_rows = -(-rows // vector)
    lengths = uneven_lengths(rng, vector_rows, columns, (1 - sparsity) * columns, variation)
    return matrix_of_lengths(rng, shape, vector, lengths, dtype)


def matrix_of_lengths(
    rng: np.random.Generator,
    shape: tuple[int, int],
    vector: int,
    lengths: np.ndarray,
    dtype: str = "int8",
) -> VectorMatrix:
    """A matrix with so many vectors in each vector row, at random columns, with random values."""
    rows, columns = shape
    chosen = [np.sort(rng.permutation(columns)[:length]) for length in lengths]
    indices = np.concatenate([*chosen, np.zeros(0, np.int64)]).astype(np.int32)
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = random_array(rng, (len(indices), vector), dtype)
    if rows % vector:
        values[pointers[-2] :, rows % vector :] = 0
    return VectorMatrix(rows, columns, vector, pointers, indices, values)


def dilated(
    matrix: VectorMatrix, vector: int, rng: np.random.Generator, dtype: str = "int8"
) -> VectorMatrix:
    """Each scalar of a matrix in vectors of one row as a vector: `vector` times as many rows."""
    values = random_array(rng, (len(matrix.indices), vector), dtype)
    shape = (matrix.rows * vector, matrix.columns)
    return VectorMatrix(*shape, vector, matrix.pointers, matrix.indices, values)
