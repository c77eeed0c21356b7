"""What the kernel of attention of float32 knows before it runs: tiles, and where rows lie."""

from __future__ import annotations

import math

from autoq.templates.cuda.attention.tf32.config import Tf32AttentionConfig
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

FLOAT_BYTES = 4
UNIT = 32
"""Values that the depth is filled up to multiples of: what eight lanes read of a row of values."""
_KEY_GAP, _VALUE_GAP = 16, 4
_UNIT_FLOATS = 4


class Tf32AttentionPlan:
    """Attention of float32 cut into the tiles of a configuration. Sizes count floats.

    A stage of shared memory holds a tile of keys, then one of values. Rows of keys are a multiple
    of 128 bytes and 64 apart, so that 64 bytes of two rows fill all banks, and rows of values such
    a multiple and 16, so that 32 bytes of every other one of eight rows do.
    """

    def __init__(self, workload: Attention, config: Tf32AttentionConfig, target: Target) -> None:
        self.workload, self.config, self.target = workload, config, target
        self.depth = ceil_div(workload.depth, UNIT) * UNIT
        """Values of rows in shared memory, filled up with zeros."""
        self.piece = math.gcd(workload.depth, _UNIT_FLOATS)
        """Values of a copy to shared memory, and of a store."""
        self.key_row, self.value_row = self.depth + _KEY_GAP, self.depth + _VALUE_GAP
        self.tiles = ceil_div(workload.keys, config.tile_keys)
        self.row_blocks = ceil_div(workload.queries, config.rows)
        self.blocks = workload.pairs * self.row_blocks
        stage = config.tile_keys * (self.key_row + self.value_row)
        self.smem_bytes = config.stages * stage * FLOAT_BYTES
