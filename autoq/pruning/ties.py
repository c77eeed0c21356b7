"""What ties the columns and rows of several matrices together when tiles of them are pruned."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
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
    the rows that read them. columns: how much of the pruning of these columns take, and rows the
    rest, of others the other way round: 1 - (1 - sparsity) ** columns of the columns are pruned,
    as many as of the rows at 0.5.
    """

    dead_rows: DeadRows | None = None
    joint: Sequence[Joint] = ()
    shared_rows: Sequence[Sequence[int]] = ()
    leaving: Container[int] = ()
    columns: float = 0.5

    def columns_of(self, place: int) -> float:
        """How much of the pruning of a matrix its columns take."""
        return self.columns if place in self.leaving else 1 - self.columns


NO_TIES = Ties()
