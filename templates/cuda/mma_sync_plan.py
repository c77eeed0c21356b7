"""What the mma.sync kernel knows before it runs: counts, offsets, instructions, helpers."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from autoq.templates.border import BorderClasses, border_classes
from autoq.templates.cuda.mma_sync_tile import (
    UNIT_BYTES,
    MmaSyncConfig,
    MmaSyncTiling,
    as_conv2d,
    unit_offset,
)
from autoq.templates.layout import BLOCK_IMAGES, NHWC
from autoq.templates.target import Target
from autoq.templates.tiles.dependent_launch import can_overlap
from autoq.templates.tiles.requantise import DeviceFunction, RowEpilogue
from autoq.templates.tiles.weights import ceil_div
from autoq.templates.workload import Conv2d, Gemm

COPY_UNIT = "cp.async.cg.shared.global.L2::128B"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
_VECTORS = {1: "b32", 2: "v2.b32", 4: "v4.b32"}


def has_cp_async(target: Target) -> bool:
    """Whether copies to shared memory bypass registers, which came with sm_80."""
    return target.compute_capability >= 80


@dataclass(frozen=True)
class MmaSyncPlan:
    """The kernel of one workload, configuration and target.

    Every thread copies `pixel_rounds` pieces of the pixel tile and `weight_rounds` units of the
    weight tile a stage; a stage holds the pixel tile, then the weight tile.
    """

    workload: Conv2d | Gemm
    config: MmaSyncConfig
    target: Target

    @functools.cached_property
    def conv(self) -> Conv2d:
        return as_conv2d(self.workload)

    @functools.cached_property
    def tiling(self) -> MmaSyncTiling:
        return MmaSyncTiling(self.conv, self.config)

    @property
    def asynchronous(self) -> bool:
        return has_cp_async(self.target)

    @property
    def overlaps(self) -> bool:
        return can_overlap(self.target)

    @property
    def mma(self) -> str:
        """m16n8k32 from sm_80; sm_75 has m8n8k16 only."""
        shape = "m16n8k32" if self.asynchronous else "m8n8k16"
        sign = "u8" if self.conv.in_dtype == "uint8" else "s8"
        return f"mma.sync.aligned.{shape}.row.col.s32.{sign}.s8.s32"

    @property
    def copy_piece(self) -> str:
        """cp.async of a piece; only 16 bytes may pass the L1 by."""
        cache = "cg" if self.tiling.piece == UNIT_BYTES else "ca"
        return f"cp.async.{cache}.shared.global.L2::128B"

    @property
    def piece_words(self) -> int:
        return self.tiling.piece // 4

    def load(self, words: int) -> str:
        return f"ld.global.{_VECTORS[words]}"

    def keep(self, words: int) -> str:
        return f"st.shared.{_VECTORS[words]}"

    @property
    def pixel_copies(self) -> int:
        return self.config.block_m * self.tiling.pieces_per_stage

    @property
    def pixel_rounds(self) -> int:
        return ceil_div(self.pixel_copies, self.config.threads)

    @property
    def weight_copies(self) -> int:
        return self.config.block_n * self.units

    @property
    def weight_rounds(self) -> int:
        return ceil_div(self.weight_copies, self.config.threads)

    @property
    def units(self) -> int:
        """16-byte units of a tile row."""
        return self.config.block_k // UNIT_BYTES

    @property
    def weight_start(self) -> int:
        """Byte offset of the weight tile in a stage."""
        return self.config.block_m * self.config.row_bytes

    @property
    def padded(self) -> bool:
        """Whether filter taps may lie outside the image."""
        return any(self.conv.padding)

    @property
    def ragged(self) -> bool:
        """Whether the last stage is not full."""
        return self.tiling.pieces % self.tiling.pieces_per_stage != 0

    def row_of_copy(self, index: Any) -> Any:
        """Tile row that a copy of the pixel tile goes to.

        Neighbouring copies are a row's pieces, or of NHWCnc the 8 images of one piece: whatever
        lies together in memory.
        """
        if self.conv.in_layout == NHWC:
            return index // self.tiling.pieces_per_stage
        block = index // (BLOCK_IMAGES * self.tiling.pieces_per_stage)
        return block * BLOCK_IMAGES + index % BLOCK_IMAGES

    def piece_of_copy(self, index: Any) -> Any:
        """Piece of its stage that a copy of the pixel tile takes."""
        if self.conv.in_layout == NHWC:
            return index % self.tiling.pieces_per_stage
        return index // BLOCK_IMAGES % self.tiling.pieces_per_stage

    def pixel_offset(self, index: Any) -> Any:
        """Byte offset in a stage of a copy of the pixel tile."""
        byte = self.piece_of_copy(index) * self.tiling.piece
        row = self.row_of_copy(index)
        return unit_offset(self.config, row, byte // UNIT_BYTES) + byte % UNIT_BYTES

    def weight_offset(self, index: Any) -> Any:
        """Byte offset in a stage of a copy of the weight tile."""
        return self.weight_start + unit_offset(self.config, index // self.units, index % self.units)

    def tap(self, step: Any, index: Any) -> tuple[Any, Any, Any]:
        """Filter row, filter column and first channel of a copy of the pixel tile."""
        tiling = self.tiling
        inside = self.piece_of_copy(index)
        if tiling.channel_block == self.config.block_k:
            row, column, channel = tiling.tap_of(step * tiling.pieces_per_stage)
            return row, column, channel + inside * tiling.piece
        return tiling.tap_of(step * tiling.pieces_per_stage + inside)

    @functools.cached_property
    def classes(self) -> tuple[BorderClasses, BorderClasses]:
        """Border classes of output rows and columns."""
        return border_classes(self.conv)

    @property
    def bias_rows(self) -> int:
        rows, columns = self.classes
        return rows.count * columns.count

    @property
    def outputs(self) -> int:
        return math.prod(self.conv.y_shape)

    @functools.cached_property
    def epilogue(self) -> RowEpilogue:
        """Rows start at multiples of a group's channels, which decides how wide stores are."""
        group_k = self.tiling.group_k
        tail = group_k % self.config.block_n != 0
        return RowEpilogue(
            self.workload.epilogue, self.config.run, group_k, tail, self.bias_rows > 1
        )

    @property
    def residual_registers(self) -> int:
        """Registers of the residuals of a thread's two rows."""
        return max(2 * self.config.column_groups * self.epilogue.residual_words, 1)

    @functools.cached_property
    def load_residual(self) -> DeviceFunction:
        return self.epilogue.load()

    @functools.cached_property
    def requantise(self) -> DeviceFunction:
        return self.epilogue.rows()
