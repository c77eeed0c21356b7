"""Which weights of a pruned matrix are kept, by the structure that a kernel may make use of.

The patterns are those of "Accelerating Sparse DNNs Based on Tiled GEMM" (Guo et al.,
arXiv:2402.10876), over a weight matrix [k, n] that a product multiplies activations [m, k] by. A
convolution's is that of im2col: rows in the order (r, s, c), a column a filter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NO_ROW = -1
"""Stands among a tile's rows for no row: weights of zero, which may multiply anything."""


@dataclass(frozen=True)
class Vector:
    """Of every `of` consecutive rows of a column at most `kept` weights are kept: 2:4, 4:16."""

    kept: int
    of: int

    def __str__(self) -> str:
        return f"{self.kept}:{self.of}"

    @property
    def share(self) -> float:
        """The share of weights that is kept."""
        return self.kept / self.of


TWO_OF_FOUR = Vector(2, 4)
"""What sparse tensor cores compute."""


@dataclass(frozen=True, eq=False)
class Elements:
    """Element-wise sparsity: any weights. mask: bool [k, n], True where a weight is kept."""

    mask: np.ndarray

    @property
    def stored(self) -> int:
        """How many weights a kernel of this structure multiplies by."""
        return int(np.count_nonzero(self.mask))


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vector-wise sparsity. mask: bool [k, n] with at most `vector.kept` in each group of rows."""

    mask: np.ndarray
    vector: Vector

    @property
    def stored(self) -> int:
        """How many weights a kernel of this structure multiplies by."""
        k, n = self.mask.shape
        return _slots(k, self.vector) * n


@dataclass(frozen=True, eq=False)
class Blocks:
    """Block-wise sparsity: blocks of granularity x granularity, smaller ones at the far edges.

    kept: bool [ceil(k / granularity), ceil(n / granularity)].
    """

    shape: tuple[int, int]
    granularity: int
    kept: np.ndarray

    @property
    def mask(self) -> np.ndarray:
        """bool [k, n], True where a weight is kept."""
        g = self.granularity
        k, n = self.shape
        return self.kept.repeat(g, axis=0).repeat(g, axis=1)[:k, :n]

    @property
    def stored(self) -> int:
        """How many weights a kernel of this structure multiplies by."""
        return int(np.count_nonzero(self.mask))


@dataclass(frozen=True, eq=False)
class Tile:
    """Columns of a tile-wise matrix that share their rows.

    columns: int32, ascending. rows: int32, ascending but for NO_ROW. kept: bool [rows, columns] of
    a pattern that prunes within tiles, None where all weights are kept.
    """

    columns: np.ndarray
    rows: np.ndarray
    kept: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns."""
        return len(self.rows), len(self.columns)

    def values(self, weights: np.ndarray) -> np.ndarray:
        """The tile's weights [rows, columns] out of a matrix [k, n]."""
        chosen = weights[np.ix_(self.rows, self.columns)]
        chosen[self.rows == NO_ROW] = 0
        return chosen if self.kept is None else np.where(self.kept, chosen, 0)


@dataclass(frozen=True, eq=False)
class TileWise:
    """Tile-wise sparsity: tiles of `granularity` surviving columns, each with rows of its own.

    tiles: of consecutive surviving columns, the last one may be narrower; those without rows are
        left out. run: how many consecutive rows are kept or pruned together.
    vector: what is kept of consecutive surviving rows in each column of a tile, None for all.
    remainder: bool [k, n], single weights that are kept besides, in other places; None for none.
    """

    shape: tuple[int, int]
    granularity: int
    tiles: tuple[Tile, ...]
    run: int = 1
    vector: Vector | None = None
    remainder: np.ndarray | None = None

    @property
    def mask(self) -> np.ndarray:
        """bool [k, n], True where a weight is kept."""
        mask = np.zeros(self.shape, bool) if self.remainder is None else self.remainder.copy()
        for tile in self.tiles:
            real = tile.rows != NO_ROW
            kept = True if tile.kept is None else tile.kept[real]
            mask[np.ix_(tile.rows[real], tile.columns)] = kept
        return mask

    @property
    def columns(self) -> np.ndarray:
        """int32: the columns of all tiles, ascending."""
        return np.concatenate([np.zeros(0, np.int32), *(tile.columns for tile in self.tiles)])

    @property
    def stored(self) -> int:
        """How many weights a kernel of this structure multiplies by."""
        single = 0 if self.remainder is None else int(np.count_nonzero(self.remainder))
        for tile in self.tiles:
            rows, columns = tile.shape
            single += columns * (rows if self.vector is None else _slots(rows, self.vector))
        return single


Pruned = Elements | Vectors | Blocks | TileWise


def _slots(rows: int, vector: Vector) -> int:
    """Weights that a column of so many rows stores."""
    full, tail = divmod(rows, vector.of)
    return full * vector.kept + min(tail, vector.kept)
