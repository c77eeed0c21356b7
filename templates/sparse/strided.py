"""SR-BCRS: vector rows padded to whole strides, the reduction of one product of a tensor core.

The format of Magicube (Li, Osawa, Hoefler, SC 2022): what one product reads of the sparse side lies
together, row by row. Two pointers a vector row say where its strides start and where its vectors
end. For values of 4 bits columns are shuffled in blocks of 8, so that whole words turn a block of
nibbles: rows of the right side that are read in the order 0 2 4 6 1 3 5 7, transposed by bytes and
parted into their low and high nibbles, come out in the order 0 to 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.errors import InputError
from autoq.templates.sparse.vector_matrix import VectorMatrix

SHUFFLE = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight columns stands at each place."""


@dataclass(frozen=True, eq=False)
class StridedMatrix:
    """A matrix [rows, columns] in vectors of `vector` rows, `stride` of them together.

    starts, ends: int32 [vector rows], the first vector of each vector row, a multiple of stride,
        and the one behind its last; what lies up to the next multiple of stride is padding.
    indices: int32 [strides * stride], columns, 0 for padding; `shuffled` by eights or not.
    values: [strides, vector, stride], never shuffled, 0 for padding.

    Raises InputError for a stride that is no multiple of 8 and indices that are shuffled.
    """

    rows: int
    columns: int
    vector: int
    stride: int
    starts: np.ndarray
    ends: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    shuffled: bool = False

    def __post_init__(self) -> None:
        if self.stride < 1 or (self.shuffled and self.stride % len(SHUFFLE)):
            raise InputError(
                f"a stride of {self.stride}: choose 1 or more, a multiple of {len(SHUFFLE)} for "
                "shuffled columns"
            )


def to_strided(matrix: VectorMatrix, stride: int, shuffled: bool = False) -> StridedMatrix:
    """The matrix with its vector rows padded to whole strides."""
    if stride < 1:
        raise InputError(f"a stride of {stride}: choose 1 or more")
    padded = -(-matrix.lengths // stride) * stride
    ends_of_padding = np.cumsum(padded)
    starts = ends_of_padding - padded
    total = int(padded.sum())
    offsets = starts - matrix.pointers[:-1]
    place = np.arange(len(matrix.indices)) + np.repeat(offsets, matrix.lengths)
    indices = np.zeros(total, np.int32)
    indices[place] = matrix.indices
    values = np.zeros((total, matrix.vector), matrix.values.dtype)
    values[place] = matrix.values
    by_stride = values.reshape(-1, stride, matrix.vector).transpose(0, 2, 1)
    if shuffled and stride % len(SHUFFLE) == 0:
        indices = indices.reshape(-1, len(SHUFFLE))[:, SHUFFLE].reshape(-1)
    return StridedMatrix(
        matrix.rows, matrix.columns, matrix.vector, stride,
        starts.astype(np.int32), (starts + matrix.lengths).astype(np.int32),
        np.ascontiguousarray(indices), np.ascontiguousarray(by_stride), shuffled,
    )  # fmt: skip


def from_strided(strided: StridedMatrix) -> VectorMatrix:
    """The matrix without its padding; raises InputError where the arrays do not fit together."""
    total, stride = len(strided.indices), strided.stride
    lengths = strided.ends - strided.starts
    shape = (total // stride, strided.vector, stride)
    ascending = (np.diff(strided.starts) >= -(-lengths[:-1] // stride) * stride).all()
    bounds = (lengths >= 0).all() and (strided.starts % stride == 0).all() and ascending
    if (
        total % stride
        or strided.values.shape != shape
        or not bounds
        or (strided.ends > total).any()
    ):
        raise InputError(
            f"values are {list(strided.values.shape)} and indices [{total}]; strides of {stride} "
            f"in vectors of {strided.vector} take values {list(shape)} and pointers within them"
        )
    indices = strided.indices
    if strided.shuffled:
        places = np.argsort(SHUFFLE)
        indices = indices.reshape(-1, len(SHUFFLE))[:, places].reshape(-1)
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    place = np.arange(pointers[-1]) + np.repeat(strided.starts - pointers[:-1], lengths)
    values = strided.values.transpose(0, 2, 1).reshape(-1, strided.vector)
    return VectorMatrix(
        strided.rows, strided.columns, strided.vector, pointers,
        indices[place].astype(np.int32), np.ascontiguousarray(values[place]),
    )  # fmt: skip
