"""Which output pixel a row of the implicit GEMM is, and where its activations lie in memory.

In NHWC rows run over images, output rows and columns. Where one side is NHWCnc, 8 images of a
pixel are 8 neighbouring rows: a matrix of ldmatrix then fills from 128 consecutive bytes, and so
do the stores of 8 rows of a fragment. All functions take integers, numpy arrays and index
expressions alike: only +, *, // and % of non-negative values.
"""

from __future__ import annotations

from typing import Any

from autoq.templates.arrays.layout import (
    BLOCK_BYTES,
    BLOCK_IMAGES,
    NHWC,
    NHWCNC,
    ROW_BYTES,
    block_channels,
)
from autoq.templates.arrays.storage import is_four_bit, stored, stored_bytes
from autoq.templates.operators.conv2d import Conv2d


def images_innermost(conv: Conv2d) -> bool:
    """Whether neighbouring rows are images of one pixel."""
    return NHWCNC in (conv.in_layout, conv.out_layout)


def pixel_of_row(conv: Conv2d, row: Any) -> tuple[Any, Any, Any]:
    """(image, output row, output column) of a row."""
    if not images_innermost(conv):
        return row // (conv.p * conv.q), row // conv.q % conv.p, row % conv.q
    block = row // BLOCK_IMAGES
    image = block // (conv.p * conv.q) * BLOCK_IMAGES + row % BLOCK_IMAGES
    return image, block // conv.q % conv.p, block % conv.q


def input_pitches(conv: Conv2d) -> tuple[int, int]:
    """Bytes of x from one pixel to the next, and a channel's byte's share in a step of them.

    Channel steps are whole blocks of 16 bytes in NHWCnc.
    """
    pixel_bytes = stored_bytes((conv.c,), conv.in_dtype)
    if conv.in_layout == NHWC:
        return pixel_bytes, 1
    return pixel_bytes * BLOCK_IMAGES, BLOCK_IMAGES


def image_start(conv: Conv2d, image: Any) -> Any:
    """Byte of x where channel 0 of an image's first pixel lies."""
    image_bytes = conv.h * conv.w * stored_bytes((conv.c,), conv.in_dtype)
    if conv.in_layout == NHWC:
        return image * image_bytes
    return image // BLOCK_IMAGES * (image_bytes * BLOCK_IMAGES) + image % BLOCK_IMAGES * ROW_BYTES


def output_start(conv: Conv2d, dtype: str, row: Any) -> Any:
    """Element of y, or of a residual of a dtype, where channel 0 of a row lies as it is stored."""
    (pitch,), _ = stored((conv.k,), dtype)
    if conv.out_layout == NHWC:
        if not images_innermost(conv):
            return row * pitch
        return pixel_start(conv, dtype, *pixel_of_row(conv, row))
    return row // BLOCK_IMAGES * (pitch * BLOCK_IMAGES) + row % BLOCK_IMAGES * ROW_BYTES


def pixel_start(conv: Conv2d, dtype: str, image: Any, p: Any, q: Any) -> Any:
    """Element where channel 0 of an output pixel lies, as in `output_start`."""
    (pitch,), _ = stored((conv.k,), dtype)
    if conv.out_layout == NHWC:
        return ((image * conv.p + p) * conv.q + q) * pitch
    pixel = (image // BLOCK_IMAGES * conv.p + p) * conv.q + q
    return pixel * (pitch * BLOCK_IMAGES) + image % BLOCK_IMAGES * ROW_BYTES


def output_channel(conv: Conv2d, dtype: str, channel: Any) -> Any:
    """Elements from a row's channel 0 to another channel, which starts a byte."""
    if conv.out_layout == NHWC:
        return channel // 2 if is_four_bit(dtype) else channel
    channels = block_channels(dtype)
    in_block = channel % channels
    return channel // channels * BLOCK_BYTES + (in_block // 2 if is_four_bit(dtype) else in_block)
