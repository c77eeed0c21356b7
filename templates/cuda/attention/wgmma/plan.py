"""What the kernel of attention on wgmma knows before it runs: tiles, shared memory, maps."""

from __future__ import annotations

from autoq.templates.cuda.attention.plan import mask_pitches
from autoq.templates.cuda.attention.wgmma.config import WgmmaAttentionConfig
from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import row_values, tiled_map
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.element import element
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

STEP_BYTES = 32
"""Bytes of a row that one wgmma multiplies."""
_LINES = (32, 64, 128)


class WgmmaAttentionPlan:
    """Attention cut into the tiles of a configuration. Sizes count bytes unless a name says more.

    Shared memory holds the queries of each consumer, which become its rows of y, then the stages
    of keys, those of values, and the barriers. A tile of rows lies in parts of `line` bytes of
    each row, swizzled by as many.
    """

    def __init__(
        self, workload: Attention, config: WgmmaAttentionConfig, target: Target
    ) -> None:  # fmt: skip
        self.workload, self.config, self.target = workload, config, target
        self.size = element(workload.q_dtype).bytes
        """Of a value of q, k or v."""
        self.row_bytes = workload.depth * self.size
        self.line = next((line for line in _LINES if line >= self.row_bytes), _LINES[-1])
        self.parts = ceil_div(self.row_bytes, self.line)
        self.depth_steps = ceil_div(self.row_bytes, STEP_BYTES)
        """Instructions along the depth for a tile of scores."""
        self.tiles = ceil_div(workload.keys, config.tile_keys)
        self.row_blocks = ceil_div(workload.queries, config.rows)
        self.blocks = workload.pairs * self.row_blocks
        self.tile_bytes = config.tile_keys * self.line * self.parts
        self.barriers_at = config.rows * self.line * self.parts + 2 * config.stages * self.tile_bytes
        self.smem_bytes = self.barriers_at + (1 + 4 * config.stages) * BARRIER_BYTES

    @property
    def stores_boxes(self) -> bool:
        """Whether y goes through shared memory, where its values are as large as those of q."""
        return self.size_of_y == self.size

    @property
    def size_of_y(self) -> int:
        """Of a value of y."""
        return element(self.workload.out_dtype).bytes

    @property
    def mask_pitches(self) -> tuple[int, int, int]:
        """How far batches, heads and queries of the mask lie apart, in values; 0 for one of all."""
        return mask_pitches(self.workload)

    def map_of(self, name: str, dtype: str, rows: int, box_rows: int) -> list[int]:
        """Arguments of ENCODE_TILED behind the address for q, k, v or y, by name.

        Of rank 4, from the innermost: depth, rows, heads, batches; a box is a part of some rows.
        """
        work = self.workload
        beside = getattr(work, f"{name}_order") == "blhd"
        between = (work.depth * work.heads, work.depth) if beside else (
            work.depth, work.depth * rows
        )  # fmt: skip
        return tiled_map(
            dtype, (work.depth, rows, work.heads, work.batch),
            (*between, work.depth * rows * work.heads),
            (row_values(dtype, self.line), box_rows, 1, 1), swizzle_mode(self.line),
        )  # fmt: skip
