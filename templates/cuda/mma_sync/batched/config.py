"""Knobs of a product of two activations on mma.sync."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoq.templates.cuda.mma_sync.config import WarpTiles


@dataclass(frozen=True)
class BatchedSyncConfig(WarpTiles):
    """Knobs of a product of two activations on mma.sync.

    BLK_ROW_WARPS: warps of a block along the rows of x.
    BLK_COL_WARPS: warps of a block along the columns of y.
    WARP_ROW_TILES: tiles of 16 rows of one warp.
    WARP_COL_TILES: tiles of 8 columns of one warp.
    CHUNK: 32-byte k-tiles of one pipeline stage, of 32 bytes or of 16 floats.
    stages: shared-memory buffers of the load pipeline.
    staged: rows of y pass through shared memory, from where whole words of them are stored,
        wherever they start.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    verbatim: a block's rows of x come at once and lie in shared memory as they do in memory, so
        that rows may start at any byte; fragments are shifted out of words.
    """

    stages: int
    staged: bool
    blocks_per_sm: int
    verbatim: bool = field(default=False, kw_only=True)

    @property
    def swizzle(self) -> bool:
        """Whether the units of a row are permuted by XOR: always."""
        return True

    @property
    def row_bytes(self) -> int:
        """Pitch in shared memory of a row that runs along the reduction."""
        return self.block_k
