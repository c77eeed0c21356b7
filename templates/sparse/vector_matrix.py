"""Sparse matrices of column vectors, the BCRS format: what every other format converts to.

A vector row is `vector` rows of the matrix. It holds vectors of one column each, and a vector holds
a value of each of the rows. As in Magicube (Li, Osawa, Hoefler, SC 2022), whose BCRS is a BSR
format with blocks of [vector, 1]; vectors of one row make it CSR.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.errors import InputError


@dataclass(frozen=True, eq=False)
class VectorMatrix:
    """A matrix [rows, columns] in vectors of `vector` rows.

    pointers: int32 [vector rows + 1], where the vectors of each vector row start, and their end.
    indices: int32 [vectors], the column of each; they rise within a vector row.
    values: [vectors, vector]; what lies below the last row of the matrix is 0.

    Raises InputError of one line for arrays that are none of this.
    """

    rows: int
    columns: int
    vector: int
    pointers: np.ndarray
    indices: np.ndarray
    values: np.ndarray

    def __post_init__(self) -> None:
        if self.vector < 1 or self.rows < 0 or self.columns < 0:
            raise InputError(
                f"a sparse matrix of {self.rows} x {self.columns} in vectors of {self.vector}: "
                "vectors have a row or more, and extents are no less than 0"
            )
        check_rows(self.pointers, self.indices, self.vector_rows, self.columns)
        count = len(self.indices)
        if self.values.shape != (count, self.vector):
            raise InputError(
                f"values are {list(self.values.shape)}; {count} indices of vectors of "
                f"{self.vector} rows take {[count, self.vector]}"
            )
        if self.values.dtype.kind == "f" and not np.isfinite(self.values).all():
            raise InputError("a sparse matrix holds NaN or infinite values")
        inside = self.rows - (self.vector_rows - 1) * self.vector if self.rows else 0
        last = self.values[self.pointers[-2] :] if self.rows else self.values
        if last[:, inside:].any():
            raise InputError(f"values below row {self.rows}, the last of the matrix, are not 0")

    @property
    def vector_rows(self) -> int:
        """Rows of vectors."""
        return -(-self.rows // self.vector)

    @property
    def lengths(self) -> np.ndarray:
        """Vectors of each vector row, [vector rows]."""
        return np.diff(self.pointers)

    @property
    def vector_row_of(self) -> np.ndarray:
        """The vector row of each vector, [vectors]."""
        return np.repeat(np.arange(self.vector_rows), self.lengths)

    def to_dense(self) -> np.ndarray:
        """The matrix [rows, columns]."""
        whole = np.zeros((self.vector_rows, self.vector, self.columns), self.values.dtype)
        whole[self.vector_row_of, :, self.indices] = self.values
        return whole.reshape(-1, self.columns)[: self.rows]

    def row_sums(self) -> np.ndarray:
        """The sum of each row's values, int64 [rows]."""
        totals = np.zeros((self.vector_rows, self.vector), np.int64)
        full = np.flatnonzero(self.lengths)
        if full.size:
            starts = self.pointers[:-1][full]
            totals[full] = np.add.reduceat(self.values, starts, axis=0, dtype=np.int64)
        return totals.reshape(-1)[: self.rows]

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, columns and values of the scalars, zeros inside vectors included."""
        rows = self.vector_row_of[:, None] * self.vector + np.arange(self.vector)
        columns = np.broadcast_to(self.indices[:, None], rows.shape)
        inside = rows < self.rows
        return rows[inside], columns[inside], self.values[inside]


def check_rows(pointers: np.ndarray, indices: np.ndarray, rows: int, columns: int) -> None:
    """Raise InputError unless pointers [rows + 1] part indices, which rise below `columns`."""
    if pointers.shape != (rows + 1,) or indices.ndim != 1:
        raise InputError(
            f"pointers are {list(pointers.shape)} and indices {list(indices.shape)}; {rows} rows "
            f"take pointers [{rows + 1}] and indices of one axis"
        )
    if pointers.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise InputError(
            f"pointers are {pointers.dtype} and indices {indices.dtype}; both are integers"
        )
    if pointers[0] != 0 or pointers[-1] != len(indices) or (np.diff(pointers) < 0).any():
        raise InputError(
            f"pointers run from {pointers[0]} to {pointers[-1]}; expected to rise from 0 to "
            f"{len(indices)}, the number of indices"
        )
    outside = np.flatnonzero((indices < 0) | (indices >= columns))
    if len(outside):
        raise InputError(
            f"index {outside[0]} is column {indices[outside[0]]}; the matrix has {columns}"
        )
    row_of = np.repeat(np.arange(rows), np.diff(pointers))
    falling = np.flatnonzero((np.diff(indices.astype(np.int64)) <= 0) & (np.diff(row_of) == 0))
    if len(falling):
        at = falling[0] + 1
        raise InputError(
            f"index {at} is column {indices[at]} behind {indices[at - 1]} of the same row; "
            "columns of a row rise, each of them once"
        )


def from_entries(
    shape: tuple[int, int], vector: int, rows: np.ndarray, columns: np.ndarray, values: np.ndarray
) -> VectorMatrix:
    """The matrix of scalar entries in any order; raises InputError for one that is given twice."""
    if vector < 1:
        raise InputError(f"vectors of {vector} rows: choose 1 or more")
    height, width = shape
    for name, index, extent in (("row", rows, height), ("column", columns, width)):
        outside = np.flatnonzero((index < 0) | (index >= extent))
        if len(outside):
            raise InputError(f"an entry of {name} {index[outside[0]]}; the matrix has {extent}")
    keys = rows.astype(np.int64) // vector * width + columns
    found, place = np.unique(keys, return_inverse=True)
    within = rows % vector
    if len(np.unique(place * vector + within)) < len(keys):
        raise InputError("an entry of a sparse matrix is given twice; add such entries up first")
    packed = np.zeros((len(found), vector), values.dtype)
    packed[place, within] = values
    lengths = np.bincount(found // max(width, 1), minlength=-(-height // vector))
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = (found % max(width, 1)).astype(np.int32)
    return VectorMatrix(height, width, vector, pointers, indices, packed)


def from_dense(array: np.ndarray, vector: int, mask: np.ndarray | None = None) -> VectorMatrix:
    """The matrix of an array [rows, columns]: the vectors that hold something other than 0.

    With a mask, bool [rows, columns], the vectors that it touches instead, whatever they hold;
    what the mask leaves out of them is 0.
    """
    if array.ndim != 2 or (mask is not None and mask.shape != array.shape):
        shapes = [list(item.shape) for item in (array, mask) if item is not None]
        raise InputError(f"a matrix, and a mask, of {shapes}: both have the same two axes")
    if vector < 1:
        raise InputError(f"vectors of {vector} rows: choose 1 or more")
    kept = array != 0 if mask is None else mask.astype(bool)
    height, width = array.shape
    groups = -(-height // vector)
    whole = np.zeros((groups * vector, width), array.dtype)
    np.copyto(whole[:height], array, where=kept)
    touched = np.zeros((groups * vector, width), bool)
    touched[:height] = kept
    group, columns = np.nonzero(touched.reshape(groups, vector, width).any(axis=1))
    values = whole.reshape(groups, vector, width)[group, :, columns]
    lengths = np.bincount(group, minlength=groups)
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return VectorMatrix(height, width, vector, pointers, columns.astype(np.int32), values)


def regrouped(matrix: VectorMatrix, vector: int) -> VectorMatrix:
    """The same matrix in vectors of another length; vectors of zeros alone are left out."""
    if vector == matrix.vector:
        return matrix
    if matrix.vector % vector == 0:
        return _parted(matrix, vector)
    if vector % matrix.vector == 0:
        return _joined(matrix, vector)
    rows, columns, values = matrix.entries()
    kept = values != 0
    return from_entries(
        (matrix.rows, matrix.columns), vector, rows[kept], columns[kept], values[kept]
    )


def _joined(matrix: VectorMatrix, vector: int) -> VectorMatrix:
    """Neighbouring vectors as one that they divide."""
    kept = np.flatnonzero(matrix.values.any(axis=1))
    together, width = vector // matrix.vector, max(matrix.columns, 1)
    row = matrix.vector_row_of[kept].astype(np.int64)
    keys = row // together * width + matrix.indices[kept]
    found, place = np.unique(keys, return_inverse=True)
    values = np.zeros((len(found), together, matrix.vector), matrix.values.dtype)
    values[place, row % together] = matrix.values[kept]
    lengths = np.bincount(found // width, minlength=-(-matrix.rows // vector))
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = (found % width).astype(np.int32)
    packed = values.reshape(-1, vector)
    return VectorMatrix(matrix.rows, matrix.columns, vector, pointers, indices, packed)


def _parted(matrix: VectorMatrix, vector: int) -> VectorMatrix:
    """Vectors cut into shorter ones that divide them."""
    parts = matrix.vector // vector
    pieces = matrix.values.reshape(-1, parts, vector)
    number, part = np.nonzero(pieces.any(axis=2))
    row = matrix.vector_row_of[number] * parts + part
    order = np.argsort(row, kind="stable")
    count = -(-matrix.rows // vector)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=count)[:count])])
    return VectorMatrix(
        matrix.rows,
        matrix.columns,
        vector,
        pointers.astype(np.int32),
        matrix.indices[number[order]],
        np.ascontiguousarray(pieces[number[order], part[order]]),
    )
