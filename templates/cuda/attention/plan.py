"""What the kernel of attention knows before it runs: tiles, and where rows lie."""

from __future__ import annotations

import math

from autoq.templates.arrays.element import element
from autoq.templates.cuda.attention.config import AttentionConfig
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

UNIT_BYTES = 16
STEP_BYTES = 32
"""Bytes of a row that one mma.sync multiplies."""
LEAST_PIECE = 4
"""Bytes of the smallest asynchronous copy."""


class AttentionPlan:
    """Attention cut into the tiles of a configuration. Sizes count bytes unless a name says more.

    Shared memory holds the block's query rows, then for each stage a tile of keys and one of
    values, then the scores that are kept. All rows are `pitch` apart, an odd number of 16-byte
    units, so that the eight rows of a matrix of ldmatrix lie in different banks.
    """

    def __init__(self, workload: Attention, config: AttentionConfig, target: Target) -> None:
        self.workload, self.config, self.target = workload, config, target
        self.size = element(workload.q_dtype).bytes
        """Bytes of a value of q, k or v."""
        self.row_bytes = workload.depth * self.size
        self.depth_steps = ceil_div(self.row_bytes, STEP_BYTES)
        """Instructions along the depth for a tile of scores."""
        self.pitch = self.depth_steps * STEP_BYTES + UNIT_BYTES
        self.piece = math.gcd(self.row_bytes, UNIT_BYTES)
        """Bytes of a copy to shared memory, and of a store."""
        self.tiles = ceil_div(workload.keys, config.tile_keys)
        self.row_blocks = ceil_div(workload.queries, config.rows)
        self.blocks = workload.pairs * self.row_blocks
        self.twice = not workload.floating and self.tiles > 1
        """Whether scores are looked at twice: a row's sum is known before shares are rounded."""
        self.scorings = 1 if config.keeps_scores or not self.twice else 2
        """How often scores are computed."""
        self.query_bytes = config.rows * self.pitch
        self.tile_bytes = config.tile_keys * self.pitch
        self.kept_at = self.query_bytes + 2 * config.stages * self.tile_bytes
        """Where scores are kept, those of a warp behind those of another."""
        kept = config.rows * self.tiles * config.tile_keys if config.keeps_scores else 0
        self.sums_at = self.kept_at + kept
        """Where sums of keys are, of bytes."""
        sums = 0 if workload.floating else 4 * self.tiles * config.tile_keys
        self.smem_bytes = self.sums_at + sums

    @property
    def key_unit(self) -> int:
        """Keys that one mma.sync weighs: what `tile_keys` is a multiple of."""
        return STEP_BYTES // self.size

    @property
    def rounds_last(self) -> bool:
        """Whether what the softmax reads are integers of a byte."""
        work = self.workload
        return work.quantised_masked if work.mask_axes else work.quantised_scores
