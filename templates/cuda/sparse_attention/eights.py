"""How the 32 keys of a step are dealt to reads of eight rows, so that shared memory is read seldom.

ldmatrix reads eight rows in one pass where they differ modulo 8; rows of the same residue take one
each. A step's passes are the sum of how often the most common residue of each of its four eights
occurs there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

ROWS = 8
"""Rows that are read at once, and residues."""

_EIGHTS = 4

Counts = tuple[int, ...]
"""Of each residue, those that are more common first."""


@functools.cache
def dealt(counts: Counts) -> tuple[Counts, ...]:
    """How many of each residue each of four eights takes, of least passes."""
    most = counts[0]
    return next(
        found
        for passes in range(max(_EIGHTS, most), _EIGHTS * most + 1)
        for caps in _caps(passes, most)
        if (found := _flow(counts, caps)) is not None
    )


def _caps(passes: int, most: int) -> Iterator[Counts]:
    """How often a residue may occur in each eight, falling, of so many passes together."""
    for first in range(1, most + 1):
        for second in range(1, first + 1):
            for third in range(1, second + 1):
                last = passes - first - second - third
                if 1 <= last <= third:
                    yield first, second, third, last


def _flow(counts: Counts, caps: Counts) -> tuple[Counts, ...] | None:
    """Counts by eight, [4][8], of which none is above the eight's cap; None where there are none.

    A key that finds no room takes that of another one, which moves on, along a shortest path.
    """
    taken = np.zeros((_EIGHTS, ROWS), int)
    for residue, count in enumerate(counts):
        for _ in range(count):
            path = _path(taken, caps, residue)
            if path is None:
                return None
            for eight, own, change in path:
                taken[eight, own] += change
    return tuple(tuple(map(int, row)) for row in taken)


def _path(taken: np.ndarray, caps: Counts, residue: int) -> list[tuple[int, int, int]] | None:
    """Changes of `taken` after which it has a key more of a residue."""
    waiting: list[tuple[int, list[tuple[int, int, int]]]] = [(residue, [])]
    seen = set()
    for own, path in waiting:
        for eight in range(_EIGHTS):
            if eight in seen or taken[eight, own] == caps[eight]:
                continue
            seen.add(eight)
            further = [*path, (eight, own, 1)]
            if taken[eight].sum() < ROWS:
                return further
            waiting += [
                (other, [*further, (eight, other, -1)])
                for other in range(ROWS)
                if taken[eight, other]
            ]
    return None


def by_eights(residue: np.ndarray) -> np.ndarray:
    """An order of 32 keys, by their residues, in which each eight takes few passes."""
    counts = np.bincount(residue, minlength=ROWS)
    common = np.argsort(-counts, kind="stable")
    own = [np.flatnonzero(residue == each).tolist() for each in common]
    eights = dealt(tuple(counts[common].tolist()))
    return np.array(
        [own[i].pop(0) for eight in eights for i, n in enumerate(eight) for _ in range(n)]
    )
