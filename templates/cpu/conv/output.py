"""The end of a register tile of the CPU convolution: sums to outputs, by vectors of channels."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.conv.tile import Buffers, Tile, channel_start
from autoq.templates.cpu.conv.tiling import ConvTiling
from autoq.templates.cpu.vector import load, loop, store
from autoq.templates.epilogue.cpu import VectorEpilogue, VectorOperands


class Output:
    """Writes one vector of channels of a tile, pixel by pixel."""

    def __init__(
        self,
        tiling: ConvTiling,
        buffers: Buffers,
        tile: Tile,
        vector: int,
        epilogue: VectorEpilogue,
    ) -> None:
        self.tiling, self.buffers, self.epilogue = tiling, buffers, epilogue
        self.lanes = tiling.dot.lanes
        start = channel_start(tiling, tile.channel_tile, vector)
        self.channel = T.bind(tile.group * tiling.filters + start)
        packed = (tile.packed * tiling.config.vectors + vector) * self.lanes
        self.scale, self.float_bias = (
            None if buffer is None else T.bind(load(buffer, packed, self.lanes))
            for buffer in (
                None if tiling.conv.epilogue.scale_group else buffers.scale,
                buffers.float_bias,
            )
        )

    def emit(self, total: Expr, out_pixel: Expr) -> None:
        """One pixel's `lanes` channels; groups with fewer channels go through a line buffer."""
        at = out_pixel * self.tiling.conv.k + self.channel
        residual, y = self.buffers.residual, self.buffers.y
        whole = self.tiling.filters >= self.lanes
        addend = None
        if residual is not None:
            addend = load(residual, at, self.lanes) if whole else self._gathered(residual, at)
        rows = self.buffers.row_scale
        row = None if rows is None else rows[out_pixel]
        operands = VectorOperands(self.scale, row, self.float_bias, addend)
        value = self.epilogue.apply(total, operands)
        if whole:
            store(y, at, value, self.lanes)
            return
        line = T.alloc_buffer((self.lanes,), y.dtype)
        store(line, 0, value, self.lanes)
        with loop(self.tiling.filters) as lane:
            store(y, at + lane, line[lane], 1)

    def _gathered(self, residual: Buffer, at: Expr) -> Expr:
        line = T.alloc_buffer((self.lanes,), residual.dtype)
        with loop(self.tiling.filters) as lane:
            store(line, lane, residual[at + lane], 1)
        return load(line, 0, self.lanes)
