"""The register-tiled CPU convolution: one parallel loop of tasks, each a padded copy and tiles.

A tile keeps `pixels * vectors` accumulator vectors in registers; one dot step loads `vectors`
weight vectors, broadcasts one word of each pixel and issues `pixels * vectors` products. Tiles and
row blocks at a ragged end move back over outputs that others compute too (with the same result),
so that no tile has a tail; the output must therefore not overlap an input.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cpu.conv_epilogue import VectorEpilogue, bind_scalars
from autoq.templates.cpu.conv_layout import ConvLayout
from autoq.templates.cpu.conv_scratch import emit_scratch
from autoq.templates.cpu.vector import flat, load, loop, store, tasks_loop
from autoq.templates.workload import Conv2d, Gemm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc


@dataclass(frozen=True)
class _Operands:
    """Flat views of the kernel's parameters; None for those that it does not have."""

    x: Buffer
    residual: Buffer | None
    weight: Buffer
    bias: Buffer
    scale: Buffer | None
    scalars: Buffer
    fill: Buffer | None
    y: Buffer


@dataclass(frozen=True)
class _Tile:
    """Where a register tile stands: flat element offsets and channel indices."""

    pixel: Expr
    out_pixel: Expr
    group: Expr
    channel_tile: Expr
    packed: Expr


def build_conv(workload: Conv2d | Gemm, layout: ConvLayout) -> PrimFunc:
    """The PrimFunc of a convolution; parameters as `Template.build` says."""
    with IRBuilder() as builder, T.prim_func():
        T.func_name("main")
        T.func_attr({"tirx.noalias": True})
        parameters = _parameters(workload, layout)
        with tasks_loop(layout.tasks) as task:
            views = {name: flat(buffer) for name, buffer in parameters.items()}
            absent = dict.fromkeys(("residual", "scale", "fill"))
            _emit_task(layout, _Operands(**{**absent, **views}), task)
    return builder.get()


def _parameters(workload: Conv2d | Gemm, layout: ConvLayout) -> dict[str, Buffer]:
    epilogue, conv = workload.epilogue, layout.conv
    shapes: dict[str, tuple[tuple[int, ...], str]] = {"x": (workload.x_shape, conv.in_dtype)}
    if epilogue.residual_dtype:
        shapes["residual"] = (workload.y_shape, epilogue.residual_dtype)
    shapes["weight"] = (layout.weight_shape, conv.weight_dtype)
    shapes["bias"] = (layout.lanes_shape, layout.dot.accumulator)
    if conv.in_dtype != "float32" and epilogue.out_dtype != "int32":
        shapes["scale"] = (layout.lanes_shape, "float32")
    shapes["scalars"] = ((8,), "float32")
    if layout.copies:
        shapes["fill"] = ((1,), layout.scratch_dtype)
    shapes["y"] = (workload.y_shape, epilogue.out_dtype)
    return {name: T.arg(name, T.buffer(*shape)) for name, shape in shapes.items()}


def _emit_task(layout: ConvLayout, operands: _Operands, task: Expr) -> None:
    conv, config = layout.conv, layout.config
    block = task % layout.row_tasks
    image = task // layout.row_tasks % conv.n
    share = task // (layout.row_tasks * conv.n)
    row = T.bind(_clamped(block, config.rows, conv.p))
    epilogue = VectorEpilogue(
        conv.epilogue, conv.in_dtype, layout.dot.lanes, bind_scalars(operands.scalars)
    )
    if layout.copies:
        source = T.alloc_buffer((layout.scratch_elements,), layout.scratch_dtype)
        emit_scratch(layout, operands.x, source, operands.fill[0], image, row)
        origin = T.int32(0)
    else:
        source = operands.x
        origin = T.bind((image * conv.h + row * conv.stride[0]) * layout.row_elements)
    first = T.bind(_clamped(share, layout.tiles_per_task, layout.groups * layout.channel_tiles))
    row_tiles, column_tiles = -(-config.rows // config.tile_p), -(-conv.q // config.tile_q)
    extents = [("packed", layout.tiles_per_task), ("p", row_tiles), ("q", column_tiles)]
    if not config.channels_outer:
        extents = [*extents[1:], extents[0]]
    with T.grid(*(extent for _, extent in extents)) as indices:
        at = dict(zip((name for name, _ in extents), indices, strict=True))
        tile_row = T.bind(_clamped(at["p"], config.tile_p, config.rows))
        column = T.bind(_clamped(at["q"], config.tile_q, conv.q))
        packed = T.bind(first + at["packed"])
        pixel = origin + tile_row * (conv.stride[0] * layout.row_elements)
        tile = _Tile(
            pixel=T.bind(pixel + column * (conv.stride[1] * layout.pixel_elements)),
            out_pixel=T.bind((image * conv.p + row + tile_row) * conv.q + column),
            group=packed // layout.channel_tiles,
            channel_tile=packed % layout.channel_tiles,
            packed=packed,
        )
        _emit_tile(layout, operands, source, tile, epilogue)


def _clamped(index: Expr, step: int, extent: int) -> Expr:
    """First element of one of the `ceil(extent / step)` blocks; a ragged last one moves back."""
    if extent % step == 0:
        return index * step
    return T.min(index * step, extent - step)


def _emit_tile(
    layout: ConvLayout, operands: _Operands, source: Buffer, tile: _Tile, epilogue: VectorEpilogue
) -> None:
    config, lanes = layout.config, layout.dot.lanes
    size = config.pixels * config.vectors * lanes
    registers = T.alloc_buffer((size,), layout.dot.accumulator, scope="local")
    for vector in range(config.vectors):
        start = (tile.packed * config.vectors + vector) * lanes
        bias = T.bind(load(operands.bias, start, lanes))
        for pixel in range(config.pixels):
            store(registers, (pixel * config.vectors + vector) * lanes, bias, lanes)
    rows, columns, _ = layout.reduction
    with T.grid(rows, columns, layout.steps) as (r, s, step):
        _emit_step(layout, operands.weight, source, registers, tile, (r, s, step))
    # Leaving the registers through a buffer keeps the epilogue a loop instead of
    # `pixels * vectors` copies of itself, without making the register tile addressable.
    spilled = T.alloc_buffer((size,), layout.dot.accumulator, scope="local")
    for index in range(config.pixels * config.vectors):
        store(spilled, index * lanes, load(registers, index * lanes, lanes), lanes)
    with T.grid(config.tile_p, config.tile_q) as (p, q):
        for vector in range(config.vectors):
            at = ((p * config.tile_q + q) * config.vectors + vector) * lanes
            out_pixel = tile.out_pixel + p * layout.conv.q + q
            _emit_output(layout, operands, load(spilled, at, lanes), tile, vector, out_pixel,
                         epilogue)  # fmt: skip


def _emit_step(
    layout: ConvLayout,
    weight: Buffer,
    source: Buffer,
    registers: Buffer,
    tile: _Tile,
    at: tuple[Expr, Expr, Expr],
) -> None:
    conv, config, dot = layout.conv, layout.config, layout.dot
    r, s, step = at
    _, rows, columns, steps, elements = layout.weight_shape
    tap = (((tile.packed * rows + r) * columns + s) * steps + step) * elements
    weights = [
        T.bind(load(weight, tap + vector * dot.weight_lanes, dot.weight_lanes))
        for vector in range(config.vectors)
    ]
    offset = tile.pixel + r * (conv.dilation[0] * layout.row_elements)
    offset = offset + s * (conv.dilation[1] * layout.pixel_elements) + step * dot.depth
    if not dot.depthwise:
        offset = offset + tile.group * layout.group_elements
    for pixel in range(config.pixels):
        p, q = divmod(pixel, config.tile_q)
        move = p * conv.stride[0] * layout.row_elements
        move += q * conv.stride[1] * layout.pixel_elements
        shared = None if dot.depthwise else T.bind(dot.activation(source, offset + move))
        for vector in range(config.vectors):
            activation = shared
            if activation is None:
                channel = _channel_start(layout, tile.channel_tile, vector)
                activation = dot.activation(source, offset + move + channel)
            index = (pixel * config.vectors + vector) * dot.lanes
            total = dot.accumulate(load(registers, index, dot.lanes), activation, weights[vector])
            store(registers, index, total, dot.lanes)


def _channel_start(layout: ConvLayout, channel_tile: Expr, vector: int) -> Expr:
    """`layout.channel_starts[channel_tile, vector]` as an expression."""
    lanes, vectors = layout.dot.lanes, layout.config.vectors
    start = (channel_tile * vectors + vector) * lanes
    if layout.filters % (lanes * vectors) == 0:
        return start
    return T.min(start, max(layout.filters - lanes, 0))


def _emit_output(
    layout: ConvLayout,
    operands: _Operands,
    total: Expr,
    tile: _Tile,
    vector: int,
    out_pixel: Expr,
    epilogue: VectorEpilogue,
) -> None:
    lanes = layout.dot.lanes
    channel = tile.group * layout.filters + _channel_start(layout, tile.channel_tile, vector)
    at = out_pixel * layout.conv.k + channel
    scale = residual = None
    if operands.scale is not None:
        start = (tile.packed * layout.config.vectors + vector) * lanes
        scale = load(operands.scale, start, lanes)
    if layout.filters >= lanes:
        if operands.residual is not None:
            residual = load(operands.residual, at, lanes)
        store(operands.y, at, epilogue.apply(total, scale, residual), lanes)
        return
    if operands.residual is not None:
        line = T.alloc_buffer((lanes,), operands.residual.dtype, scope="local")
        with loop(layout.filters) as lane:
            store(line, lane, operands.residual[at + lane], 1)
        residual = load(line, 0, lanes)
    line = T.alloc_buffer((lanes,), operands.y.dtype, scope="local")
    store(line, 0, epilogue.apply(total, scale, residual), lanes)
    with loop(layout.filters) as lane:
        store(operands.y, at + lane, line[lane], 1)
