"""What is known to be zero of a constant weight: a pattern, and the class of its zeros."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.field_types import require_types
from autoq.templates.sparse.patterns import (
    elements,
    tile_wise,
    tiles_and_elements,
    two_four,
    two_four_tiles,
    vectors,
)
from autoq.templates.sparse.patterns.pattern import Figures
from autoq.templates.sparse.pruned_matrix import Tile
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.tiles import tiles_of

_KNOWN = {
    module.PATTERN.name: module.PATTERN
    for module in (tile_wise, two_four, vectors, elements, tiles_and_elements, two_four_tiles)
}

TILE_WISE, TWO_FOUR, VECTORS, ELEMENTS, TILES_AND_ELEMENTS, TWO_FOUR_TILES = PATTERNS = tuple(
    _KNOWN
)
"""The patterns, by their names in keys; `patterns/` says what each of them is."""

IN_TILES = (TILE_WISE, TWO_FOUR_TILES)
"""Patterns whose weights are all in tiles."""

_WITH_BESIDE = (ELEMENTS, TILES_AND_ELEMENTS, TWO_FOUR_TILES)


@dataclass(frozen=True)
class Sparsity:
    """The class of a pruned weight [n, k]; as a matrix it is [k, n], columns are outputs.

    pattern: one of `PATTERNS`. granularity: columns of a tile, or outputs of a vector. columns:
    most columns that are not all zero. structure: of the tiles, blocks being rows of a tile, of
    rows of vectors, or of the single weights of outputs. beside: of patterns with two parts, the
    class of the other one; of 2:4 in tiles that of the tiles' groups of rows. All are upper bounds,
    so that records and kernels serve every weight of the class. Of 2:4 there is one class,
    `two_four()`.

    The weight itself stays dense among a workload's constants: dense kernels multiply by its zeros,
    others find their tiles, vectors or single weights in it.

    Raises InputError for another pattern, a granularity of 0 and one part too few or too many.
    """

    pattern: str
    granularity: int
    columns: int
    structure: Structure
    beside: Structure | None = None

    def __post_init__(self) -> None:
        require_types(self)
        if self.pattern not in PATTERNS:
            raise InputError(f"pattern {self.pattern!r:.40}: one of {', '.join(PATTERNS)}")
        if self.granularity < 1:
            raise InputError(f"granularity {self.granularity}: columns of a tile, 1 or more")
        if (self.beside is not None) != (self.pattern in _WITH_BESIDE):
            names = ", ".join(_WITH_BESIDE)
            raise InputError(f"beside {self.beside}: a structure of {names}, and of these alone")

    @classmethod
    def two_four(cls) -> Sparsity:
        """The class of all 2:4 weights."""
        return cls(TWO_FOUR, 1, 0, Structure(0, 0, 0))

    @classmethod
    def of_tiles(cls, weight: np.ndarray, granularity: int) -> Sparsity:
        """The class of a weight [n, k] in tiles of `granularity` surviving columns."""
        return cls.of(TILE_WISE, weight, granularity)

    @classmethod
    def of_vectors(cls, weight: np.ndarray, vector: int) -> Sparsity:
        """The class of a weight [n, k] in vectors of so many outputs."""
        return cls.of(VECTORS, weight, vector)

    @classmethod
    def of_elements(cls, weight: np.ndarray) -> Sparsity:
        """The class of a weight [n, k] of single values."""
        return cls.of(ELEMENTS, weight, 1)

    @classmethod
    def of(cls, pattern: str, weight: np.ndarray, granularity: int) -> Sparsity:
        """The class of a weight [n, k] in a pattern; InputError where it is not of it."""
        found = _KNOWN[pattern].figures(weight, granularity)
        return cls(pattern, granularity, found.columns, found.structure, found.beside)

    @property
    def figures(self) -> Figures:
        """The bounds alone."""
        return Figures(self.columns, self.structure, self.beside)

    @property
    def tiles_alone(self) -> Sparsity:
        """The class of the tiles, where single weights stand beside them or groups are known."""
        return replace(self, pattern=TILE_WISE, beside=None)

    @property
    def less_known(self) -> Sparsity | None:
        """The class that tells less of the same weights; None where that is nothing."""
        return self.tiles_alone if self.pattern == TWO_FOUR_TILES else None

    @property
    def in_vectors(self) -> tuple[int, Structure] | None:
        """Outputs of the vectors that hold all weights, and their class; None of other patterns."""
        if self.pattern == ELEMENTS:
            assert self.beside is not None
            return elements.VECTOR, self.beside
        return (self.granularity, self.structure) if self.pattern == VECTORS else None

    def key_fields(self) -> dict[str, Any]:
        """Its part of a key: `beside` came later, others' keys stay."""
        fields: dict[str, Any] = {
            "pattern": self.pattern, "granularity": self.granularity, "columns": self.columns,
            "structure": _key_of(self.structure),
        }  # fmt: skip
        return fields if self.beside is None else {**fields, "beside": _key_of(self.beside)}

    def weights(self, most: int) -> int:
        """Weights that may not be zero, of at most so many."""
        return _KNOWN[self.pattern].weights(self.figures, self.granularity, most)

    def tiles(self, n: int) -> int:
        """Most tiles of a weight [n, k]."""
        return -(-min(self.columns, n) // self.granularity)

    def tiles_of(self, weight: np.ndarray) -> tuple[Tile, ...]:
        """The tiles of a weight [n, k]."""
        return tiles_of(np.asarray(weight).T != 0, self.granularity)

    def check(self, weight: np.ndarray, name: str) -> None:
        """Raise InputError unless a weight [n, k] is of the class; name is of what has it."""
        try:
            found = Sparsity.of(self.pattern, weight, self.granularity)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        if not self.figures.hold(found.figures):
            raise InputError(f"{name}: the weight is of {found}, not of {self}")

    def pruned(self, rng: np.random.Generator, weight: np.ndarray) -> np.ndarray:
        """A weight [n, k] without what a random matrix of the class has not."""
        n, k = weight.shape
        kept = _KNOWN[self.pattern].random(rng, self.figures, self.granularity, (n, k))
        return np.where(kept, weight, np.zeros((), weight.dtype))

    def __str__(self) -> str:
        named = self.pattern in (TWO_FOUR, ELEMENTS)
        return self.pattern if named else f"{self.pattern}-{self.granularity}"


def _key_of(structure: Structure) -> dict[str, int]:
    """What a key says of a structure."""
    return {
        "blocks": structure.blocks,
        "mean_row": structure.mean_row,
        "longest_row": structure.longest_row,
    }
