"""Knobs of the warp-specialised wgmma pipeline and the sizes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from autoq.search.lanes import choose
from autoq.templates.cuda.device.launch.team import Team, WarpSpecialised
from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.device.memory.swizzle import swizzle_period
from autoq.templates.cuda.device.weights import (
    MOST_CHANNELS,
    KLayout,
    ceil_div,
    channels_per_thread,
    last_columns,
)
from autoq.templates.epilogue.cuda.parameters.epilogue_table import table_words
from autoq.templates.operators.conv2d import Conv2d


class Operand(Enum):
    """What a producer brings to shared memory."""

    ACTIVATIONS = "activations"
    WEIGHTS = "weights"
    RESIDUAL = "residual"


class Shared(Enum):
    """What the blocks of a cluster have in common."""

    NOTHING = "nothing"
    REDUCTION = "reduction"
    """The reduction of one tile: each block takes a part of it."""
    WEIGHTS = "weights"
    """Loaded once for all of them, as activations may be."""
    ACTIVATIONS = "activations"


@dataclass(frozen=True)
class Grid:
    """Which blocks there are.

    persistent: whether a block works on many tiles; cluster: blocks of a cluster; shared: what
    these have in common.
    """

    persistent: bool
    cluster: int = 1
    shared: Shared = Shared.NOTHING

    @property
    def split_k(self) -> int:
        """Blocks of a cluster that take a part of a tile's reduction each."""
        return self.cluster if self.shared is Shared.REDUCTION else 1


PERSISTENT = Grid(persistent=True)
"""Blocks that work on many tiles, each alone."""


@dataclass(frozen=True)
class SplitTeam(Team):
    """Consumers that may divide the reduction of a tile, too.

    k_groups: groups of them that take a tile's pipeline stages in turn, for the same rows.
    """

    k_groups: int = 1


@dataclass(frozen=True)
class PipelineConfig(WarpSpecialised):
    """Knobs of a tile [block_m, block_n] computed by consumer warpgroups and fed by one warp.

    block_n: output channels of a tile.
    row_bytes: bytes of channels of a shared-memory sub-tile (its swizzle).
    per_stage: sub-tiles of a pipeline stage.
    stages: stages of the pipeline's ring in shared memory.
    team: warpgroups that multiply, whether they share a tile or take one each, and groups of them
        that take a tile's stages in turn.
    blocks_per_unit: blocks that share a multiprocessor.
    grid: whether a block works on many tiles, the blocks of a cluster, and what these have in
        common: an operand that is loaded once for all, or the reduction of one tile.
    group: m tiles that share their n tiles (rasterisation).
    channels_outer: the epilogue visits all rows of a channel group before the next group.
    residual_early: residuals are fetched before the main loop and wait in registers.
    residual_ahead: the producer brings residuals to shared memory by TMA.
    weights_stay: a block keeps the weights of its n tile in shared memory and the ring holds
        activations only.
    input_once: the L2 cache gives up activations and residuals that came by TMA before anything
        else, the output for instance, which the next layer reads.
    stream_k: tiles that fill no whole waves are shared out evenly among blocks, by their stages.
    most_channels: consecutive output channels of a thread at most. Where those of one store of 16
        bytes, four lanes fill two sectors; wider ones leave in halves of sectors.
    tail_stages: last stages of a consumer's last tile that its 64-row blocks take one after the
        other, so that one is stored while the next multiplies; 0 where they take all together.
    weights_once: the L2 cache gives up weights before anything else, the activations for instance,
        which a group of tiles reads again and again while it passes all weights.
    early_loads: a block's first stages that are asked for by the thread that initialises their
        barriers, before the block meets, while another initialises all other barriers; 0 for none.
    turns_back: every other group of m tiles passes its n tiles from the last one to the first.

    Subclasses have m_blocks, the 64-row blocks of each consumer warpgroup.
    """

    if TYPE_CHECKING:
        m_blocks: int

    block_n: int
    row_bytes: int
    per_stage: int
    stages: int
    team: SplitTeam
    blocks_per_unit: int
    grid: Grid
    group: int
    channels_outer: bool
    residual_early: bool
    residual_ahead: bool
    weights_stay: bool
    input_once: bool = field(default=False, kw_only=True)
    stream_k: bool = field(default=False, kw_only=True)
    most_channels: int = field(default=MOST_CHANNELS, kw_only=True)
    tail_stages: int = field(default=0, kw_only=True)
    weights_once: bool = field(default=False, kw_only=True)
    early_loads: int = field(default=0, kw_only=True)
    turns_back: bool = field(default=False, kw_only=True)

    @property
    def split_k(self) -> int:
        """Blocks of a cluster that take a part of a tile's reduction each."""
        return self.grid.split_k

    @property
    def receivers(self) -> int:
        """Blocks of a cluster that an operand is loaded into at once."""
        return self.grid.cluster // self.split_k

    @property
    def row_team(self) -> int:
        """Warpgroups among which the rows of a tile are divided."""
        return self.consumers // (self.teams * self.team.k_groups)

    @property
    def parts(self) -> int:
        """Parts of a tile's reduction; whoever computes one finishes a slice of the tile."""
        return self.split_k * self.team.k_groups

    @property
    def channels(self) -> int:
        """Consecutive output channels of a thread, few enough that slices are whole groups."""
        return channels_per_thread(self.block_n, self.m_blocks, self.parts, self.most_channels)

    @property
    def bounds_channels(self) -> bool:
        """Whether a thread has fewer channels than it could have."""
        return self.channels < channels_per_thread(self.block_n, self.m_blocks, self.parts)

    @property
    def groups(self) -> int:
        """Groups of columns in which a thread holds as many consecutive channels."""
        return (self.block_n - self.last_columns) // (4 * self.channels)

    @property
    def last_columns(self) -> int:
        """Columns behind these groups, in which it holds fewer."""
        return last_columns(self.block_n)

    @property
    def slice_words(self) -> int:
        """Accumulators of a consumer thread that its part of the reduction finishes."""
        return self.accumulators // self.parts

    @property
    def exchange_bytes(self) -> int:
        """Shared memory for the partial sums that a block receives."""
        return 512 * self.consumers * (self.parts - 1) * self.slice_words

    @property
    def block_m(self) -> int:
        """Rows of an output tile."""
        return 64 * self.m_blocks * self.row_team

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + 1)

    @property
    def stage_bytes(self) -> int:
        """Shared memory of one pipeline stage: activations, then weights that do not stay."""
        rows = self.block_m + choose(self.weights_stay, 0, self.block_n)
        return rows * self.row_bytes * self.per_stage

    @property
    def slots(self) -> int:
        """Tiles whose epilogue operands are in shared memory: two for each team."""
        return 2 * self.teams

    @property
    def slot_bytes(self) -> int:
        """Shared memory of a tile's epilogue operands: residuals that come ahead, the table."""
        swizzled = self.residual_ahead and self.residual_box == 128
        unit = swizzle_period(128) if swizzled else 128
        table = ceil_div(4 * table_words(self.block_n, True), unit) * unit
        return table + choose(self.residual_ahead, self.block_m * self.block_n, 0)

    @property
    def residual_box(self) -> int:
        """Channels of one TMA box of residuals."""
        return choose(self.block_n % 128 == 0, 128, 64)

    @property
    def barriers(self) -> int:
        """Full and empty ones of stages and slots.

        One a consumer for turns, or for the partial sums that it receives.
        """
        alone = choose(self.cooperative, self.parts == 1, False)
        each = choose(alone, 0, self.consumers)
        return 2 * (self.stages + self.slots) + each

    def resident_bytes(self, layout: KLayout) -> int:
        """Shared memory of weights that stay."""
        rows = layout.stages * layout.per_stage * self.row_bytes
        return choose(self.weights_stay, self.block_n * rows, 0)

    def smem_bytes(self, layout: KLayout) -> int:
        """Dynamic shared memory of a block: ring, weights that stay, partial sums, barriers."""
        ring = self.stages * self.stage_bytes + self.slots * self.slot_bytes
        ring += self.resident_bytes(layout) + self.exchange_bytes
        return ring + self.barriers * BARRIER_BYTES

    @property
    def accumulators(self) -> int:
        """Accumulator registers of a consumer thread."""
        return self.m_blocks * self.block_n // 2

    def layout(self, work: Conv2d) -> KLayout:
        """How the reduction over a convolution's filter taps and channels is cut."""
        taps, dtype = work.r * work.s, work.in_dtype
        return KLayout(taps, work.c, self.row_bytes, self.per_stage, self.parts, dtype)


@dataclass(frozen=True)
class WgmmaConfig(PipelineConfig):
    """Knobs of the pipeline over consecutive rows.

    m_blocks: 64-row blocks of each consumer warpgroup.
    """

    m_blocks: int
