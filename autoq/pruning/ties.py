"""What ties the columns and rows of several matrices together when tiles of them are pruned."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

DeadRows = Callable[[list[np.ndarray]], list[np.ndarray]]
"""From the columns that each matrix keeps, bool [n], to the rows that then multiply constants
only, bool [k]."""


class Joint(NamedTuple):
    """Places of matrices, of as many columns each, that keep the same ones.

    run: so many consecutive columns go together, too.
    """

    places: tuple[int, ...]
    run: int = 1


@dataclass(frozen=True)
class Ties:
    """What matrices have to do with one another, by their places among them.

    dead_rows: rows to prune first. joint: matrices that keep the same columns. shared_rows:
    matrices with as many rows each, all of whose tiles keep the same ones; each place is in one
    such group at most, if need be alone. leaving: matrices whose pruned columns leave a model with
    rows of those in reading that multiply them. columns: how much of the pruning of the former
    their columns take, and of the latter their rows: 1 - (1 - sparsity) ** columns of them are
    pruned, as large a share of rows as of columns at 0.5, as of all other matrices.
    """

    dead_rows: DeadRows | None = None
    joint: Sequence[Joint] = ()
    shared_rows: Sequence[Sequence[int]] = ()
    leaving: Container[int] = ()
    reading: Container[int] = ()
    columns: float = 0.5

    def columns_of(self, place: int) -> float:
        """How much of the pruning of a matrix its columns take."""
        if place in self.leaving:
            return self.columns
        return 1 - self.columns if place in self.reading else 0.5


NO_TIES = Ties()


def apart(links: Iterable[tuple[Sequence[int], Sequence[int]]]) -> tuple[set[int], set[int]]:
    """`leaving` and `reading` of links, each of places whose columns leave and of their readers.

    Columns and rows share the pruning of a matrix evenly that is both, or is linked to such a one:
    its rows go with the columns of another.
    """
    known = list(links)
    leave = {place for left, _ in known for place in left}
    read = {place for _, readers in known for place in readers}
    free = [one for one in known if read.isdisjoint(one[0]) and leave.isdisjoint(one[1])]
    leaving = {place for left, _ in free for place in left}
    return leaving, {place for _, readers in free for place in readers}
