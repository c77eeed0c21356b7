"""What the kernel of attention on wgmma knows before it runs: tiles, shared memory, maps."""

from __future__ import annotations

from autoq.templates.arrays.element import element
from autoq.templates.cuda.attention.wgmma.config import WgmmaAttentionConfig
from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget
from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import row_values, tiled_map
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

STEP_BYTES = 32
"""Bytes of a row that one wgmma multiplies."""
_LINES = (32, 64, 128)
_ROW_BYTES = 8
"""Of a row's sum of powers and what they are over, which consumers exchange."""
_SUM_BYTES = 4
"""Of the sum of a key."""
_LEAST_PRODUCER = {True: 24, False: 40}
"""Registers with which a thread loads floats, or loads and turns bytes."""
_STAGE_BARRIERS = {True: 4, False: 7}
"""Of floats, and of bytes."""


class WgmmaAttentionPlan:
    """Attention cut into the tiles of a configuration. Sizes count bytes unless a name says more.

    Shared memory holds the queries of each consumer, which become its rows of y; the stages of keys
    and those of values; of bytes, stages of turned values and of sums; and the barriers. A tile of
    rows lies in parts of `line` bytes of each row, swizzled by as many.
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
        self.small_blocks = ceil_div(workload.queries, 64 * config.small) if config.small else 0
        """Of each of the last pairs."""
        self.full_pairs = self._full_pairs()
        """Pairs of large blocks."""
        self.blocks = (
            self.full_pairs * self.row_blocks
            + (workload.pairs - self.full_pairs) * self.small_blocks
        )
        self.grid = (
            min(self.blocks, target.units * config.blocks_per_sm)
            if config.persistent
            else self.blocks
        )
        """Blocks that are launched."""
        self.twice = not workload.floating and self.tiles > 1
        """Whether tiles are gone through twice: a row's sum is known before shares are rounded."""
        self.tile_bytes = config.tile_keys * self.line * self.parts
        self.stage_bytes = 2 * self.tile_bytes
        if not workload.floating:
            self.stage_bytes += config.tile_keys * (workload.depth + _SUM_BYTES)
        own_bytes = config.rows * self.line * self.parts * (2 if config.persistent else 1)
        self.shared_at = own_bytes + config.stages * self.stage_bytes
        self.barriers_at = self.shared_at
        if self.shares_rows:
            self.barriers_at += 2 * 64 * _ROW_BYTES + 128 * 4 * (workload.depth // 2 + 2)
        barriers = _STAGE_BARRIERS[workload.floating]
        self.smem_bytes = self.barriers_at + (2 + barriers * config.stages) * BARRIER_BYTES

    @property
    def shares_rows(self) -> bool:
        """Whether two consumers share the rows of a small block, with a tile of keys each."""
        config = self.config
        small = config.persistent and config.small == 1 and config.consumers == 2
        return small and config.keeps_powers and self.tiles == 2

    def _full_pairs(self) -> int:
        """All, or with small blocks those whose blocks fill multiprocessors round after round."""
        pairs, row_blocks = self.workload.pairs, self.row_blocks
        if not self.config.small:
            return pairs
        room = self.target.units * self.config.blocks_per_sm
        return pairs * row_blocks // room * room // row_blocks

    @property
    def registers(self) -> RegisterBudget:
        """Registers of a thread: at launch, while it loads, and of a consumer."""
        config, target = self.config, self.target
        if config.gives_registers:
            least = _LEAST_PRODUCER[self.workload.floating]
            return register_budget(config.consumers, config.blocks_per_sm, least)
        warps = ceil_div(config.threads // 32 * config.blocks_per_sm, target.schedulers)
        own = min(target.thread_registers, target.scheduler_lane_registers // warps // 8 * 8)
        return RegisterBudget(own, own, own)

    @property
    def stores_boxes(self) -> bool:
        """Whether y goes through shared memory, where its values are as large as those of q."""
        return self.size_of_y == self.size

    @property
    def size_of_y(self) -> int:
        """Bytes of a value of y."""
        return element(self.workload.out_dtype).bytes

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
