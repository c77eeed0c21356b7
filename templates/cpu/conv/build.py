"""The register-tiled CPU convolution: one parallel loop of tasks, each a padded copy and tiles.

A tile keeps `pixels * vectors` accumulator vectors in registers; one dot step loads `vectors`
weight vectors, broadcasts one word of each pixel and issues `pixels * vectors` products. Tiles and
row blocks at a ragged end move back over outputs that others compute too (with the same result),
so that no tile has a tail; the output must therefore not overlap an input.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.cpu.conv.layout import ConvLayout
from autoq.templates.cpu.conv.pack import packed_conv
from autoq.templates.cpu.conv.scratch import emit_scratch
from autoq.templates.cpu.vector import flat, load, loop, store, tasks_loop
from autoq.templates.epilogue.cpu import VectorEpilogue, bind_scalars
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm


@dataclass(frozen=True)
class _Buffers:
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
            _emit_task(layout, _Buffers(**{**absent, **views}), task)
    return builder.get()


def _parameters(workload: Conv2d | Gemm, layout: ConvLayout) -> dict[str, Buffer]:
    epilogue, conv = workload.epilogue, layout.conv
    shapes: dict[str, tuple[tuple[int, ...], str]] = {"x": (workload.x_shape, conv.in_dtype)}
    if epilogue.residual_dtype:
        shapes["residual"] = (workload.y_shape, epilogue.residual_dtype)
    shapes |= {spec.name: (spec.shape, spec.dtype) for spec in packed_conv(layout)}
    shapes["y"] = (workload.y_shape, epilogue.out_dtype)
    return {name: T.arg(name, T.buffer(*shape)) for name, shape in shapes.items()}


def _emit_task(layout: ConvLayout, buffers: _Buffers, task: Expr) -> None:
    conv, config = layout.conv, layout.config
    block = task % layout.row_tasks
    image = task // layout.row_tasks % conv.n
    share = task // (layout.row_tasks * conv.n)
    row = T.bind(_clamped(block, config.rows, conv.p))
    epilogue = VectorEpilogue(
        conv.epilogue, conv.in_dtype, layout.dot.lanes, bind_scalars(buffers.scalars)
    )
    if layout.copies:
        source = T.alloc_buffer((layout.scratch_elements,), layout.scratch_dtype)
        emit_scratch(layout, buffers.x, source, buffers.fill[0], image, row)
        origin = T.int32(0)
    else:
        source = buffers.x
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
        pixel = origin + tile_row * layout.row_step
        tile = _Tile(
            pixel=T.bind(pixel + column * layout.column_step),
            out_pixel=T.bind((image * conv.p + row + tile_row) * conv.q + column),
            group=packed // layout.channel_tiles,
            channel_tile=packed % layout.channel_tiles,
            packed=packed,
        )
        _emit_tile(layout, buffers, source, tile, epilogue)


def _clamped(index: Expr, step: int, extent: int) -> Expr:
    """First element of one of the `ceil(extent / step)` blocks; a ragged last one moves back."""
    if extent % step == 0:
        return index * step
    return T.min(index * step, extent - step)


def _emit_tile(
    layout: ConvLayout, buffers: _Buffers, source: Buffer, tile: _Tile, epilogue: VectorEpilogue
) -> None:
    config, lanes = layout.config, layout.dot.lanes
    # One buffer a register: TVM keeps buffers under 1 KB on the stack, where LLVM finds that they
    # are registers, and takes larger ones from the heap.
    registers = [
        [T.alloc_buffer((lanes,), layout.dot.accumulator) for _ in range(config.vectors)]
        for _ in range(config.pixels)
    ]
    for vector in range(config.vectors):
        start = (tile.packed * config.vectors + vector) * lanes
        bias = T.bind(load(buffers.bias, start, lanes))
        for pixel in range(config.pixels):
            store(registers[pixel][vector], 0, bias, lanes)
    rows, columns, _ = layout.reduction
    with T.grid(rows, columns, layout.steps) as (r, s, step):
        _emit_step(layout, buffers.weight, source, registers, tile, (r, s, step))
    for vector in range(config.vectors):
        output = _Output(layout, buffers, tile, vector, epilogue)
        for pixel in range(config.pixels):
            p, q = divmod(pixel, config.tile_q)
            out_pixel = tile.out_pixel + (p * layout.conv.q + q)
            output.emit(load(registers[pixel][vector], 0, lanes), out_pixel)


def _emit_step(
    layout: ConvLayout,
    weight: Buffer,
    source: Buffer,
    registers: list[list[Buffer]],
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
        move = p * layout.row_step + q * layout.column_step
        shared = None if dot.depthwise else T.bind(dot.activation(source, offset + move))
        for vector in range(config.vectors):
            activation = shared
            if activation is None:
                channel = _channel_start(layout, tile.channel_tile, vector)
                activation = dot.activation(source, offset + move + channel)
            register = registers[pixel][vector]
            total = dot.accumulate(load(register, 0, dot.lanes), activation, weights[vector])
            store(register, 0, total, dot.lanes)


def _channel_start(layout: ConvLayout, channel_tile: Expr, vector: int) -> Expr:
    """`layout.channel_starts[channel_tile, vector]` as an expression."""
    lanes, vectors = layout.dot.lanes, layout.config.vectors
    start = (channel_tile * vectors + vector) * lanes
    if layout.filters % (lanes * vectors) == 0:
        return start
    return T.min(start, max(layout.filters - lanes, 0))


class _Output:
    """Writes one vector of channels of a tile, pixel by pixel."""

    def __init__(
        self,
        layout: ConvLayout,
        buffers: _Buffers,
        tile: _Tile,
        vector: int,
        epilogue: VectorEpilogue,
    ) -> None:
        self.layout, self.buffers, self.epilogue = layout, buffers, epilogue
        self.lanes = layout.dot.lanes
        start = _channel_start(layout, tile.channel_tile, vector)
        self.channel = T.bind(tile.group * layout.filters + start)
        self.scale = None
        if buffers.scale is not None:
            packed = (tile.packed * layout.config.vectors + vector) * self.lanes
            self.scale = T.bind(load(buffers.scale, packed, self.lanes))

    def emit(self, total: Expr, out_pixel: Expr) -> None:
        """One pixel's `lanes` channels; groups with fewer channels go through a line buffer."""
        at = out_pixel * self.layout.conv.k + self.channel
        residual, y = self.buffers.residual, self.buffers.y
        whole = self.layout.filters >= self.lanes
        addend = None
        if residual is not None:
            addend = load(residual, at, self.lanes) if whole else self._gathered(residual, at)
        value = self.epilogue.apply(total, self.scale, addend)
        if whole:
            store(y, at, value, self.lanes)
            return
        line = T.alloc_buffer((self.lanes,), y.dtype)
        store(line, 0, value, self.lanes)
        with loop(self.layout.filters) as lane:
            store(y, at + lane, line[lane], 1)

    def _gathered(self, residual: Buffer, at: Expr) -> Expr:
        line = T.alloc_buffer((self.lanes,), residual.dtype)
        with loop(self.layout.filters) as lane:
            store(line, lane, residual[at + lane], 1)
        return load(line, 0, self.lanes)
