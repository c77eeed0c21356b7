"""Numpy values as 32-bit registers hold them, and 2:4 sparse matrices as instructions take them."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.mma.fragments import CHUNK, INDEX_BITS


def to_words(values: np.ndarray, dtype: str) -> np.ndarray:
    """uint32 [...] of values [..., n], the first in the lowest bits, for n values of a register."""
    bits = element(dtype).bits
    fields = values.view(f"u{values.itemsize}").astype(np.uint32) & np.uint32(2**bits - 1)
    shifts = np.arange(values.shape[-1], dtype=np.uint32) * np.uint32(bits)
    return np.bitwise_or.reduce(fields << shifts, axis=-1)


def from_words(words: np.ndarray, dtype: str) -> np.ndarray:
    """The values [..., n] of registers uint32 [...], for types of whole bytes."""
    return np.ascontiguousarray(words)[..., None].view(element(dtype).dtype)


def _two_of_four(used: int) -> tuple[int, int]:
    """The places that are kept where the bits of `used` say what is not 0; -1 for three and four.

    Used places come first, then the others; the two taken are in order.
    """
    order = sorted(range(CHUNK), key=lambda place: not used >> place & 1)
    first, second = sorted(order[:2])
    return (first, second) if used.bit_count() <= 2 else (-1, -1)


_PLACES = np.array([_two_of_four(used) for used in range(1 << CHUNK)])


def compress(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A 2:4 sparse matrix [m, k] as kept values [m, k / 2] and places int64 [m, k / 4, 2].

    Places of a chunk of four are in ascending order, as the hardware wants them; where fewer than
    two elements are not 0, zeros are kept too. Raises ValueError where a chunk has three.
    """
    m, k = matrix.shape
    chunks = matrix.reshape(m, k // CHUNK, CHUNK)
    used = np.packbits(chunks != 0, axis=-1, bitorder="little")[..., 0]
    places = _PLACES[used]
    if bool((places < 0).any()):
        row, chunk = np.argwhere(places[..., 0] < 0)[0]
        raise ValueError(f"row {row} has more than two values in its chunk {chunk} of four")
    return np.take_along_axis(chunks, places, axis=-1).reshape(m, k // 2), places


def metadata_words(places: np.ndarray, fragment: np.ndarray) -> np.ndarray:
    """Registers of metadata uint32 [..., threads, 1] from places [..., m, k / 4, 2]."""
    pairs = places[..., 0] | places[..., 1] << INDEX_BITS
    fields = pairs[..., fragment[..., 0], fragment[..., 1]].astype(np.uint32)
    shifts = np.arange(fields.shape[-1], dtype=np.uint32) * np.uint32(2 * INDEX_BITS)
    return np.bitwise_or.reduce(fields << shifts, axis=-1)
