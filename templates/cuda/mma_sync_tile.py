"""Tile of the mma.sync convolution: its knobs, what follows from them, and where fragments lie.

The knobs carry the names of the paper's search space (BLK_ROW_WARPS ... REORDER_INNER), with one
tile of WARP_ROW_TILES being 16 output pixels and one of WARP_COL_TILES 8 output channels.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from autoq.templates.cuda.mma_sync_box import LANES, PixelBox
from autoq.templates.cuda.mma_sync_fragments import FragmentSchedule, fragment_schedule
from autoq.templates.storage import is_four_bit
from autoq.templates.tiles.weights import ceil_div, channels_per_thread
from autoq.templates.workload import Conv2d, Gemm

ROW_TILE = 16
COL_TILE = 8
K_TILE_BYTES = 32
UNIT_BYTES = 16
"""Shared memory is swizzled, and read by ldmatrix, in units of 16 bytes."""
MATRIX_ROWS = 8
MATRIX_BYTES = MATRIX_ROWS * UNIT_BYTES
_SHUFFLED_RUN = 8
STAGED_RUN = 4
"""Channels of a row that a thread packs behind shared memory."""
COMPUTE = ("s8", "s4", "s8_unpacked", "s8_staged")
"""Bytes multiplied as they are; nibbles multiplied as they are (64 of them to a k-tile); nibbles
that become bytes once, on their way from registers into shared memory; the same, with nibbles
brought by cp.async and waiting in shared memory for their turn."""
DUPLICATES = ("none", "shared", "register")
"""Every filter tap's pixels are copied again (plain im2col); the halo of a block's pixels is copied
to shared memory once for all taps; fragments that coincide between taps are also read from there
only once."""
PACKING = ("weights", "shuffle", "shared")
"""Weights lie permuted, so that the columns of a lane are consecutive channels; warp shuffles
gather the bytes of a word; int32 accumulators pass through shared memory, packed behind it."""


@dataclass(frozen=True)
class MmaSyncConfig:
    """Searched knobs of the mma.sync convolution.

    BLK_ROW_WARPS, BLK_COL_WARPS: warps of a block along pixels and output channels.
    WARP_ROW_TILES, WARP_COL_TILES: 16-pixel and 8-channel tiles of one warp.
    CHUNK: 32-byte k-tiles of one pipeline stage.
    REORDER_INNER: the loop over channel chunks encloses that over filter rows, instead of the
        other way round; filter columns are inside both.
    stages: shared-memory buffers of the load pipeline.
    swizzle: units of a row are permuted by XOR, instead of rows being padded by one unit.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    compute: how values meet the tensor cores, one of COMPUTE.
    duplicates: how pixels that several filter taps read are loaded, one of DUPLICATES.
    packing: how output bytes become words, one of PACKING.
    box_columns, images: of the box that a block's pixels form where duplicates are known: its
        fragments side by side, and whether a fragment is 8 images of one pixel (`PixelBox`).
    """

    BLK_ROW_WARPS: int
    BLK_COL_WARPS: int
    WARP_ROW_TILES: int
    WARP_COL_TILES: int
    CHUNK: int
    REORDER_INNER: bool
    stages: int
    swizzle: bool
    blocks_per_sm: int
    compute: str = "s8"
    duplicates: str = "none"
    packing: str = "weights"
    box_columns: int = 1
    images: bool = False

    @property
    def threads(self) -> int:
        return 32 * self.BLK_ROW_WARPS * self.BLK_COL_WARPS

    @property
    def warp_m(self) -> int:
        """Output pixels of one warp."""
        return self.WARP_ROW_TILES * ROW_TILE

    @property
    def warp_n(self) -> int:
        """Output channels of one warp."""
        return self.WARP_COL_TILES * COL_TILE

    @property
    def block_m(self) -> int:
        """Output pixels of one block."""
        return self.BLK_ROW_WARPS * self.warp_m

    @property
    def block_n(self) -> int:
        """Output channels of one block."""
        return self.BLK_COL_WARPS * self.warp_n

    @property
    def block_k(self) -> int:
        """Bytes of a tile row in one stage: values, or pairs of values for "s4"."""
        return self.CHUNK * K_TILE_BYTES

    @property
    def unpacks(self) -> bool:
        """Whether nibbles become bytes."""
        return self.compute in ("s8_unpacked", "s8_staged")

    @property
    def accumulators(self) -> int:
        """Accumulator registers of a thread."""
        return self.WARP_ROW_TILES * self.WARP_COL_TILES * 4

    @property
    def run(self) -> int:
        """Consecutive output channels that a thread stores of each group of columns."""
        return _SHUFFLED_RUN if self.packing == "shuffle" else channels_per_thread(self.warp_n)

    @property
    def staged_pitch(self) -> int:
        """Words of a row of accumulators in shared memory; 4 rows of 8 words cover all banks."""
        return self.block_n + COL_TILE

    @property
    def lane_channels(self) -> int:
        """Channels from one lane's first accumulator of a group of columns to the next lane's."""
        return self.run if self.packing == "weights" else 2

    @property
    def column_groups(self) -> int:
        """Groups of columns of a warp; a group's are interleaved over the lanes."""
        return self.warp_n // (4 * self.run)

    @property
    def row_bytes(self) -> int:
        """Pitch of a tile row in shared memory."""
        return self.block_k if self.swizzle else self.block_k + UNIT_BYTES

    @property
    def warp_fragments(self) -> int:
        """Fragments of 8 pixels of one warp."""
        return self.warp_m // LANES


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
        return min(self.tile_stages, self.steps) * self.stage_bytes

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
    def smem_bytes(self) -> int:
        """Shared memory of a block: no more stages than steps are ever in use."""
        config = self.config
        stages = self.packed_start + min(config.stages, self.steps) * self.packed_bytes
        staged = config.block_m * config.staged_pitch * 4 if config.packing == "shared" else 0
        return max(stages, staged)

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
    units = config.block_k // UNIT_BYTES
    return row * config.row_bytes + (unit ^ (row // (8 // units) % units)) * UNIT_BYTES


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
