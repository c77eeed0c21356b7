"""Layouts of activations in memory: NHWC, and the NHWCnc of the paper's section 3.3.

NHWCnc is [n / 8, h, w, c / 16, 8 images, 16 channels] of bytes, and of 4-bit values, two of which
share a byte, [n / 8, h, w, c / 32, 8 images, 32 channels]. Its last two axes are the rows and
columns of the matrix that the tensor cores' loads take: 8 rows of 16 bytes. In NHWC those rows lie
an image (or a pixel) apart, so that a matrix is 8 accesses of 16 bytes, half of the 32 that memory
moves at least; in NHWCnc a matrix is 128 consecutive bytes.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.element import element

NHWC, NHWCNC = "NHWC", "NHWCnc"
LAYOUTS = (NHWC, NHWCNC)

BLOCK_IMAGES = 8
"""Images of the innermost block of NHWCnc: rows of an 8 x 16 byte matrix."""
ROW_BYTES = 16
"""Bytes of an image's channels in the innermost block of NHWCnc."""
BLOCK_BYTES = BLOCK_IMAGES * ROW_BYTES


def block_channels(dtype: str) -> int:
    """Channels of the innermost block of NHWCnc: 16 of a byte each, or 32 of 4 bits."""
    return ROW_BYTES * 8 // element(dtype).bits


def fits(n: int, c: int, dtype: str) -> bool:
    """Whether n images of c channels have an NHWCnc form: whole blocks of 8 or 4 bits only."""
    return element(dtype).quantised and n % BLOCK_IMAGES == 0 and c % block_channels(dtype) == 0


def shape_in(shape: tuple[int, int, int, int], layout: str, dtype: str) -> tuple[int, ...]:
    """Shape in a layout of an array of values of a dtype, given its (n, h, w, c)."""
    if layout == NHWC:
        return shape
    n, h, w, c = shape
    channels = block_channels(dtype)
    return (n // BLOCK_IMAGES, h, w, c // channels, BLOCK_IMAGES, channels)


def from_nhwc(array: np.ndarray, layout: str, dtype: str) -> np.ndarray:
    """An array [n, h, w, c] of unpacked values in a layout, contiguous.

    dtype is that of the values in memory, which decides how many channels a block holds.
    """
    if layout == NHWC:
        return np.ascontiguousarray(array)
    n, h, w, c = array.shape
    channels = block_channels(dtype)
    blocks = array.reshape(n // BLOCK_IMAGES, BLOCK_IMAGES, h, w, c // channels, channels)
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 4, 1, 5))


def to_nhwc(array: np.ndarray, layout: str) -> np.ndarray:
    """The array [n, h, w, c], contiguous, that `from_nhwc` gave."""
    if layout == NHWC:
        return np.ascontiguousarray(array)
    blocks, h, w, groups, images, channels = array.shape
    nhwc = np.ascontiguousarray(array.transpose(0, 4, 1, 2, 3, 5))
    return nhwc.reshape(blocks * images, h, w, groups * channels)
