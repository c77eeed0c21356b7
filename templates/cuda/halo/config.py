"""Searched knobs of the halo convolutions."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoq.templates.cuda.device.launch.team import Team, WarpSpecialised
from autoq.templates.cuda.device.weights import (
    LAST_CHANNELS,
    channels_per_thread,
    last_columns,
)
from autoq.templates.cuda.halo.tile_shape import TileShape


@dataclass(frozen=True)
class ResidentWeights:
    """A block keeps the weights of its tile of channels in shared memory.

    steps_per_part: they arrive one by one in parts of so many steps of the reduction; None: all at
    once.
    """

    steps_per_part: int | None = None

    resident = True
    ring_stages = 0

    @property
    def in_parts(self) -> bool:
        """Whether there is a barrier for each part."""
        return self.steps_per_part is not None

    @property
    def steps_together(self) -> int:
        """Steps of the reduction in a part; weights without parts count by one."""
        return 1 if self.steps_per_part is None else self.steps_per_part


@dataclass(frozen=True)
class WeightRing:
    """Weights stream through `stages` stages of `steps_per_stage` steps of the reduction each."""

    stages: int
    steps_per_stage: int

    resident = False
    in_parts = False

    @property
    def ring_stages(self) -> int:
        """Stages of the ring."""
        return self.stages

    @property
    def steps_together(self) -> int:
        """Steps of the reduction in a stage."""
        return self.steps_per_stage


@dataclass(frozen=True)
class HaloConfig(WarpSpecialised):
    """Searched knobs that both halo convolutions have.

    tile: output pixels; flat ones are computed over whole rows of their halo, any others eight
        columns at a time (`HaloTile`).
    row_bytes: bytes of channels in a shared-memory row; 16 takes two taps for each 32-byte step.
    block_n: output channels of a tile.
    team: warpgroups that multiply, and whether they share a tile or take one each.
    halo_stages: halo slots, one chunk of channels each.
    weights: a ring of stages that weights stream through, each of some steps of the reduction
        (filter taps), or a block's weights resident, which arrive at once or in parts.
    blocks_per_unit: blocks that share a multiprocessor.
    turns: consumers of a tile each multiply one after the other, so that one's epilogue hides
        behind another's multiplication; left to themselves they fall into step.
    cluster: blocks that share a tile of channels: each loads a part of its weights into all.
    input_once: the L2 cache gives up activations before anything else, the output for instance,
        which the next layer reads.
    """

    tile: TileShape
    row_bytes: int
    block_n: int
    team: Team
    halo_stages: int
    weights: ResidentWeights | WeightRing
    blocks_per_unit: int
    turns: bool
    cluster: int
    input_once: bool = field(default=False, kw_only=True)

    @property
    def resident(self) -> bool:
        """Whether a block's weights stay in shared memory."""
        return self.weights.resident

    @property
    def in_parts(self) -> bool:
        """Whether resident weights have a barrier for each `steps_together` steps."""
        return self.weights.in_parts

    @property
    def ring_stages(self) -> int:
        """Stages of the ring of weights; none where they are resident."""
        return self.weights.ring_stages

    @property
    def steps_together(self) -> int:
        """Steps of the reduction in a stage or in a part; weights without these count by one."""
        return self.weights.steps_together


@dataclass(frozen=True)
class HaloConvConfig(HaloConfig):
    """Searched knobs of conv2d_halo.

    channels_outer: the epilogue visits all rows of a channel group before the next group.
    """

    channels_outer: bool

    @property
    def channels(self) -> int:
        """Consecutive output channels of a thread, the same in all groups of columns of a tile.

        Of 144 or 208 columns the last ones would be a group of their own (`last_columns`), which
        this template's epilogue does not store by itself: its groups are all as narrow.
        """
        narrow = last_columns(self.block_n) > 0
        return LAST_CHANNELS if narrow else channels_per_thread(self.block_n)
