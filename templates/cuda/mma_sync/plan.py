"""What the mma.sync kernel knows before it runs: counts, offsets, instructions, helpers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autoq.templates.arrays.layout import BLOCK_IMAGES, NHWCNC
from autoq.templates.arrays.storage import value_dtype
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.cuda.device.mma.catalogue import largest
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.mma_sync.config import UNIT_BYTES, MmaSyncConfig
from autoq.templates.cuda.mma_sync.epilogue_plan import MmaSyncEpiloguePlan
from autoq.templates.cuda.mma_sync.tiling import (
    matrix_offset,
    unit_offset,
)
from autoq.templates.target import Target

COPY_UNIT = "cp.async.cg.shared.global.L2::128B"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
LDMATRIX_SINGLE = "ldmatrix.sync.aligned.m8n8.x2.shared.b16"
_VECTORS = {1: "b32", 2: "v2.b32", 4: "v4.b32"}


def has_cp_async(target: Target) -> bool:
    """Whether copies to shared memory may bypass registers, which came with sm_80."""
    return target.compute_capability >= 80


def copies_bypass_registers(config: MmaSyncConfig, target: Target) -> bool:
    """Whether a kernel's copies bypass registers: those that unpack at once cannot."""
    return has_cp_async(target) and config.compute != "s8_unpacked"


@dataclass(frozen=True)
class MmaSyncPlan(MmaSyncEpiloguePlan):
    """The kernel of one workload, configuration and target.

    Every thread copies `pixel_rounds` pieces of the pixel tile and `weight_rounds` units of the
    weight tile a stage; a stage holds the pixel tile, then the weight tile.
    """

    @property
    def asynchronous(self) -> bool:
        """Whether copies bypass registers; those that unpack at once cannot."""
        return copies_bypass_registers(self.config, self.target)

    @functools.cached_property
    def atom(self) -> MmaSync:
        """The instruction: of nibbles, or of bytes where they are unpacked."""
        a, b = self.conv.in_dtype, self.conv.weight_dtype
        if self.config.compute != "s4":
            a, b = value_dtype(a), value_dtype(b)
        return largest(self.target, a, b, "int32")

    @property
    def large_mma(self) -> bool:
        """Whether one instruction multiplies a whole 16 x 8 tile by a k-tile, as from sm_80."""
        return self.atom.m == 16

    @property
    def overlaps(self) -> bool:
        return can_overlap(self.target)

    @property
    def copy_piece(self) -> str:
        """cp.async of a piece; only 16 bytes may pass the L1 by."""
        cache = "cg" if self.tiling.piece_read == UNIT_BYTES else "ca"
        return f"cp.async.{cache}.shared.global.L2::128B"

    @property
    def piece_words(self) -> int:
        """Registers that hold a piece as it was read."""
        return self.tiling.piece_read // 4

    def load(self, words: int) -> str:
        return f"ld.global.{_VECTORS[words]}"

    def take(self, words: int) -> str:
        return f"ld.shared.{_VECTORS[words]}"

    def keep(self, words: int) -> str:
        return f"st.shared.{_VECTORS[words]}"

    @property
    def pixel_copies(self) -> int:
        return self.tiling.pixel_rows * self.tiling.pieces_per_stage

    @property
    def pixel_rounds(self) -> int:
        return ceil_div(self.pixel_copies, self.config.threads)

    @property
    def weight_copies(self) -> int:
        return self.tiling.weight_rows * self.units_read

    @property
    def weight_rounds(self) -> int:
        return ceil_div(self.weight_copies, self.config.threads)

    @property
    def units_read(self) -> int:
        """16-byte units that a tile row of weights is read in."""
        return self.tiling.weight_row_bytes // UNIT_BYTES

    @property
    def weight_start(self) -> int:
        """Byte offset of the weight tile in a stage."""
        return self.tiling.pixel_rows * self.config.row_bytes

    @property
    def padded(self) -> bool:
        """Whether filter taps may lie outside the image."""
        return any(self.conv.padding)

    @property
    def ragged(self) -> bool:
        """Whether the last stage is not full."""
        if self.tiling.box is not None:
            return self.tiling.group_bytes % self.config.block_k != 0
        return self.tiling.pieces % self.tiling.pieces_per_stage != 0

    @property
    def copies_images(self) -> bool:
        """Whether 8 neighbouring rows of the pixel tile are images whose pieces lie together."""
        box = self.tiling.box
        return self.conv.in_layout == NHWCNC and (box is None or box.images)

    def row_of_copy(self, index: Any) -> Any:
        """Tile row that a copy of the pixel tile goes to.

        Neighbouring copies are a row's pieces, or of NHWCnc the 8 images of one piece: whatever
        lies together in memory.
        """
        if not self.copies_images:
            return index // self.tiling.pieces_per_stage
        block = index // (BLOCK_IMAGES * self.tiling.pieces_per_stage)
        return block * BLOCK_IMAGES + index % BLOCK_IMAGES

    def piece_of_copy(self, index: Any) -> Any:
        """Piece of its stage that a copy of the pixel tile takes."""
        if not self.copies_images:
            return index % self.tiling.pieces_per_stage
        return index // BLOCK_IMAGES % self.tiling.pieces_per_stage

    @property
    def pixel_unit_offset(self) -> Callable[[MmaSyncConfig, Any, Any], Any]:
        """Where a 16-byte unit of a row lies in the pixel tile."""
        return matrix_offset if self.copies_images else unit_offset

    def pixel_offset(self, index: Any, unit: int = 0) -> Any:
        """Byte offset in a stage of a copy of the pixel tile, or of the second of its two units."""
        byte = self.piece_of_copy(index) * self.tiling.piece + unit * UNIT_BYTES
        row = self.row_of_copy(index)
        unit = self.pixel_unit_offset(self.config, row, byte // UNIT_BYTES)
        return unit + byte % UNIT_BYTES

    def weight_offset(self, index: Any, unit: int = 0) -> Any:
        """Byte offset in a stage of a copy of the weight tile, or of the second of its units."""
        column = index % self.units_read * (2 if self.tiling.unpacks_weights else 1) + unit
        return self.weight_start + unit_offset(self.config, index // self.units_read, column)

    @property
    def staged(self) -> bool:
        """Whether nibbles wait in shared memory until they become bytes."""
        return self.tiling.packed_bytes > 0

    def packed_pixel(self, stage: Any, index: Any) -> Any:
        """Byte of shared memory where a copy of the pixel tile waits as nibbles."""
        start = self.tiling.packed_start + stage * self.tiling.packed_bytes
        return start + index * self.tiling.piece_read

    def packed_weight(self, stage: Any, index: Any) -> Any:
        """Byte of shared memory where a copy of the weight tile waits as nibbles."""
        start = self.tiling.packed_start + stage * self.tiling.packed_bytes
        return start + self.tiling.packed_weight_start + index * UNIT_BYTES

    def pixel_target(self, stage: Any, index: Any) -> Any:
        """Byte of shared memory that a copy of the pixel tile fills."""
        if self.staged and self.tiling.unpacks_pixels:
            return self.packed_pixel(stage, index)
        return stage * self.tiling.stage_bytes + self.pixel_offset(index)

    def weight_target(self, stage: Any, index: Any) -> Any:
        """Byte of shared memory that a copy of the weight tile fills."""
        if self.staged and self.tiling.unpacks_weights:
            return self.packed_weight(stage, index)
        return stage * self.tiling.stage_bytes + self.weight_offset(index)

    def source_byte(self, tile_byte: Any) -> Any:
        """Byte among a pixel's channels that a byte of the tile is read from."""
        return tile_byte // 2 if self.tiling.unpacks_pixels else tile_byte

    def tap(self, step: Any, index: Any) -> tuple[Any, Any, Any]:
        """Filter row, filter column and first tile byte of a copy of the pixel tile."""
        tiling = self.tiling
        inside = self.piece_of_copy(index)
        if tiling.channel_block == self.config.block_k:
            row, column, channel = tiling.tap_of(step * tiling.pieces_per_stage)
            return row, column, channel + inside * tiling.piece
        return tiling.tap_of(step * tiling.pieces_per_stage + inside)

    def chunk_byte(self, step: Any, index: Any) -> Any:
        """Tile byte of its group that a copy of a halo pixel begins at."""
        return step * self.config.block_k + self.piece_of_copy(index) * self.tiling.piece

    @property
    def pixel_registers(self) -> int:
        """Registers of a thread's pixel fragments, those read ahead included."""
        schedule = self.tiling.fragments
        if schedule is None:
            return 2 * self.config.WARP_ROW_TILES * 4
        return 2 * schedule.pairs
