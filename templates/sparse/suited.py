"""How long the vectors of a matrix may be without storing many more values than short ones do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_GROWTH = 1.1
"""Longer vectors are gathered and multiplied with less work each, which pays for so many more."""
_EMPTY = 64
"""Places of a matrix for each of its entries up to which all are looked at."""


def suited_vector(rows: np.ndarray, columns: np.ndarray, width: int, lengths: Sequence[int]) -> int:
    """The longest of some vector lengths that stores at most `MOST_GROWTH` what the shortest does.

    rows, columns: of the entries of a matrix with `width` columns. lengths ascend.
    """
    stored = [_places(rows // length, columns, width) * length for length in lengths]
    most = MOST_GROWTH * stored[0]
    return max(length for length, count in zip(lengths, stored, strict=True) if count <= most)


def _places(rows: np.ndarray, columns: np.ndarray, width: int) -> int:
    """How many different pairs of rows and columns there are."""
    height = int(rows.max(initial=-1)) + 1
    if height * width > _EMPTY * len(rows):
        return len(np.unique(rows.astype(np.int64) * width + columns))
    held = np.zeros((height, width), bool)  # a tenth of the time that sorting takes
    held[rows, columns] = True
    return int(np.count_nonzero(held))
