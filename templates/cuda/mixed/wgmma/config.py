"""Knobs of the mixed-input product on wgmma, and the sizes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget
from autoq.templates.cuda.mixed.conversion import GroupScale
from autoq.templates.cuda.mixed.widening import Widening

STEP_BYTES = 128
"""Bytes of a row of activations along k: a step of the reduction."""

STEP_K = 64
"""Values of k of a step of 16-bit activations."""


@dataclass(frozen=True)
class MixedConfig:
    """Knobs of a tile of weight rows times rows of x, D [block_n, block_m].

    block_m: rows of x of a tile, the width of a wgmma.
    consumers: warpgroups that multiply.
    k_groups: groups of consumers that take stages in turn for the same rows, and add their sums.
    row_blocks: blocks of 64 weight rows of a consumer.
    steps: steps of 128 bytes of x along k in a stage.
    stages: stages of the ring in shared memory.
    cluster: blocks that share their rows of x, of which each loads a part for all.
    group_m: tiles of x that share their weight rows (rasterisation).
    group_scale: whether groups' scales multiply weights or sums.
    split_k: blocks that share the reduction of each tile.
    split_cluster: whether the parts of a split reduction are blocks of a cluster, which add their
        sums up in shared memory.
    stream_k: whether tiles that fill no whole waves are shared out evenly, by their reductions.
    widening: how narrow weights become floats.
    weights_once: whether the L2 cache gives up weights before anything else.
    teams: groups of consumers with a tile and stages of their own, of which one multiplies while
        another stores (ping-pong).
    turns_back: whether every other group of tiles of x passes the weight rows from the last to the
        first.
    turns: whether each consumer has tiles of its own, whose stages take turns in one ring: one
        multiplies while another stores.
    """

    block_m: int
    consumers: int
    k_groups: int
    row_blocks: int
    steps: int
    stages: int
    cluster: int
    group_m: int
    group_scale: GroupScale = GroupScale.WEIGHT
    split_k: int = 1
    stream_k: bool = False
    widening: Widening = Widening.PERMUTE
    weights_once: bool = False
    teams: int = 1
    split_cluster: bool = False
    turns_back: bool = False
    turns: bool = False

    @property
    def row_team(self) -> int:
        """Consumers among which the weight rows of a tile are divided."""
        return self.consumers // (self.k_groups * self.teams * self.turn_takers)

    @property
    def turn_takers(self) -> int:
        """Consumers whose tiles take turns in one ring of stages."""
        return self.consumers if self.turns else 1

    @property
    def storers(self) -> int:
        """Consumers of a block that store results, fewer where blocks of a cluster share them."""
        if self.split_cluster:
            return -(-self.row_team // self.split_k)
        return self.row_team * self.teams * self.turn_takers

    @property
    def all_stages(self) -> int:
        """Stages of all teams."""
        return self.stages * self.teams

    @property
    def blocks(self) -> int:
        """Blocks of 64 weight rows of a tile."""
        return self.row_team * self.row_blocks

    @property
    def block_n(self) -> int:
        """Weight rows of a tile."""
        return 64 * self.blocks

    def columns(self, weight_rows: int) -> int:
        """Clusters of tiles that weight rows take, of which the last may be padded."""
        return -(-weight_rows // (self.block_n * self.cluster))

    @property
    def splits(self) -> bool:
        """Whether the reductions of tiles are divided among blocks."""
        return self.stream_k or self.split_k > 1

    @property
    def parts_in_memory(self) -> bool:
        """Whether sums of such parts pass through a workspace."""
        return self.splits and not self.split_cluster

    @property
    def launched_cluster(self) -> int:
        """Blocks of a cluster of the launch."""
        return self.split_k if self.split_cluster else self.cluster

    @property
    def incoming_bytes(self) -> int:
        """Shared memory of a consumer for the sums of the other parts of its rows."""
        return (self.split_k - 1) * 128 * 4 * self.accumulators if self.split_cluster else 0

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + 1)

    @property
    def registers(self) -> RegisterBudget:
        return register_budget(self.consumers, 1)

    @property
    def accumulators(self) -> int:
        """Accumulator registers of a consumer thread."""
        return self.row_blocks * self.block_m // 2

    @property
    def exchange_bytes(self) -> int:
        """Shared memory for the sums that groups of consumers give to the first."""
        return (self.k_groups - 1) * self.row_team * 128 * 4 * self.accumulators

    @property
    def loaded_rows(self) -> int:
        """Rows of x that a block of the cluster loads: whole groups of 8, some of them twice."""
        return -(-self.block_m // (8 * self.cluster)) * 8

    @property
    def x_bytes(self) -> int:
        """Shared memory of a step's rows of x."""
        return 128 * self.block_m

    @property
    def barriers(self) -> int:
        """Barriers of stages, of teams, of turns and of incoming sums."""
        first = self.turn_barriers
        return first + self.consumers * self.turns + self.row_team * self.split_cluster

    @property
    def turn_barriers(self) -> int:
        """Number of the first barrier at which a consumer waits for its turn."""
        return 2 * self.all_stages + self.team_barriers

    @property
    def team_barriers(self) -> int:
        """Barriers at which teams behind the first wait with their first tile."""
        return self.teams - 1
