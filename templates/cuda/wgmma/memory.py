"""Where the parts of a wgmma pipeline's shared memory lie, and its barriers among the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.device.weights import KLayout, ceil_div
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.parameters.epilogue_table import table_words
from autoq.templates.epilogue.cuda.short_forms.long_table import TABLE_ALIGNMENT, lookup_bytes


@dataclass(frozen=True)
class PipelineMemory:
    """Bytes and byte offsets in the order of the parts.

    Stages come first, then weights that stay, slots of epilogue operands, partial sums, barriers,
    and the table of outputs. A stage is per_stage sub-tiles of activations, then as many of weights
    that do not stay. rows: those of a sub-tile that are loaded; table_start: whether the table of a
    tile's epilogue has the bias.
    """

    config: PipelineConfig
    layout: KLayout
    epilogue: Epilogue
    rows: int
    table_start: bool

    @cached_property
    def a_bytes(self) -> int:
        """A sub-tile of activations."""
        return self.config.block_m * self.config.row_bytes

    @cached_property
    def b_bytes(self) -> int:
        """A sub-tile of weights."""
        return self.config.block_n * self.config.row_bytes

    @cached_property
    def b_stage_bytes(self) -> int:
        """Weights of a step of the main loop."""
        return self.config.per_stage * self.b_bytes

    @cached_property
    def b_offset(self) -> int:
        """First byte of the weights: in each stage, or behind all of them where they stay."""
        if self.config.weights_stay:
            return self.config.stages * self.config.stage_bytes
        return self.config.per_stage * self.a_bytes

    @cached_property
    def transaction(self) -> int:
        """Bytes that fill a stage, without weights that stay."""
        loaded = self.config.per_stage * self.rows * self.config.row_bytes
        return loaded + (0 if self.config.weights_stay else self.b_stage_bytes)

    @cached_property
    def slot_offset(self) -> int:
        """First byte of the slots: residuals that come ahead, then the table of scale and bias."""
        config = self.config
        return config.stages * config.stage_bytes + config.resident_bytes(self.layout)

    @cached_property
    def residual_bytes(self) -> int:
        """Residuals of a tile, if they come ahead."""
        config = self.config
        return config.block_m * config.block_n if config.residual_ahead else 0

    @cached_property
    def table_words(self) -> int:
        """Words of a tile's scale and bias."""
        return table_words(self.config.block_n, self.table_start)

    @cached_property
    def slot_transaction(self) -> int:
        """Bytes that fill a slot."""
        return 4 * self.table_words + self.residual_bytes

    @cached_property
    def slice_bytes(self) -> int:
        """Partial sums of a slice of a tile."""
        return 512 * self.config.slice_words

    @cached_property
    def exchange_transaction(self) -> int:
        """Bytes of partial sums that a consumer receives."""
        return (self.config.parts - 1) * self.slice_bytes

    @cached_property
    def exchange_offset(self) -> int:
        """First byte of the partial sums."""
        return self.barrier_offset - self.config.exchange_bytes

    @cached_property
    def barrier_offset(self) -> int:
        """First byte of the barriers: of stages, of slots, of turns or partial sums."""
        return self.config.smem_bytes(self.layout) - self.config.barriers * BARRIER_BYTES

    @cached_property
    def slot_barriers(self) -> int:
        """The first barrier of the slots."""
        return 2 * self.config.stages

    @cached_property
    def consumer_barriers(self) -> int:
        """The first of the consumers' barriers, for their turns or for partial sums."""
        return self.slot_barriers + 2 * self.config.slots

    @cached_property
    def lookups_at(self) -> int:
        """First byte of the table of outputs."""
        return ceil_div(self.config.smem_bytes(self.layout), TABLE_ALIGNMENT) * TABLE_ALIGNMENT

    @cached_property
    def smem_bytes(self) -> int:
        """All of it."""
        return self.config.smem_bytes(self.layout) + lookup_bytes(self.epilogue)

    def start_at(self, thread: Any) -> Any:
        """Byte offset of what a warp's accumulators start from, where no slot holds a table."""
        return self.slot_offset + (thread.consumer * 4 + thread.warp) * 16

    def table_at(self, slot: Any, column: Any, lane: Any) -> Any:
        """Byte offset of a thread's start values of the channel group that begins at a column."""
        base = self.slot_offset + slot * self.config.slot_bytes + self.residual_bytes
        return base + column * 8 + lane % 4 * 16

    def scale_at(self, slot: Any, column: Any, lane: Any) -> Any:
        """Byte offset of a thread's scales of the channel group that begins at a column."""
        base = self.slot_offset + slot * self.config.slot_bytes + self.residual_bytes
        scales = 4 * (self.table_words - self.config.block_n)
        return base + scales + column * 4 + lane % 4 * 16

    def shared_residual_at(self, slot: Any, group: Any, row: Any, lane: Any) -> Any:
        """Byte offset of a tile row's residuals of a thread's channels; row % 8 is lane // 4."""
        box, groups = self.config.residual_box, self.config.residual_box // 64
        base = self.slot_offset + slot * self.config.slot_bytes
        base += group // groups * (box * self.config.block_m) + row * box
        chunk = group % groups * 4 + lane % 4
        return base + (chunk ^ (lane // 4) if box == 128 else chunk) * 16

    def partial_at(self, receiver: Any, slice_: int, sender: Any) -> Any:
        """Byte offset of what part `sender` sends of a slice."""
        distance = (sender - slice_ + self.config.parts) % self.config.parts
        return self.arrived_at(receiver, distance - 1)

    def arrived_at(self, receiver: Any, index: Any) -> Any:
        """Byte offset of the partial sums that a consumer received from one of the others."""
        each = (self.config.parts - 1) * self.slice_bytes
        return self.exchange_offset + receiver * each + index * self.slice_bytes
