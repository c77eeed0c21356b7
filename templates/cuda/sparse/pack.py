"""The sparse side as the panel kernel reads it: steps of 32 vectors, shared evenly among warps.

A step holds for each lane the bytes of its column of the product, and the places of its rows of b.
Groups of rows are dealt to parts, longest first, and lie one after the other in the steps. The
warps of a part take equal runs of its steps, wherever groups begin and end.
"""

from __future__ import annotations

import heapq

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.sparse.config import BANK_ROWS, GROUP, STEP, PanelTiling
from autoq.templates.sparse.conversion import to_vectors
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.workload import Constants

_CHUNK_BYTES = 16

_ROUNDS = 3
"""Rounds in which rows of a group go to their other place."""


def schedule_specs(tiling: PanelTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_schedule`."""
    steps, parts, warps = tiling.packed_steps, tiling.config.parts, tiling.config.warps
    return (
        TensorSpec("values", (steps, tiling.left_digits, 32, 2), "int32"),
        TensorSpec("places", (steps, tiling.step), "uint16" if tiling.config.staged else "int32"),
        TensorSpec("starts", (tiling.groups + 2,), "int32"),
        TensorSpec("rows", (tiling.groups + 1,), "int32"),
        TensorSpec("runs", (parts, warps + 1), "int32"),
        TensorSpec("firsts", (parts, warps), "int32"),
    )


def pack_schedule(tiling: PanelTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The sparse matrix in steps.

    values: of each digit, the lowest first, four bytes of each half of a lane's column; of floats
    both rows of the first eight and of the second, of each half. places: of each vector's row of b,
    in chunks of the panel or elements of b. starts: the first step of each
    group, in their order in the steps, and the end, twice. rows: the first row of y of each of
    them. runs: where the steps of each warp start, and the end of the part. firsts: the group that
    a warp's first step is of.
    """
    workload, config = tiling.workload, tiling.config
    matrix = to_vectors(workload.matrix(constants), GROUP)
    steps_of = np.maximum(1, -(-matrix.lengths // tiling.step))
    order, parts_of = dealt(steps_of, config.parts)
    starts = np.concatenate([[0], np.cumsum(steps_of[order])])
    homes = row_places(tiling, matrix)
    values, columns = in_steps(tiling, matrix, homes, order, starts)
    part_starts = starts[
        np.concatenate([[0], np.cumsum(np.bincount(parts_of, minlength=config.parts))])
    ]
    shares = np.arange(config.warps + 1)
    lengths = np.diff(part_starts)[:, None]
    runs = part_starts[:-1, None] + lengths * shares // config.warps
    firsts = np.searchsorted(starts, runs[:, :-1], side="right") - 1
    arrays = (
        values,
        by_lanes(places(tiling, columns)),
        np.append(starts, starts[-1]),
        np.append(order * GROUP, 0),
        runs,
        np.minimum(firsts, tiling.groups - 1),
    )
    specs = schedule_specs(tiling)
    return tuple(
        np.ascontiguousarray(array, spec.dtype) for array, spec in zip(arrays, specs, strict=True)
    )


def dealt(steps_of: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Groups in their order by parts, and the part of each: longest first, to the least laden."""
    laden = [(0, part) for part in range(parts)]
    of_group = np.zeros(len(steps_of), np.int64)
    for group in np.argsort(-steps_of, kind="stable"):
        load, part = heapq.heappop(laden)
        of_group[group] = part
        heapq.heappush(laden, (load + int(steps_of[group]), part))
    order = np.lexsort((-steps_of, of_group))
    return order, of_group[order]


def second_place(tiling: PanelTiling, row: np.ndarray) -> np.ndarray:
    """Where a row of the panel has its second place: each eight is turned by another count."""
    eight = row // BANK_ROWS
    of_eight = eight % BANK_ROWS
    turned = np.where(of_eight == BANK_ROWS - 1, BANK_ROWS // 2, 1 + of_eight)
    return tiling.first_copy + eight * BANK_ROWS + (row + turned) % BANK_ROWS


def row_places(tiling: PanelTiling, matrix: VectorMatrix) -> np.ndarray:
    """The row of the panel that each vector multiplies, [vectors].

    It is the vector's column, or its second place where that leaves the eighths of a group more
    even: rows that are equal modulo 8 are in each other's way.
    """
    homes = matrix.indices.astype(np.int64)
    if not tiling.copied_rows:
        return homes
    group = matrix.vector_row_of
    movable = np.flatnonzero(homes < tiling.copied_rows)
    other = homes.copy()
    other[movable] = second_place(tiling, homes[movable])
    return _evened(homes, other, group, movable, matrix.vector_rows)


def _evened(
    homes: np.ndarray, other: np.ndarray, group: np.ndarray, movable: np.ndarray, groups: int
) -> np.ndarray:
    """The place of each vector: its home, or the other one if it is movable.

    Vectors of a group are asked one after the other, those of all groups beside each other.
    """
    places = homes.copy()
    counts = np.bincount(group * BANK_ROWS + homes % BANK_ROWS, minlength=groups * BANK_ROWS)
    counts = counts.reshape(groups, BANK_ROWS)
    of_group = np.bincount(group[movable], minlength=groups)
    first = np.cumsum(of_group) - of_group
    uneven = np.arange(groups)
    for _ in range(_ROUNDS):
        for nth in range(int(of_group[uneven].max(initial=0))):
            asked = uneven[of_group[uneven] > nth]
            index = movable[first[asked] + nth]
            there = homes[index] + other[index] - places[index]
            here, bank = places[index] % BANK_ROWS, there % BANK_ROWS
            moved = counts[asked, here] > counts[asked, bank] + 1
            counts[asked[moved], here[moved]] -= 1
            counts[asked[moved], bank[moved]] += 1
            places[index[moved]] = there[moved]
        uneven = uneven[np.ptp(counts[uneven], axis=1) > 1]
    return places


def in_steps(
    tiling: PanelTiling,
    matrix: VectorMatrix,
    homes: np.ndarray,
    order: np.ndarray,
    starts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Values int32 [steps, digits, 32, 2] and rows of the panel [steps, step] of vectors of 8 rows.

    homes: the row of the panel of each vector. Vectors of a group are arranged so that each eight
    that are read together have rows that differ modulo 8 as long as there are such; padding differs
    likewise.
    """
    steps = tiling.packed_steps
    residue, group = homes % BANK_ROWS, matrix.vector_row_of
    of_class = group * BANK_ROWS + residue
    by_class = np.argsort(of_class * (int(homes.max(initial=0)) + 1) + homes, kind="stable")
    keys = of_class[by_class]
    firsts = np.searchsorted(keys, keys, side="left")
    rank = np.empty(len(keys), np.int64)
    rank[by_class] = np.arange(len(keys)) - firsts
    ranks = int(rank.max(initial=0)) + 1
    arranged = np.argsort((group * ranks + rank) * BANK_ROWS + residue, kind="stable")
    first_step = np.empty(len(order), np.int64)
    first_step[order] = starts[:-1]
    within = np.arange(len(arranged)) - matrix.pointers[:-1][group[arranged]]
    step = first_step[group[arranged]] + within // tiling.step
    position = within % tiling.step
    columns = np.broadcast_to(
        np.minimum(np.arange(tiling.step) % BANK_ROWS, matrix.columns - 1), (steps, tiling.step)
    ).copy()
    columns[step, position] = homes[arranged]
    if not tiling.config.staged:
        columns = filled_up(columns, np.bincount(step, minlength=steps))
    return value_words(tiling, step, position, matrix.values[arranged]), columns


def filled_up(columns: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Rows of b of steps [steps, step] with so many vectors each, and behind these the first ones.

    What is gathered from the L2 is then gathered once: rows that all steps named would be waited
    for by all multiprocessors.
    """
    position = np.arange(columns.shape[1])
    again = np.take_along_axis(columns, position % np.maximum(counts, 1)[:, None], axis=1)
    return np.where((position < counts[:, None]) | (counts == 0)[:, None], columns, again)


def value_words(
    tiling: PanelTiling, step: np.ndarray, position: np.ndarray, vectors: np.ndarray
) -> np.ndarray:
    """Values of vectors [vectors, 8] at positions of steps, int32 [steps, digits, 32, 2].

    A lane multiplies rows 2t and 2t + 1 of the first eight of each half, and of the second, for t
    its number modulo 4. Of nibbles, halves have four eights: a word's bytes have the rows of the
    first two eights in their lower half, those of the others in the upper one.
    """
    steps, half = tiling.packed_steps, position // (tiling.step // 2)
    member, odd, eight = position % GROUP // 2, position % 2, position % (tiling.step // 2) // GROUP
    if vectors.dtype.kind not in "iu":
        floats = np.zeros((steps, 2, GROUP, 4, 2, 2), np.uint16)
        floats[step, half, :, member, eight, odd] = vectors.view(np.uint16)
        return floats.reshape(steps, 2, 32, 4).view(np.int32)
    digits = np.ascontiguousarray(vectors).reshape(len(vectors), GROUP, 1).view(np.uint8)
    if tiling.digit_bits == 8:
        values = np.zeros((steps, digits.shape[-1], GROUP, 4, 2, 4), np.uint8)
        values[step, :, :, member, half, eight * 2 + odd] = digits.transpose(0, 2, 1)
        return values.reshape(steps, -1, 32, 8).view(np.int32)
    halves = np.stack([digits & 15, digits >> 4], axis=-1)
    digits = halves.reshape(*digits.shape[:2], 2 * digits.shape[2])[..., : tiling.left_digits]
    nibbles = np.zeros((steps, tiling.left_digits, GROUP, 4, 2, 4, 2), np.uint8)
    byte = eight % 2 * 2 + odd
    nibbles[step, :, :, member, half, byte, eight // 2] = digits.transpose(0, 2, 1)
    packed = nibbles[..., 0] | nibbles[..., 1] << 4
    return packed.reshape(steps, -1, 32, 8).view(np.int32)


def by_lanes(places_of: np.ndarray) -> np.ndarray:
    """Places of steps [steps, step], those of a lane, one of each 32 vectors, as neighbours."""
    return places_of.reshape(len(places_of), -1, STEP).swapaxes(1, 2).reshape(places_of.shape)


def places(tiling: PanelTiling, columns: np.ndarray) -> np.ndarray:
    """Where a row of b starts: in the swizzled panel, in chunks, or in b itself.

    A row of the panel has chunks of 16 bytes. They change places by the row's number, so that the
    same chunk of eight rows that differ modulo 8 lies in different banks.
    """
    if not tiling.config.staged:
        return columns * tiling.workload.n
    chunks = tiling.row_bytes // _CHUNK_BYTES
    return columns * chunks + columns % BANK_ROWS * chunks // BANK_ROWS
