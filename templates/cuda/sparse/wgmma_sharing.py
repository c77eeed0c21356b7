"""Which rows of b the blocks of a cluster share, each of a vector row of its own.

A slot of the ring has a row for each block of the cluster. A row that several of them have comes to
all of these by one copy, where they have it in the same slot: rows are dealt to slots by which
blocks have them, so that the sets of a slot leave out no block.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.sparse.vector_matrix import VectorMatrix


def shared_rows(
    matrix: VectorMatrix, clusters: np.ndarray, within: np.ndarray, copied_for: np.ndarray
) -> np.ndarray:
    """Slots with shared rows of each of the clusters of vector rows, [clusters, blocks].

    within, copied_for: [vectors], to fill: the slot of each vector, shared ones first, and for
    which blocks of the cluster, a bit each, its own copies the row, 0 where another one does.
    """
    common = np.zeros(len(clusters), np.int64)
    for number, rows in enumerate(clusters):
        own = [slice(*matrix.pointers[row : row + 2]) for row in rows]
        columns = [matrix.indices[vectors] for vectors in own]
        slots, blocks_of, common[number] = deal(columns)
        for vectors, slot, blocks in zip(own, slots, blocks_of, strict=True):
            within[vectors], copied_for[vectors] = slot, blocks
    return common


def deal(columns: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Of each block the slots of its columns, and for which blocks it copies their rows.

    Also gives how many slots there are until the last one with a shared row.
    """
    every = np.unique(np.concatenate(columns))
    have = np.stack([np.isin(every, own, assume_unique=True) for own in columns])
    sets = (have << np.arange(len(columns))[:, None]).sum(0)
    left = {members: np.flatnonzero(sets == members) for members in np.unique(sets).tolist()}
    slot_of = np.zeros(have.shape, np.int64)
    copies = np.zeros(have.shape, np.int64)
    slot = common = 0
    while left:
        parts = _cover(left, len(columns))
        count = min(len(left[members]) for members, _ in parts)
        slots = np.arange(slot, slot + count)
        for members, given in parts:
            taken, left[members] = left[members][:count], left[members][count:]
            blocks = [block for block in range(len(columns)) if given >> block & 1]
            for block in blocks:
                slot_of[block, taken] = slots
            copies[np.array(blocks)[slots % len(blocks)], taken] = given
            if members != given:  # the others get it in another slot
                rest = left.get(members & ~given, taken[:0])
                left[members & ~given] = np.concatenate([rest, taken])
            if len(blocks) > 1:
                common = slot + count
        slot += count
        left = {members: rows for members, rows in left.items() if len(rows)}
    return (
        [of_block[own] for of_block, own in zip(slot_of, have, strict=True)],
        [of_block[own] for of_block, own in zip(copies, have, strict=True)],
        common,
    )


def _cover(left: dict[int, np.ndarray], blocks: int) -> list[tuple[int, int]]:
    """Sets of blocks that have rows left, and the part of each that is given one in the next slots.

    The largest that do not overlap first; blocks that these leave out take a row of a larger set.
    """
    open_blocks, parts = (1 << blocks) - 1, []
    by_size = sorted(left, key=lambda members: (-members.bit_count(), -len(left[members])))
    for members in by_size:
        if members & ~open_blocks == 0:
            parts.append((members, members))
            open_blocks &= ~members
    taken = {members for members, _ in parts}
    for members in by_size[::-1]:
        if members & open_blocks and members not in taken:
            parts.append((members, members & open_blocks))
            open_blocks &= ~members
    return parts
