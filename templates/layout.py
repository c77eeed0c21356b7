"""Layouts of activations in memory: NHWC, and the NHWCnc of the paper's section 3.3.

NHWCnc is [n / 8, h, w, c / 16, 8 images, 16 channels] of bytes. Its last two axes are the rows and
columns of the matrix that the tensor cores' loads take: 8 rows of 16 bytes. In NHWC those rows lie
an image (or a pixel) apart, so that a matrix is 8 accesses of 16 bytes, half of the 32 that memory
moves at least; in NHWCnc a matrix is 128 consecutive bytes.
"""

from __future__ import annotations

import numpy as np

NHWC, NHWCNC = "NHWC", "NHWCnc"
LAYOUTS = (NHWC, NHWCNC)

BLOCK_IMAGES = 8
"""Images of the innermost block of NHWCnc: rows of an 8 x 16 byte matrix."""
BLOCK_CHANNELS = 16
"""Channels of the innermost block of NHWCnc, one byte each."""
BLOCK_BYTES = BLOCK_IMAGES * BLOCK_CHANNELS

_BYTES = ("int8", "uint8")


def fits(n: int, c: int, dtype: str) -> bool:
    """Whether n images of c channels have an NHWCnc form: whole blocks of bytes only."""
    return dtype in _BYTES and n % BLOCK_IMAGES == 0 and c % BLOCK_CHANNELS == 0


def shape_in(shape: tuple[int, int, int, int], layout: str) -> tuple[int, ...]:
    """Shape of an array in a layout, given its (n, h, w, c)."""
    if layout == NHWC:
        return shape
    n, h, w, c = shape
    return (n // BLOCK_IMAGES, h, w, c // BLOCK_CHANNELS, BLOCK_IMAGES, BLOCK_CHANNELS)


def from_nhwc(array: np.ndarray, layout: str) -> np.ndarray:
    """An array [n, h, w, c] in a layout, contiguous."""
    if layout == NHWC:
        return np.ascontiguousarray(array)
    n, h, w, c = array.shape
    blocks = array.reshape(
        n // BLOCK_IMAGES, BLOCK_IMAGES, h, w, c // BLOCK_CHANNELS, BLOCK_CHANNELS
    )
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 4, 1, 5))


def to_nhwc(array: np.ndarray, layout: str) -> np.ndarray:
    """The array [n, h, w, c], contiguous, that `from_nhwc` gave."""
    if layout == NHWC:
        return np.ascontiguousarray(array)
    blocks, h, w, channels, _, _ = array.shape
    images = array.transpose(0, 4, 1, 2, 3, 5)
    return np.ascontiguousarray(images).reshape(
        blocks * BLOCK_IMAGES, h, w, channels * BLOCK_CHANNELS
    )
