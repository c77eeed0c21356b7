"""What is known to be zero of a constant weight: a pattern, and the class of its zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.errors import InputError
from autoq.templates.field_types import require_types
from autoq.templates.sparse.pruned_matrix import Tile
from autoq.templates.sparse.tiles import tiles_of
from autoq.templates.sparse.two_four import is_two_four, random_two_four
from autoq.templates.sparse.vector_matrix import from_dense
from autoq.templates.structure import Structure, bucket

TILE_WISE = "tw"
"""Tiles of columns that share their rows: `pruned_matrix.TileWise`."""

TWO_FOUR = "2:4"
"""Of every four neighbours along k two: what sparse tensor cores take."""

VECTORS = "vectors"
"""Vectors of neighbouring outputs of one input: `VectorMatrix` of the weight [n, k]."""

PATTERNS = (TILE_WISE, TWO_FOUR, VECTORS)


@dataclass(frozen=True)
class Sparsity:
    """The class of a pruned weight [n, k]; as a matrix it is [k, n], columns are outputs.

    pattern: one of `PATTERNS`. granularity: columns of a tile, or outputs of a vector. columns:
    most columns that are not all zero. structure: of the tiles, blocks being rows of a tile, or of
    rows of vectors. All are upper bounds, so that records and kernels serve every weight of the
    class. Of 2:4 there is one class, `two_four()`.

    The weight itself stays dense among a workload's constants: dense kernels multiply by its zeros,
    others find their tiles or vectors in it.

    Raises InputError for another pattern and a granularity of 0.
    """

    pattern: str
    granularity: int
    columns: int
    structure: Structure

    def __post_init__(self) -> None:
        require_types(self)
        if self.pattern not in PATTERNS:
            raise InputError(f"pattern {self.pattern!r:.40}: one of {', '.join(PATTERNS)}")
        if self.granularity < 1:
            raise InputError(f"granularity {self.granularity}: columns of a tile, 1 or more")

    @classmethod
    def two_four(cls) -> Sparsity:
        """The class of all 2:4 weights."""
        return cls(TWO_FOUR, 1, 0, Structure(0, 0, 0))

    @classmethod
    def of_tiles(cls, weight: np.ndarray, granularity: int) -> Sparsity:
        """The class of a weight [n, k] in tiles of `granularity` surviving columns."""
        tiles = tiles_of(np.asarray(weight).T != 0, granularity)
        columns = sum(len(tile.columns) for tile in tiles)
        lengths = np.array([len(tile.rows) for tile in tiles], np.int64)
        return cls(TILE_WISE, granularity, bucket(columns), Structure.of(lengths))

    @classmethod
    def of_vectors(cls, weight: np.ndarray, vector: int) -> Sparsity:
        """The class of a weight [n, k] in vectors of so many outputs."""
        kept = np.asarray(weight) != 0
        columns = bucket(int(np.count_nonzero(kept.any(axis=1))))
        lengths = from_dense(kept.astype(np.int8), vector).lengths
        return cls(VECTORS, vector, columns, Structure.of(lengths))

    def weights(self, most: int) -> int:
        """Weights that may not be zero, of at most so many."""
        if self.pattern == TWO_FOUR:
            return -(-most // 2)
        return min(most, self.structure.blocks * self.granularity)

    def tiles(self, n: int) -> int:
        """Most tiles of a weight [n, k]."""
        return -(-min(self.columns, n) // self.granularity)

    def tiles_of(self, weight: np.ndarray) -> tuple[Tile, ...]:
        """The tiles of a weight [n, k]."""
        return tiles_of(np.asarray(weight).T != 0, self.granularity)

    def check(self, weight: np.ndarray, name: str) -> None:
        """Raise InputError unless a weight [n, k] is of the class; name is of what has it."""
        if self.pattern == TWO_FOUR:
            if not is_two_four(weight):
                raise InputError(f"{name}: the weight has more than two of four neighbours along k")
            return
        of_pattern = Sparsity.of_vectors if self.pattern == VECTORS else Sparsity.of_tiles
        found = of_pattern(weight, self.granularity)
        within = (
            found.columns <= self.columns
            and found.structure.blocks <= self.structure.blocks
            and found.structure.longest_row <= self.structure.longest_row
        )
        if not within:
            raise InputError(f"{name}: the weight is of {found}, not of {self}")

    def pruned(self, rng: np.random.Generator, weight: np.ndarray) -> np.ndarray:
        """A weight [n, k] without what a random matrix of the class has not."""
        if self.pattern == TWO_FOUR:
            return random_two_four(rng, weight)
        n, k = weight.shape
        if self.pattern == VECTORS:
            return np.where(self._vectors(rng, n, k), weight, np.zeros((), weight.dtype))
        columns = np.sort(rng.permutation(n)[: min(self.columns, n)])
        kept = np.zeros((n, k), bool)
        lengths = self.structure.random_lengths(rng, max(1, self.tiles(n)), k)
        for number, length in enumerate(lengths):
            own = columns[number * self.granularity :][: self.granularity]
            kept[np.ix_(own, rng.permutation(k)[:length])] = True
        return np.where(kept, weight, np.zeros((), weight.dtype))

    def _vectors(self, rng: np.random.Generator, n: int, k: int) -> np.ndarray:
        """Which weights random vectors keep, bool [n, k]; outputs beyond `columns` have none."""
        rows = -(-min(self.columns, n) // self.granularity)
        lengths = self.structure.random_lengths(rng, rows, k)
        kept = np.zeros((rows, k), bool)
        for row, length in enumerate(lengths):
            kept[row, rng.permutation(k)[:length]] = True
        whole = np.zeros((n, k), bool)
        inside = kept.repeat(self.granularity, axis=0)[: min(self.columns, n)]
        whole[: len(inside)] = inside
        return whole

    def __str__(self) -> str:
        return self.pattern if self.pattern == TWO_FOUR else f"{self.pattern}-{self.granularity}"
