"""The padded copy of a task's input rows, so that the register tiles meet no image border."""

from __future__ import annotations

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.conv.tiling import ConvTiling
from autoq.templates.cpu.vector import WIDEST_BYTES, cast, for_chunks, load, loop, splat, store


def emit_scratch(
    tiling: ConvTiling, x: Buffer, scratch: Buffer, fill: Expr, image: Expr, row: Expr
) -> None:
    """Copies what output rows from `row` on read into `scratch`, with `fill` outside the image.

    x and scratch are flat; `scratch` is [scratch_rows, columns, groups, group_elements].
    """
    conv = tiling.conv
    if tiling.subsampled:
        _copy_subsampled(tiling, x, scratch, image, row)
        return
    left = min(conv.padding[1], tiling.columns)
    inside = max(min(conv.w, tiling.columns - left), 0)
    pixel = tiling.pixel_elements
    with loop(tiling.scratch_rows) as line:
        start = line * tiling.row_elements
        source = row * conv.stride[0] + line - conv.padding[0]
        with T.If(T.And(source >= 0, source < conv.h)):
            with T.Then():
                _fill(scratch, start, left * pixel, fill)
                first = (image * conv.h + source) * (conv.w * conv.c)
                _copy_row(tiling, x, first, scratch, start + left * pixel, inside)
                outside = (tiling.columns - left - inside) * pixel
                _fill(scratch, start + (left + inside) * pixel, outside, fill)
            with T.Else():
                _fill(scratch, start, tiling.row_elements, fill)


def _copy_subsampled(
    tiling: ConvTiling, x: Buffer, scratch: Buffer, image: Expr, row: Expr
) -> None:
    """Every stride-th pixel of every stride-th row."""
    conv = tiling.conv
    with T.grid(tiling.scratch_rows, conv.q) as (line, column):
        start = line * tiling.row_elements + column * tiling.pixel_elements
        source = (image * conv.h + (row + line) * conv.stride[0]) * conv.w
        _copy_row(tiling, x, (source + column * conv.stride[1]) * conv.c, scratch, start, 1)


def _widest(dtype: str) -> int:
    return WIDEST_BYTES // np.dtype(dtype).itemsize


def _fill(scratch: Buffer, start: Expr, extent: int, fill: Expr) -> None:
    for_chunks(
        extent,
        _widest(scratch.dtype),
        lambda at, lanes: store(scratch, start + at, splat(fill, lanes), lanes),
    )


def _copy_row(
    tiling: ConvTiling, x: Buffer, first: Expr, scratch: Buffer, start: Expr, pixels: int
) -> None:
    """Adjacent pixels of a row; channels are spread out where a group is padded to whole steps."""
    channels = tiling.conv.c // tiling.conv.groups
    if channels == tiling.group_elements:
        _copy(tiling, x, first, scratch, start, pixels * tiling.conv.c)
        return
    with loop(pixels * tiling.conv.groups) as part:
        target = start + part * tiling.group_elements
        _copy(tiling, x, first + part * channels, scratch, target, channels)


def _copy(
    tiling: ConvTiling, x: Buffer, first: Expr, scratch: Buffer, start: Expr, extent: int
) -> None:
    def chunk(at: Expr | int, lanes: int) -> None:
        value = load(x, first + at, lanes)
        if tiling.dot.signed_shift:
            unsigned = T.reinterpret("uint8" if lanes == 1 else f"uint8x{lanes}", value)
            value = unsigned ^ splat(T.uint8(tiling.dot.signed_shift), lanes)
        if tiling.dot.operand:
            value = cast(value, tiling.dot.operand, lanes)
        store(scratch, start + at, value, lanes)

    for_chunks(extent, _widest(scratch.dtype), chunk)
