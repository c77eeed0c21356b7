"""Words of y, each put together of two words of a tile's outputs and of what no tile computes."""

from __future__ import annotations

import numpy as np

WORD_BYTES = 4
_SHARED_SHIFT = 30


def pack_words(
    spans: np.ndarray, columns: np.ndarray, fill: np.ndarray, entries: np.ndarray
) -> np.ndarray:
    """Fill in the entries int32 [words, 4]; each tile's first one and their numbers, [tiles, 2].

    Words that are a tile's alone come first, then at most two that it shares with other tiles,
    whose number is in the two highest bits.

    spans: of each tile the first column of y that it writes, and how many. columns: [tiles, width]
    which column of y each of the tile's is, fill's length for none. fill: the outputs [n] of
    columns that no tile has.

    An entry holds the word of a row of y; which bytes of two words of the tile's outputs to pick
    in its lower half, and in the upper one which of these, or of what follows, to take; the bytes
    of columns that no tile has; the first of the two words, and above it a bit for each byte that
    is the tile's to write.
    """
    size, n = fill.dtype.itemsize, len(fill)
    filled = fill.view(np.uint8).reshape(n, size)
    found = np.zeros(spans.shape, np.int32)
    at = 0
    for number, (first, count) in enumerate(spans):
        if not count:
            continue
        place = np.full(n, -1, np.int64)
        own = columns[number][columns[number] < n]
        place[own] = np.arange(len(own))
        words = np.arange(first * size // WORD_BYTES, -(-(first + count) * size // WORD_BYTES))
        # Of each byte of each word its column, and where the tile's outputs have it.
        byte = words[:, None] * WORD_BYTES + np.arange(WORD_BYTES)
        column, within = byte // size, byte % size
        written = (column >= first) & (column < first + count)
        source = np.where(written & (place[column] >= 0), place[column] * size + within, -1)
        least = np.where(source >= 0, source, np.iinfo(np.int64).max).min(axis=1)
        base = np.where((source >= 0).any(axis=1), least // WORD_BYTES, 0)
        picks = np.where(source >= 0, source - base[:, None] * WORD_BYTES, 0)
        takes = np.where(source >= 0, np.arange(WORD_BYTES), WORD_BYTES + np.arange(WORD_BYTES))
        alone = written.all(axis=1)
        entry = np.empty((len(words), 4), np.uint32)
        entry[:, 0] = words
        entry[:, 1] = _nibbles(picks) | _nibbles(takes) << 16
        entry[:, 2] = np.ascontiguousarray(filled[column, within]).view(np.uint32)[:, 0]
        entry[:, 3] = base | (written << np.arange(WORD_BYTES)).sum(axis=1) << 16
        entries[at : at + len(words)] = entry[np.argsort(~alone, kind="stable")].view(np.int32)
        counts = np.uint32(alone.sum() | (~alone).sum() << _SHARED_SHIFT)
        found[number] = at, counts.view(np.int32)
        at += len(words)
    return found


def _nibbles(values: np.ndarray) -> np.ndarray:
    """Four values [words, 4] as PRMT takes them, the first in the lowest bits."""
    return (values << 4 * np.arange(WORD_BYTES)).sum(axis=1)
