"""Shared-memory swizzles of TMA and wgmma: rows of 16, 32, 64 or 128 bytes, K-major.

The hardware exchanges 16-byte chunks by absolute shared-memory address: address bits 7.. are
XORed into bits 4.., three of them for rows of 128 bytes, two for 64, one for 32, none for 16.
"""

from __future__ import annotations

import numpy as np

ROW_BYTES = (16, 32, 64, 128)
"""Row widths that have a swizzle of the same width (16: none)."""

_CHUNK_BYTES = 16
_MODES = {16: 0, 32: 1, 64: 2, 128: 3}


def swizzle_mode(row_bytes: int) -> int:
    """CUtensorMapSwizzle of a row width; TVM's descriptor encoder counts the same way."""
    return _MODES[row_bytes]


def swizzle_period(row_bytes: int) -> int:
    """Bytes after which the pattern repeats; tiles start at a multiple of it."""
    return max(8 * row_bytes, 128)


def swizzled_address(address: int, row_bytes: int) -> int:
    """Where the byte of an unswizzled tile at `address` really lies; also of numpy arrays."""
    mask = (1 << _MODES[row_bytes]) - 1
    return address ^ (((address >> 7) & mask) << 4)


def shared_image(rows: np.ndarray) -> np.ndarray:
    """Rows [count, n] of any whole-byte dtype as [count * n], as they lie in shared memory.

    A plain copy of the bytes then is what TMA would swizzle; whole patterns only. A row's bytes are
    one of `ROW_BYTES`.
    """
    lying = np.ascontiguousarray(rows).view(np.uint8)
    row_bytes = lying.shape[1]
    chunks = swizzle_period(row_bytes) // _CHUNK_BYTES
    places = [swizzled_address(i * _CHUNK_BYTES, row_bytes) // _CHUNK_BYTES for i in range(chunks)]
    lying = np.take(lying.reshape(-1, chunks, _CHUNK_BYTES), places, axis=1)
    return lying.reshape(-1).view(rows.dtype)
