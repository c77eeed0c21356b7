"""Tables of 256 entries: any function of one value of 8 or 4 bits."""

from __future__ import annotations

import numpy as np

ENTRIES = 256
"""Entries of a table: one for each byte, also where a type has only 16 values."""


def look_up(table: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The entries of `table` [256] that the integers x of 8 or unpacked 4 bits select."""
    return table[np.ascontiguousarray(x).view(np.uint8)]
