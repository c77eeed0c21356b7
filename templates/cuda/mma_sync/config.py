"""Searched knobs of the mma.sync convolution, and the sizes of a tile that follow from them alone.

The knobs carry the names of the paper's search space (BLK_ROW_WARPS ... REORDER_INNER), with one
tile of WARP_ROW_TILES being 16 output pixels and one of WARP_COL_TILES 8 output channels.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.search.lanes import choose
from autoq.templates.cuda.device.weights import channels_per_thread
from autoq.templates.cuda.mma_sync.box import LANES

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
DUPLICATES = ("none", "shared", "register")
"""Every filter tap's pixels are copied again (plain im2col); the halo of a block's pixels is copied
to shared memory once for all taps; fragments that coincide between taps are also read from there
only once."""
PACKING = ("weights", "shuffle", "shared")
"""Weights lie permuted, so that the columns of a lane are consecutive channels; warp shuffles
gather the bytes of a word; int32 accumulators pass through shared memory, packed behind it."""


@dataclass(frozen=True)
class WarpTiles:
    """How the warps of a block share a tile, and the bytes of a stage's rows.

    BLK_ROW_WARPS: warps of a block along output rows, which are pixels.
    BLK_COL_WARPS: warps of a block along output columns, which are channels.
    WARP_ROW_TILES: tiles of 16 rows of one warp.
    WARP_COL_TILES: tiles of 8 columns of one warp.
    CHUNK: 32-byte k-tiles of one pipeline stage.
    """

    BLK_ROW_WARPS: int
    BLK_COL_WARPS: int
    WARP_ROW_TILES: int
    WARP_COL_TILES: int
    CHUNK: int

    @property
    def threads(self) -> int:
        return 32 * self.BLK_ROW_WARPS * self.BLK_COL_WARPS

    @property
    def warp_m(self) -> int:
        """Output rows of one warp."""
        return self.WARP_ROW_TILES * ROW_TILE

    @property
    def warp_n(self) -> int:
        """Output columns of one warp."""
        return self.WARP_COL_TILES * COL_TILE

    @property
    def block_m(self) -> int:
        """Output rows of one block."""
        return self.BLK_ROW_WARPS * self.warp_m

    @property
    def block_n(self) -> int:
        """Output columns of one block."""
        return self.BLK_COL_WARPS * self.warp_n

    @property
    def block_k(self) -> int:
        """Bytes of a tile row in one stage: values, or pairs of values for "s4"."""
        return self.CHUNK * K_TILE_BYTES

    @property
    def accumulators(self) -> int:
        """Accumulator registers of a thread."""
        return self.WARP_ROW_TILES * self.WARP_COL_TILES * 4


@dataclass(frozen=True)
class MmaSyncConfig(WarpTiles):
    """Searched knobs of the mma.sync convolution.

    BLK_ROW_WARPS: warps of a block along output pixels.
    BLK_COL_WARPS: warps of a block along output channels.
    WARP_ROW_TILES: 16-pixel tiles of one warp.
    WARP_COL_TILES: 8-channel tiles of one warp.
    CHUNK: 32-byte k-tiles of one pipeline stage.
    REORDER_INNER: the loop over channel chunks encloses that over filter rows, instead of the
        other way round; filter columns are inside both.
    stages: shared-memory buffers of the load pipeline.
    swizzle: units of a row are permuted by XOR, instead of rows being padded by one unit.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    compute: how values meet the tensor cores: bytes (s8) or nibbles (s4) as they are, or nibbles
        that become bytes before (s8_unpacked) or after (s8_staged) they wait in shared memory.
    duplicates: how pixels that several filter taps read are loaded: again for every tap (none),
        once for all taps (shared), and from there once for fragments that coincide (register).
    packing: how output bytes become words: by permuted weights, by warp shuffles, or through
        shared memory.
    box_columns: fragments side by side in the box that a block's pixels form where duplicates
        are known (`PixelBox`).
    images: a fragment is 8 images of one pixel instead of 8 pixels of a row.
    """

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
    def unpacks(self) -> bool:
        """Whether nibbles become bytes."""
        return self.compute in ("s8_unpacked", "s8_staged")

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
        return choose(self.swizzle, self.block_k, self.block_k + UNIT_BYTES)

    @property
    def warp_fragments(self) -> int:
        """Fragments of 8 pixels of one warp."""
        return self.warp_m // LANES
