"""The register-tiled CPU convolution: one parallel loop of tasks, each a padded copy and tiles.

A tile keeps `pixels * vectors` accumulator vectors in registers; one dot step loads `vectors`
weight vectors, broadcasts one word of each pixel and issues `pixels * vectors` products. Tiles and
row blocks at a ragged end move back over outputs that others compute too (with the same result),
so that no tile has a tail; the output must therefore not overlap an input.
"""

from __future__ import annotations

import math

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.borders.classes import border_classes
from autoq.templates.borders.row import bias_row
from autoq.templates.cpu.conv.output import Output
from autoq.templates.cpu.conv.pack import packed_conv
from autoq.templates.cpu.conv.scratch import emit_scratch
from autoq.templates.cpu.conv.tile import Buffers, Tile, channel_start
from autoq.templates.cpu.conv.tiling import ConvTiling
from autoq.templates.cpu.frame import bind_scalars, task_kernel
from autoq.templates.cpu.vector import (
    cast,
    load,
    splat,
    store,
    unfused,
)
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.epilogue.cpu import VectorEpilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm

Registers = list[list[Buffer]]
"""A vector of accumulators for each pixel and vector of a tile."""


def build_conv(workload: Conv2d | Gemm, tiling: ConvTiling) -> PrimFunc:
    """The PrimFunc of a convolution; parameters as `Template.build` says."""
    specs = (*workload.inputs, *packed_conv(tiling), *workload.outputs)
    absent = dict.fromkeys(("residual", "row_scale", "scale", "float_bias", "fill"))

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        _emit_task(tiling, Buffers(**{**absent, **buffers}), task)

    return task_kernel(specs, tiling.tasks, emit)


def _emit_task(tiling: ConvTiling, buffers: Buffers, task: Expr) -> None:
    conv, config = tiling.conv, tiling.config
    block = task % tiling.row_tasks
    image = task // tiling.row_tasks % conv.n
    share = task // (tiling.row_tasks * conv.n)
    row = T.bind(_clamped(block, config.rows, conv.p))
    epilogue = VectorEpilogue(
        conv.epilogue, conv.in_dtype, tiling.dot.lanes, bind_scalars(buffers.scalars, SCALAR_NAMES)
    )
    if tiling.copies:
        source = T.alloc_buffer((tiling.scratch_elements,), tiling.scratch_dtype)
        emit_scratch(tiling, buffers.x, source, buffers.fill[0], image, row)
        origin = T.int32(0)
    else:
        source = buffers.x
        origin = T.bind((image * conv.h + row * conv.stride[0]) * tiling.row_elements)
    first = T.bind(_clamped(share, tiling.tiles_per_task, tiling.groups * tiling.channel_tiles))
    row_tiles, column_tiles = -(-config.rows // config.tile_p), -(-conv.q // config.tile_q)
    extents = [("packed", tiling.tiles_per_task), ("p", row_tiles), ("q", column_tiles)]
    if not config.channels_outer:
        extents = [*extents[1:], extents[0]]
    with T.grid(*(extent for _, extent in extents)) as indices:
        at = dict(zip((name for name, _ in extents), indices, strict=True))
        tile_row = T.bind(_clamped(at["p"], config.tile_p, config.rows))
        column = T.bind(_clamped(at["q"], config.tile_q, conv.q))
        packed = T.bind(first + at["packed"])
        pixel = origin + tile_row * tiling.row_step
        tile = Tile(
            row=row + tile_row,
            column=column,
            pixel=T.bind(pixel + column * tiling.column_step),
            out_pixel=T.bind((image * conv.p + row + tile_row) * conv.q + column),
            group=packed // tiling.channel_tiles,
            channel_tile=packed % tiling.channel_tiles,
            packed=packed,
        )
        _emit_tile(tiling, buffers, source, tile, epilogue)


def _clamped(index: Expr, step: int, extent: int) -> Expr:
    """First element of one of the `ceil(extent / step)` blocks; a ragged last one moves back."""
    if extent % step == 0:
        return index * step
    return T.min(index * step, extent - step)


def _emit_tile(
    tiling: ConvTiling, buffers: Buffers, source: Buffer, tile: Tile, epilogue: VectorEpilogue
) -> None:
    config, lanes = tiling.config, tiling.dot.lanes
    # One buffer a register: TVM keeps buffers under 1 KB on the stack, where LLVM finds that they
    # are registers, and takes larger ones from the heap.
    registers = [
        [T.alloc_buffer((lanes,), tiling.dot.accumulator) for _ in range(config.vectors)]
        for _ in range(config.pixels)
    ]
    if tiling.conv.epilogue.scale_group:
        registers = _emit_groups(tiling, buffers, source, registers, tile)
    else:
        _emit_start(tiling, buffers, registers, tile, 0)
        rows, columns, _ = tiling.reduction
        with T.grid(rows, columns, tiling.steps) as (r, s, step):
            _emit_step(tiling, buffers.weight, source, registers, tile, (r, s, step))
    for vector in range(config.vectors):
        output = Output(tiling, buffers, tile, vector, epilogue)
        for pixel in range(config.pixels):
            p, q = divmod(pixel, config.tile_q)
            out_pixel = tile.out_pixel + (p * tiling.conv.q + q)
            output.emit(load(registers[pixel][vector], 0, lanes), out_pixel)


def _emit_start(
    tiling: ConvTiling, buffers: Buffers, registers: Registers, tile: Tile, group: Expr | int
) -> None:
    """The bias of a group of the reduction, the only one where scales have no groups.

    That of each pixel's border where there are such.
    """
    config, lanes = tiling.config, tiling.dot.lanes
    if tiling.conv.border_bias:
        borders = border_classes(tiling.conv)
        for pixel in range(config.pixels):
            p, q = divmod(pixel, config.tile_q)
            border = T.bind(bias_row(*borders, tile.row + p, tile.column + q))
            for vector in range(config.vectors):
                start = _lanes_start(tiling, tile, vector, border)
                store(registers[pixel][vector], 0, load(buffers.bias, start, lanes), lanes)
        return
    for vector in range(config.vectors):
        bias = T.bind(load(buffers.bias, _lanes_start(tiling, tile, vector, group), lanes))
        for pixel in range(config.pixels):
            store(registers[pixel][vector], 0, bias, lanes)


def _lanes_start(tiling: ConvTiling, tile: Tile, vector: int, group: Expr | int) -> Expr:
    """Where a vector's numbers of a group or border begin, in `tiling.lanes_shape`s."""
    start = (tile.packed * tiling.config.vectors + vector) * tiling.dot.lanes
    return start + group * math.prod(tiling.lanes_shape)


def _emit_groups(
    tiling: ConvTiling, buffers: Buffers, source: Buffer, registers: Registers, tile: Tile
) -> Registers:
    """The reduction in groups, each scaled by its own numbers; returns the float32 sums."""
    config, lanes = tiling.config, tiling.dot.lanes
    sums = [
        [T.alloc_buffer((lanes,), "float32") for _ in range(config.vectors)]
        for _ in range(config.pixels)
    ]
    for pixel in sums:
        for register in pixel:
            store(register, 0, splat(T.float32(0), lanes), lanes)
    with T.serial(0, tiling.scale_groups) as group:
        _emit_start(tiling, buffers, registers, tile, group)
        each = tiling.steps // tiling.scale_groups
        with T.serial(0, each) as step:
            at = (0, 0, group * each + step)
            _emit_step(tiling, buffers.weight, source, registers, tile, at)
        for vector in range(config.vectors):
            start = _lanes_start(tiling, tile, vector, group)
            scale = T.bind(load(buffers.scale, start, lanes))
            for pixel in range(config.pixels):
                value = cast(load(registers[pixel][vector], 0, lanes), "float32", lanes)
                total = load(sums[pixel][vector], 0, lanes) + unfused(value * scale, lanes)
                store(sums[pixel][vector], 0, total, lanes)
    return sums


def _emit_step(
    tiling: ConvTiling,
    weight: Buffer,
    source: Buffer,
    registers: Registers,
    tile: Tile,
    at: tuple[Expr, Expr, Expr],
) -> None:
    conv, config, dot = tiling.conv, tiling.config, tiling.dot
    r, s, step = at
    _, rows, columns, steps, elements = tiling.weight_shape
    tap = (((tile.packed * rows + r) * columns + s) * steps + step) * elements
    weights = [
        T.bind(load(weight, tap + vector * dot.weight_lanes, dot.weight_lanes))
        for vector in range(config.vectors)
    ]
    offset = tile.pixel + r * (conv.dilation[0] * tiling.row_elements)
    offset = offset + s * (conv.dilation[1] * tiling.pixel_elements) + step * dot.depth
    if not dot.depthwise:
        offset = offset + tile.group * tiling.group_elements
    for pixel in range(config.pixels):
        p, q = divmod(pixel, config.tile_q)
        move = p * tiling.row_step + q * tiling.column_step
        shared = None if dot.depthwise else T.bind(dot.activation(source, offset + move))
        for vector in range(config.vectors):
            activation = shared
            if activation is None:
                channel = channel_start(tiling, tile.channel_tile, vector)
                activation = dot.activation(source, offset + move + channel)
            register = registers[pixel][vector]
            total = dot.accumulate(load(register, 0, dot.lanes), activation, weights[vector])
            store(register, 0, total, dot.lanes)
