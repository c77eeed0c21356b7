"""Knobs of the mixed-input product on mma.sync, and the sizes that follow from them alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from autoq.templates.cuda.mixed.widening import Widening

ROW_TILE = 16
"""Weight rows of one mma.sync."""
COLUMN_TILE = 8
"""Rows of x of one mma.sync."""
STEP_BYTES = 32
"""Bytes of a row of x along k that one fragment of weights is multiplied with: one m16n8k16 or two
m16n8k8 of 16 bits, one m16n8k32 of 8."""


class Conform(str, Enum):
    """How weights get to the threads that multiply them.

    OFFLINE: they are packed in the order of fragments. SHUFFLE: ldmatrix reads narrow rows, and
    shuffles give each thread its values. NARROW: each thread reads its 2 bytes, or its byte of
    nibbles, by itself. NONE: ldmatrix reads rows of floats, which fit as they are.
    """

    OFFLINE = "offline"
    SHUFFLE = "shuffle"
    NARROW = "narrow"
    NONE = "none"


@dataclass(frozen=True)
class MixedSyncConfig:
    """Knobs of a tile of weight rows times rows of x, D [block_n, block_m].

    block_m: rows of x of a block's tile.
    block_n: weight rows of a block's tile.
    block_k: values of k of a stage.
    warps_m: warps of a block along the rows of x.
    warps_n: warps of a block along the weight rows.
    stages: shared-memory buffers of the load pipeline.
    split_k: parts of the reduction, whose sums a second kernel adds up.
    group_m: tiles of x that share their weight rows (rasterisation).
    widening: how integers become floats; a table of pairs of nibbles lies in shared memory.
    layout: how weights get to the threads that multiply them: arranged beforehand (offline), by
        ldmatrix and shuffles (shuffle), or by narrow loads (narrow).
    weights_once: whether the L2 cache gives up weights before anything else.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    """

    block_m: int
    block_n: int
    block_k: int
    warps_m: int
    warps_n: int
    stages: int
    split_k: int
    group_m: int
    widening: Widening
    layout: Conform
    weights_once: bool
    blocks_per_sm: int

    @property
    def threads(self) -> int:
        return 32 * self.warps_m * self.warps_n

    @property
    def row_tiles(self) -> int:
        """Tiles of 16 weight rows of a warp."""
        return self.block_n // (ROW_TILE * self.warps_n)

    @property
    def column_tiles(self) -> int:
        """Tiles of 8 rows of x of a warp."""
        return self.block_m // (COLUMN_TILE * self.warps_m)

    @property
    def accumulators(self) -> int:
        """Accumulator registers of a thread."""
        return 4 * self.row_tiles * self.column_tiles
