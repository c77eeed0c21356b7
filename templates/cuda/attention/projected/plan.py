"""What the kernel knows before it runs: shared memory, maps, and the attention in it."""

from __future__ import annotations

from autoq.templates.cuda.attention.projected.config import ProjectedAttentionConfig
from autoq.templates.cuda.attention.wgmma.config import WgmmaAttentionConfig
from autoq.templates.cuda.attention.wgmma.plan import WgmmaAttentionPlan
from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import tiled_map
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.projected_attention import ProjectedAttention
from autoq.templates.target import Target

LINE_BYTES = 128
"""Bytes of a row of x, and of the weights of a channel, in a stage."""
GROUP = 16
"""Channels of which a thread has four neighbours, and its row of the table those four."""
CHANNEL_WORDS = 2
"""A scale and a bias."""
BOUND_WORDS = 4
"""Of each product: its bounds, its zero point, and one that is not read."""
_CONSUMER_ROWS = 64
_TILE_ALIGNMENT = 1024


def table_words(depth: int) -> int:
    """Words of a head's table: scales and biases of its channels, and the bounds of products."""
    return 3 * depth * CHANNEL_WORDS + 3 * BOUND_WORDS


class ProjectedPlan:
    """Sizes count bytes unless a name says more.

    Shared memory holds what attention has there (`WgmmaAttentionPlan`), behind it the stages of x
    and of weights, the table of a head, and their barriers.
    """

    def __init__(
        self, workload: ProjectedAttention, config: ProjectedAttentionConfig, target: Target
    ) -> None:
        self.workload, self.config = workload, config
        consumers = ceil_div(workload.rows, _CONSUMER_ROWS)
        own = WgmmaAttentionConfig(
            consumers, 0, _CONSUMER_ROWS * consumers, 1, False, False, False, 0, True, 1
        )
        self.attention = WgmmaAttentionPlan(workload.attention, own, target)
        """One block for each head of a batch, with all its rows."""
        self.steps = ceil_div(workload.columns, LINE_BYTES)
        """Stages of a block."""
        self.stages = min(config.stages, self.steps)
        self.x_bytes = own.rows * LINE_BYTES
        self.weight_bytes = 3 * workload.depth * LINE_BYTES
        self.ring_at = ceil_div(self.attention.smem_bytes, _TILE_ALIGNMENT) * _TILE_ALIGNMENT
        self.table_at = self.ring_at + self.stages * (self.x_bytes + self.weight_bytes)
        self.table_bytes = 4 * table_words(workload.depth)
        self.barriers_at = self.table_at + self.table_bytes
        self.smem_bytes = self.barriers_at + (1 + 2 * self.stages) * BARRIER_BYTES

    def map_of_x(self) -> list[int]:
        """Arguments of ENCODE_TILED behind the address: columns, rows, batches, and one.

        A box is 128 columns of all rows of a batch.
        """
        work = self.workload
        return tiled_map(
            work.in_dtype, (work.columns, work.rows, work.batch, 1),
            (work.columns, work.columns * work.rows, work.columns * work.rows * work.batch),
            (LINE_BYTES, self.attention.config.rows, 1, 1), swizzle_mode(LINE_BYTES),
        )  # fmt: skip
