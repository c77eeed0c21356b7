"""The sparse side as the kernel of long vectors reads it: stages of so many vectors of a row."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.sparse.config import GROUP
from autoq.templates.cuda.sparse.functions import pack_terms, term_specs
from autoq.templates.cuda.sparse.wgmma.config import DEPTH, HEAD_PLACES, LongTiling
from autoq.templates.workload import Constants

_COLUMN_BYTES = 16
_GOLDEN = 0.6180339887
"""The share of a circle that spreads any number of multiples of it."""


def long_specs(tiling: LongTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_long`."""
    rows, count = tiling.config.rows, tiling.workload.vector_rows
    return (
        TensorSpec("values", (tiling.steps, tiling.value_bytes // 4), "int32"),
        TensorSpec("places", (tiling.steps, rows), "int32"),
        TensorSpec("starts", (count,), "int32"),
        TensorSpec("lengths", (count,), "int32"),
        TensorSpec("rows", (count,), "int32"),
        TensorSpec("heads", (count, HEAD_PLACES), "int32"),
        *term_specs(tiling),
    )


def pack_long(tiling: LongTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The sparse matrix in stages, the vector row with most of them first.

    values: of each 32 vectors, or 16 of floats, and of each digit, the lowest first, two columns of
    16 bytes of each row, eights of rows one after the other. places: of each vector's row of b, in
    elements. starts, lengths, rows: of each vector row its first stage, its vectors and its first
    row of y. heads: of each the places of its first stages, 0 behind its last. Then what
    `pack_terms` gives.
    """
    workload, rows = tiling.workload, tiling.config.rows
    matrix = workload.matrix(constants)
    order = np.argsort(-matrix.lengths, kind="stable")
    lengths = matrix.lengths[order]
    stages = -(-lengths // rows)
    starts = np.cumsum(stages) - stages
    own_start = np.empty_like(starts)
    own_start[order] = starts
    vector_row = matrix.vector_row_of
    within = np.arange(len(vector_row)) - matrix.pointers[:-1][vector_row]
    within = (within + turns(order, matrix.lengths)[vector_row]) % matrix.lengths[vector_row]
    stage, position = own_start[vector_row] + within // rows, within % rows
    places = np.zeros((tiling.steps, rows), np.int32)
    places[stage, position] = matrix.indices * workload.n
    places = filled_up(places, starts, stages, lengths)
    step, half, at = value_of(position) if workload.floating else byte_of(position)
    held = _COLUMN_BYTES // tiling.value_size
    digits = tiling.left_digits
    shape = (tiling.steps, rows // (2 * held), digits, 2, workload.vector, held)
    parts = matrix.values.reshape(-1, workload.vector, 1)
    if digits > 1:
        parts = np.ascontiguousarray(parts).view(np.uint8)
    values = np.zeros(shape, parts.dtype)
    values[stage, step, :, half, :, at] = parts.transpose(0, 2, 1)
    packed = values.reshape(tiling.steps, -1).view(np.int32)
    first_rows = order * workload.vector
    of_terms = (first_rows[:, None] + np.arange(workload.vector)).reshape(-1)
    head = np.arange(HEAD_PLACES) // rows
    of_head = np.minimum(starts[:, None] + head, tiling.steps - 1)
    heads = places[of_head, np.arange(HEAD_PLACES) % rows] * (head < stages[:, None])
    arrays = (packed, places, starts, lengths, first_rows, heads)
    specs = long_specs(tiling)
    return (
        *(np.ascontiguousarray(a, spec.dtype) for a, spec in zip(arrays, specs, strict=False)),
        *pack_terms(tiling, constants, of_terms),
    )


def turns(order: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """By how many places the columns of each vector row are turned, [vector rows].

    Blocks that run at once go through columns at the same pace: in the order of columns they would
    all ask for the same rows of b at the same time. Neighbours in the order start far apart.
    """
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return (place * _GOLDEN % 1 * lengths).astype(np.int64)


def filled_up(
    places: np.ndarray, starts: np.ndarray, stages: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Places behind the last vector of each vector row are those of its first ones.

    Blocks that all copied the same row there would wait for one line of the L2.
    """
    rows = places.shape[1]
    row = np.repeat(np.arange(len(starts)), stages * rows)
    at = np.arange(len(row)) - (np.cumsum(stages * rows) - stages * rows)[row]
    first = starts[row] * rows
    flat = places.reshape(-1)
    flat[first + at] = flat[first + at % np.maximum(lengths[row], 1)]
    return flat.reshape(places.shape)


def value_of(position: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which eight of which 16 floats, and which of these, multiplies a gathered row of a stage."""
    return position // 16, position % 16 // GROUP, position % GROUP


def byte_of(position: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which byte of which 16 of which 32 multiplies the gathered row at a position of a stage.

    A thread's four bytes of a row of the left factor are of rows 2t, 2t + 1, 2t + 8 and 2t + 9 of
    16 gathered ones, for t its number modulo 4.
    """
    within = position % 16
    byte = within % GROUP // 2 * 4 + within // GROUP * 2 + within % 2
    return position // DEPTH, position % DEPTH // 16, byte
