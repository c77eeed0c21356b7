"""Which output pixel a row of the implicit GEMM is, and where its activations lie in memory.

In NHWC rows run over images, output rows and columns. Where one side is NHWCnc, 8 images of a
pixel are 8 neighbouring rows: a matrix of ldmatrix then fills from 128 consecutive bytes, and so
do the stores of 8 rows of a fragment. All functions take integers, numpy arrays and index
expressions alike: only +, *, // and % of non-negative values.
"""

from __future__ import annotations

from typing import Any

from autoq.templates.layout import (
    BLOCK_BYTES,
    BLOCK_CHANNELS,
    BLOCK_IMAGES,
    NHWC,
    NHWCNC,
)
from autoq.templates.storage import is_four_bit, stored, stored_bytes
from autoq.templates.workload import Conv2d


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

    Channel steps are whole blocks of 16 in NHWCnc.
    """
    if conv.in_layout == NHWC:
        return stored_bytes((conv.c,), conv.in_dtype), 1
    return conv.c * BLOCK_IMAGES, BLOCK_IMAGES


def image_start(conv: Conv2d, image: Any) -> Any:
    """Byte of x where channel 0 of an image's first pixel lies."""
    if conv.in_layout == NHWC:
        return image * (conv.h * conv.w * stored_bytes((conv.c,), conv.in_dtype))
    whole = image // BLOCK_IMAGES * (conv.h * conv.w * conv.c * BLOCK_IMAGES)
    return whole + image % BLOCK_IMAGES * BLOCK_CHANNELS


def output_start(conv: Conv2d, dtype: str, row: Any) -> Any:
    """Element of y, or of a residual of a dtype, where channel 0 of a row lies as it is stored."""
    if conv.out_layout == NHWC:
        (pitch,), _ = stored((conv.k,), dtype)
        if not images_innermost(conv):
            return row * pitch
        return pixel_start(conv, dtype, *pixel_of_row(conv, row))
    return row // BLOCK_IMAGES * (conv.k * BLOCK_IMAGES) + row % BLOCK_IMAGES * BLOCK_CHANNELS


def pixel_start(conv: Conv2d, dtype: str, image: Any, p: Any, q: Any) -> Any:
    """Element where channel 0 of an output pixel lies, as in `output_start`."""
    if conv.out_layout == NHWC:
        (pitch,), _ = stored((conv.k,), dtype)
        return ((image * conv.p + p) * conv.q + q) * pitch
    pixel = (image // BLOCK_IMAGES * conv.p + p) * conv.q + q
    return pixel * (conv.k * BLOCK_IMAGES) + image % BLOCK_IMAGES * BLOCK_CHANNELS


def output_channel(conv: Conv2d, dtype: str, channel: Any) -> Any:
    """Elements from a row's channel 0 to another channel, which starts a byte."""
    if conv.out_layout == NHWC:
        return channel // 2 if is_four_bit(dtype) else channel
    return channel // BLOCK_CHANNELS * BLOCK_BYTES + channel % BLOCK_CHANNELS
