"""Rows of b that the blocks of a cluster share, each of a vector row of its own.

A stage of rows that several blocks have is gathered by one of them, which hands it to the others.
In a slot of the ring each block has a stage: these are dealt to slots by which blocks have them, so
that those of a slot leave out no block.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autoq.templates.sparse.vector_matrix import VectorMatrix


def share_rows(
    matrix: VectorMatrix, clusters: np.ndarray, rows: int, within: np.ndarray
) -> np.ndarray:
    """For which blocks, a bit each, its own gathers each vector's row of b; 0: it is given the row.

    clusters: vector rows, [clusters, blocks]. within: [vectors], the place of each vector among
    those of its vector row, of stages of so many rows; replaced.
    """
    given_to = np.zeros_like(within)
    for members in clusters:
        own = [slice(*matrix.pointers[row : row + 2]) for row in members]
        for block, dealt in enumerate(deal([matrix.indices[vectors] for vectors in own], rows)):
            within[own[block]], given_to[own[block]] = dealt
    return given_to


def deal(columns: list[np.ndarray], rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each block the places of its columns in stages, and for which blocks it gathers each."""
    every = np.unique(np.concatenate(columns))
    have = np.stack([np.isin(every, own, assume_unique=True) for own in columns])
    blocks = len(columns)
    sets = (have << np.arange(blocks)[:, None]).sum(0)
    whole: dict[int, list[np.ndarray]] = {}
    shared = np.zeros_like(have)
    for members in sorted(set(sets.tolist())):
        of_set = np.flatnonzero(sets == members)
        if members.bit_count() > 1:
            of_set = of_set[: len(of_set) // rows * rows]
            whole[members] = np.split(of_set, len(of_set) // rows) if len(of_set) else []
            shared[:, of_set] = have[:, of_set]
    for block in range(blocks):
        left = np.flatnonzero(have[block] & ~shared[block])
        whole[1 << block] = [left[i : i + rows] for i in range(0, len(left), rows)]
    slots = spread(list(slots_of(whole, blocks)))
    place, given_to = np.zeros(have.shape, np.int64), np.zeros(have.shape, np.int64)
    for slot, stages in enumerate(slots):
        for members, stage in stages:
            own = [block for block in range(blocks) if members >> block & 1]
            for block in own:
                place[block, stage] = slot * rows + np.arange(len(stage))
            given_to[own[slot % len(own)], stage] = members
    at = [np.searchsorted(every, own) for own in columns]
    return [(place[block, own], given_to[block, own]) for block, own in enumerate(at)]


Slot = list[tuple[int, np.ndarray]]
"""Stages of a slot, each with the blocks that have it."""


def slots_of(left: dict[int, list[np.ndarray]], blocks: int) -> Iterator[Slot]:
    """A stage for each block that has one left; those of most blocks first.

    A block that is left out otherwise takes a stage of its own from one that others share.
    """
    while any(left.values()):
        slot: Slot = []
        free = (1 << blocks) - 1
        by_size = sorted(
            (members for members in left if left[members]),
            key=lambda members: (-members.bit_count(), -len(left[members]), members),
        )
        for members in by_size:
            if members & ~free == 0:
                slot.append((members, left[members].pop()))
                free &= ~members
        for members in by_size[::-1]:
            given = members & free
            if given and left[members]:
                stage = left[members].pop()
                slot.append((given, stage))
                left.setdefault(members & ~given, []).append(stage)
                free &= ~given
        yield slot


def spread(slots: list[Slot]) -> list[Slot]:
    """Slots of as many gathered stages lie evenly among the others."""
    counts = np.array([len(slot) for slot in slots])
    key = np.zeros(len(slots))
    for count in np.unique(counts):
        own = np.flatnonzero(counts == count)
        key[own] = (np.arange(len(own)) + 0.5) / len(own)
    return [slots[i] for i in np.argsort(key, kind="stable")]
