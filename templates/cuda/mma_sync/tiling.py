"""A convolution cut into the tiles of an mma.sync configuration, and where fragments lie."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from autoq.search.lanes import least, most, of_each
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.mma_sync.box import LANES, PixelBox
from autoq.templates.cuda.mma_sync.config import (
    COL_TILE,
    MATRIX_BYTES,
    MATRIX_ROWS,
    ROW_TILE,
    UNIT_BYTES,
    MmaSyncConfig,
)
from autoq.templates.cuda.mma_sync.fragments import FragmentSchedule, fragment_schedule
from autoq.templates.epilogue.cuda.parameters.lookups import table_bytes
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm


@dataclass(frozen=True)
class MmaSyncTiling:
    """A convolution cut into the tiles of a configuration.

    The reduction of one group of channels is a sequence of *pieces* of `piece` consecutive bytes
    of one filter tap; `tap_of` gives their order. A stage holds `pieces_per_stage` of them, the
    last stage is filled up with zeros. Where duplicates are known a stage holds as many pieces of
    every tap: one chunk of channels of the box's halo, and the weights of all taps. All of these
    count bytes of a tile in shared memory: a byte holds one value, or two for compute "s4".
    """

    conv: Conv2d
    config: MmaSyncConfig

    @property
    def group_c(self) -> int:
        """Input channels of one group."""
        return self.conv.c // self.conv.groups

    @property
    def group_k(self) -> int:
        """Output channels of one group."""
        return self.conv.k // self.conv.groups

    @property
    def rows(self) -> int:
        """Output pixels."""
        return self.conv.n * self.conv.p * self.conv.q

    @functools.cached_property
    def box(self) -> PixelBox | None:
        """The box that a block's pixels form; None where they are rows in their plain order."""
        config = self.config
        if config.duplicates == "none":
            return None
        return PixelBox(self.conv, config.block_m // LANES, config.box_columns, config.images)

    @functools.cached_property
    def fragments(self) -> FragmentSchedule | None:
        """How a warp reads the fragments of all taps from a box's halo; None without one."""
        config = self.config
        if self.box is None:
            return None
        warp = PixelBox(self.conv, config.warp_fragments, config.box_columns, config.images)
        reuse = config.duplicates == "register"
        return fragment_schedule(warp, config.warp_fragments, config.CHUNK, reuse)

    @functools.cached_property
    def fragment_counts(self) -> tuple[int, int, int] | None:
        """Register pairs, fragments read and fragments used of `fragments`; None without a box."""
        config = self.config
        if config.duplicates == "none":
            return None
        reuse = config.duplicates == "register"

        def counted(fragments: int, columns: int, images: int, chunk: int) -> tuple[int, int, int]:
            warp = PixelBox(self.conv, fragments, columns, bool(images))
            found = fragment_schedule(warp, fragments, chunk, reuse)
            return found.pairs, found.loaded, len(found.turns) * fragments

        pairs, loaded, used = of_each(
            counted, config.warp_fragments, config.box_columns, config.images, config.CHUNK
        )
        return pairs, loaded, used

    @property
    def taps(self) -> int:
        """Filter taps."""
        return self.conv.r * self.conv.s

    @property
    def group_bytes(self) -> int:
        """Bytes of one group's channels at one filter tap, in a tile."""
        return self.group_c // (2 if self.config.compute == "s4" else 1)

    @property
    def unpacks_pixels(self) -> bool:
        """Whether 4-bit activations become bytes on their way into shared memory."""
        return self.config.unpacks and is_four_bit(self.conv.in_dtype)

    @property
    def unpacks_weights(self) -> bool:
        """Whether 4-bit weights become bytes on their way into shared memory."""
        return self.config.unpacks and is_four_bit(self.conv.weight_dtype)

    @property
    def piece(self) -> int:
        """Tile bytes of one copy: of 16, 8 or 4 bytes read, whatever divides the channels."""
        return math.gcd(self.group_bytes, UNIT_BYTES * (2 if self.unpacks_pixels else 1))

    @property
    def piece_read(self) -> int:
        """Bytes that the copy of a piece reads."""
        return self.piece // (2 if self.unpacks_pixels else 1)

    @property
    def packed_weight(self) -> tuple[int, int, int, int]:
        """Shape of the packed weights: tiles of channels, steps, rows and bytes of a row."""
        return self.tiles_n, self.steps, self.weight_rows, self.weight_row_bytes

    @property
    def weight_row_bytes(self) -> int:
        """Bytes that a tile row of packed weights takes in memory."""
        return self.config.block_k // (2 if self.unpacks_weights else 1)

    @property
    def channel_block(self) -> int:
        """Bytes that the walk takes at once from a tap: one stage, or all of them."""
        block = self.config.block_k
        return block if self.group_bytes % block == 0 else self.group_bytes

    @property
    def pieces(self) -> int:
        """Pieces of the whole reduction."""
        return self.conv.r * self.conv.s * self.group_bytes // self.piece

    @property
    def pieces_per_stage(self) -> int:
        return self.config.block_k // self.piece

    @functools.cached_property
    def steps(self) -> int:
        """Stages that the reduction takes."""
        if self.box is not None:
            return ceil_div(self.group_bytes, self.config.block_k)
        return ceil_div(self.pieces, self.pieces_per_stage)

    @property
    def pixel_rows(self) -> int:
        """Rows of a stage's pixel tile."""
        return self.config.block_m if self.box is None else self.box.slots

    @property
    def weight_rows(self) -> int:
        """Rows of a stage's weight tile: of all taps, one behind the other, with a box."""
        return self.config.block_n * (1 if self.box is None else self.taps)

    @property
    def stage_bytes(self) -> int:
        return (self.pixel_rows + self.weight_rows) * self.config.row_bytes

    @property
    def tile_stages(self) -> int:
        """Stages whose tiles multiply: two where all copies wait for it as nibbles."""
        waits = self.config.compute == "s8_staged" and self.unpacks_pixels and self.unpacks_weights
        return 2 if waits else self.config.stages

    @property
    def packed_start(self) -> int:
        """Byte of shared memory behind the tiles, where nibbles that wait begin."""
        return least(self.tile_stages, self.steps) * self.stage_bytes

    @property
    def packed_weight_start(self) -> int:
        """Byte of a stage of nibbles that wait, behind those of pixels."""
        waits = self.config.compute == "s8_staged" and self.unpacks_pixels
        return self.pixel_rows * self.config.block_k // 2 if waits else 0

    @property
    def packed_bytes(self) -> int:
        """Bytes of a stage of nibbles that wait."""
        waits = self.config.compute == "s8_staged" and self.unpacks_weights
        return self.packed_weight_start + (self.weight_rows * self.weight_row_bytes if waits else 0)

    @property
    def lookups_at(self) -> int:
        """Byte behind the tiles, where a table of outputs begins.

        No more stages than steps are ever in use.
        """
        config = self.config
        stages = self.packed_start + least(config.stages, self.steps) * self.packed_bytes
        staged = config.block_m * config.staged_pitch * 4 if config.packing == "shared" else 0
        return most(stages, staged)

    @property
    def smem_bytes(self) -> int:
        """Shared memory of a block."""
        return self.lookups_at + table_bytes(self.conv.epilogue)

    @property
    def group_tiles_n(self) -> int:
        """Blocks along the output channels of one group."""
        return ceil_div(self.group_k, self.config.block_n)

    @functools.cached_property
    def tiles_m(self) -> int:
        if self.box is not None:
            return self.box.count
        return ceil_div(self.rows, self.config.block_m)

    @property
    def tiles_n(self) -> int:
        return self.conv.groups * self.group_tiles_n

    @property
    def padded_k(self) -> int:
        """Output channels as packed: every group filled up to whole blocks."""
        return self.tiles_n * self.config.block_n

    def tap_of(self, piece):
        """(filter row, filter column, first byte among the group's) of a piece.

        Integers and index expressions alike: only +, *, // and % of non-negative values.
        """
        conv, block = self.conv, self.channel_block
        per_block, blocks = block // self.piece, self.group_bytes // block
        first = piece % per_block * self.piece
        rest = piece // per_block
        column, rest = rest % conv.s, rest // conv.s
        if self.config.REORDER_INNER:
            row, chunk = rest % conv.r, rest // conv.r
        else:
            row, chunk = rest // blocks, rest % blocks
        return row, column, chunk * block + first


def as_conv2d(workload: Conv2d | Gemm) -> Conv2d:
    """The workload as the convolution that the kernel computes."""
    return workload.as_conv2d() if isinstance(workload, Gemm) else workload


def unit_offset(config: MmaSyncConfig, row, unit):
    """Byte offset of a 16-byte unit of a tile row; integers and index expressions alike.

    8 consecutive rows at one unit cover all 32 banks, so ldmatrix has no conflicts: XOR takes
    the row's position within 128 bytes, padding makes the pitch an odd number of units.
    """
    if not config.swizzle:
        return row * config.row_bytes + unit * UNIT_BYTES
    return swizzled_offset(config.row_bytes, row, unit)


def swizzled_offset(row_bytes: int, row, unit):
    """Byte offset of a 16-byte unit of a row of a power of two of units, permuted by XOR."""
    units = row_bytes // UNIT_BYTES
    row_in_banks = row // max(8 // units, 1) % min(units, 8)
    return row * row_bytes + (unit ^ row_in_banks) * UNIT_BYTES


def matrix_offset(config: MmaSyncConfig, row, unit):
    """Byte offset of a 16-byte unit of a tile row where the matrices of ldmatrix lie whole.

    8 rows of a unit are 128 consecutive bytes, as they are in NHWCnc. Into swizzled rows, copies
    would spread each 128 bytes of memory over several 128 bytes of shared memory, which took 5.6
    us to 9.3 us on an H200 (8 x 56x56x64 -> 64, one configuration).
    """
    units = config.block_k // UNIT_BYTES
    return (row // MATRIX_ROWS * units + unit) * MATRIX_BYTES + row % MATRIX_ROWS * UNIT_BYTES


def fragment_of_pixels(config: MmaSyncConfig, warp_row, tile, k_tile, lane, offset=unit_offset):
    """Byte offset in the pixel tile of the unit a lane names to ldmatrix.

    offset: `unit_offset`, or `matrix_offset` where the tile is stored so.

    Lanes 0..15 name the 16 rows' first unit of the k-tile, lanes 16..31 their second: matrices
    (rows 0..7, k 0..15), (rows 8..15, k 0..15), (0..7, 16..31), (8..15, 16..31).
    """
    row = warp_row * config.warp_m + tile * ROW_TILE + lane % 16
    return offset(config, row, k_tile * 2 + lane // 16)


def fragment_of_weights(config: MmaSyncConfig, warp_column, pair, k_tile, lane):
    """Byte offset in the weight tile of the unit a lane names to ldmatrix.

    One ldmatrix reads two column tiles: matrices (tile 0, k 0..15), (0, 16..31), (1, 0..15),
    (1, 16..31).
    """
    row = warp_column * config.warp_n + pair * 2 * COL_TILE + lane // 16 * 8 + lane % 8
    return unit_offset(config, row, k_tile * 2 + lane // 8 % 2)
