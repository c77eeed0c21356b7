"""What a pattern of zeros has to say: the figures of a weight, and random weights of figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autoq.templates.sparse.structure import Structure


@dataclass(frozen=True)
class Figures:
    """Upper bounds of what a weight [n, k] keeps.

    columns: outputs that are not all zero. structure: of the pattern's rows, such as tiles or
    vector rows. beside: a second one, of the patterns that have two.
    """

    columns: int
    structure: Structure
    beside: Structure | None = None

    def hold(self, other: Figures) -> bool:
        """Whether a weight of the other figures is within these."""
        return self.columns >= other.columns and all(
            own.blocks >= found.blocks and own.longest_row >= found.longest_row
            for own, found in ((self.structure, other.structure), (self.beside, other.beside))
            if own is not None and found is not None
        )


@dataclass(frozen=True)
class Pattern:
    """A pattern of zeros.

    figures(weight [n, k], granularity): what the weight keeps; raises InputError for a weight that
    the pattern has no place for. random(rng, figures, granularity, (n, k)): bool [n, k], what a
    random weight keeps that comes up to the figures, and not beyond. weights(figures, granularity,
    most): weights that may not be zero, of at most so many.
    """

    name: str
    figures: Callable[[np.ndarray, int], Figures]
    random: Callable[[np.random.Generator, Figures, int, tuple[int, int]], np.ndarray]
    weights: Callable[[Figures, int, int], int]
