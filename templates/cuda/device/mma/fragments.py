"""Which element of a matrix each register of a thread holds (PTX ISA, Matrix Fragments).

One rule covers all shapes. Four neighbouring threads share a row: a register holds consecutive
elements of it, and the four registers of such a group follow one another. Eight groups of a warp
are eight rows. Further registers hold the next eight rows, then the next columns.

A map is an int64 array [threads, registers, values, 2] of rows and columns; the lowest value of a
register comes first.
"""

from __future__ import annotations

import numpy as np

ROWS = 8
"""Rows of a block, one for every four threads of a warp."""

QUAD = 4
"""Threads that share a row."""

WARP = 32

CHUNK = 4
"""Elements of which a 2:4 sparse matrix keeps two."""

INDEX_BITS = 2
"""Bits of the place of a kept element in its chunk."""

CHUNKS_PER_WORD = 8
"""Chunks that a register of metadata describes, by two indices each."""


def operand_fragment(rows: int, columns: int, per_word: int, warps: int = 1) -> np.ndarray:
    """The map of a factor [rows, columns] whose rows are cut between warps.

    A factor lies with k along its columns, so that the second one is [n, k]; of a sparse factor
    these are the columns that are stored.
    """
    blocks = rows // (ROWS * warps)
    registers = blocks * columns // (QUAD * per_word)
    thread, register, value = np.indices((warps * WARP, registers, per_word))
    lane = thread % WARP
    row = thread // WARP * (ROWS * blocks) + register % blocks * ROWS + lane // QUAD
    column = (register // blocks * QUAD + lane % QUAD) * per_word + value
    return np.stack([row, column], axis=-1)


def accumulator_fragment(m: int, n: int, per_word: int, warps: int = 1) -> np.ndarray:
    """The map of the accumulators [m, n]: pairs of columns, whatever a register holds."""
    blocks = m // (ROWS * warps)
    registers = m * n // (warps * WARP * per_word)
    thread, register, value = np.indices((warps * WARP, registers, per_word))
    lane, number = thread % WARP, register * per_word + value
    row = thread // WARP * (ROWS * blocks) + number // 2 % blocks * ROWS + lane // QUAD
    column = number // (2 * blocks) * (2 * QUAD) + lane % QUAD * 2 + number % 2
    return np.stack([row, column], axis=-1)


def metadata_fragment(k: int, warps: int = 1) -> np.ndarray:
    """The map of the metadata of a sparse factor [16 * warps, k]: rows and chunks.

    int64 [threads, 1, 8, 2]. With k = 64 each thread of four describes half a row: the first two
    the first halves of a row and of the row eight below, the last two the second halves. With k =
    32 a thread describes half of both rows, and two of the four do so for all; which two is the
    instruction's selector. Here the others hold the same.
    """
    thread, _, chunk = np.indices((warps * WARP, 1, CHUNKS_PER_WORD))
    lane = thread % WARP
    if k == 64:
        below, half, within = lane % 2, lane % QUAD // 2, chunk
    elif k == 32:
        below, half, within = chunk // 4, lane % 2, chunk % 4
    else:
        raise ValueError(f"k {k}: metadata is laid out for 32 and 64")
    row = thread // WARP * (2 * ROWS) + below * ROWS + lane // QUAD
    return np.stack([row, half * (k // CHUNK // 2) + within], axis=-1)


def gather(matrix: np.ndarray, fragment: np.ndarray) -> np.ndarray:
    """Values [..., threads, registers, values] of matrices [..., rows, columns] in registers."""
    return matrix[..., fragment[..., 0], fragment[..., 1]]


def scatter(values: np.ndarray, fragment: np.ndarray) -> np.ndarray:
    """The matrix whose values [threads, registers, values] lie as a map says."""
    rows, columns = fragment.reshape(-1, 2).max(axis=0) + 1
    matrix = np.zeros((rows, columns), values.dtype)
    matrix[fragment[..., 0], fragment[..., 1]] = values
    return matrix
