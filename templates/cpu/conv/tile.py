"""Where a register tile of the CPU convolution stands, and the arrays that it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.conv.tiling import ConvTiling


@dataclass(frozen=True)
class Buffers:
    """Flat views of the kernel's parameters; None for those that it does not have."""

    x: Buffer
    residual: Buffer | None
    weight: Buffer
    bias: Buffer
    scale: Buffer | None
    row_scale: Buffer | None
    float_bias: Buffer | None
    scalars: Buffer
    fill: Buffer | None
    y: Buffer


@dataclass(frozen=True)
class Tile:
    """Where a register tile stands: its first pixel, flat element offsets and channel indices."""

    row: Expr
    column: Expr
    pixel: Expr
    out_pixel: Expr
    group: Expr
    channel_tile: Expr
    packed: Expr


def channel_start(tiling: ConvTiling, channel_tile: Expr, vector: int) -> Expr:
    """`tiling.channel_starts[channel_tile, vector]` as an expression."""
    lanes, vectors = tiling.dot.lanes, tiling.config.vectors
    start = (channel_tile * vectors + vector) * lanes
    if tiling.filters % (lanes * vectors) == 0:
        return start
    return T.min(start, max(tiling.filters - lanes, 0))
