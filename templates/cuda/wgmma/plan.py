"""Work and roles of one wgmma pipeline kernel, derived from workload, knobs and load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.launch.raster import tile_of
from autoq.templates.cuda.device.memory.exchange import (
    add_partial,
    keep_slice,
    send_partial,
    store_partial,
)
from autoq.templates.cuda.device.memory.look_ahead import look_ahead
from autoq.templates.cuda.device.memory.parts import TileParts
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import Delivery, tiled_map
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.device.weights import KLayout, ceil_div
from autoq.templates.cuda.wgmma.config import Operand, PipelineConfig, Shared
from autoq.templates.cuda.wgmma.epilogue_plan import EpiloguePlan
from autoq.templates.cuda.wgmma.expansion import (
    ROWS,
    Expansion,
    StagedRows,
    pitch,
    staged_bytes,
)
from autoq.templates.cuda.wgmma.loads import Load
from autoq.templates.cuda.wgmma.memory import PipelineMemory
from autoq.templates.cuda.wgmma.register_need import reallocates
from autoq.templates.cuda.wgmma.weighing import Weighing
from autoq.templates.epilogue.cuda.fragments.range_rows import RANGE_BYTES, clear_all, meet_all
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.program import Workspace
from autoq.templates.target import Target


def grid_clusters(
    config: PipelineConfig, target: Target, works: int, n_tiles: int, copies: int = 1
) -> int:
    """Clusters of each of so many copies; with weights that stay, as many for every n tile."""
    if not config.grid.persistent:
        return works
    units = target.units_in_clusters(config.grid.cluster)
    resident = units * config.blocks_per_unit // config.grid.cluster
    clusters = min(max(1, resident // copies), works)
    return max(1, clusters // n_tiles) * n_tiles if config.weights_stay else clusters


@dataclass(frozen=True)
class Extras:
    """What some kernels have besides.

    weighing: what the epilogue finds besides the product; ahead: bytes of constants behind the
    kernel's own that it asks the L2 cache for; expansion: which columns of y those of the product
    are; overlaps: whether the launch overlaps the kernel before.
    """

    weighing: Weighing | None = None
    ahead: int = 0
    expansion: Expansion | None = None
    overlaps: bool = True


NO_EXTRAS = Extras()


class PipelinePlan(EpiloguePlan):
    """What the kernel's parts share; every attribute is a compile-time constant of the kernel.

    copies: so many workloads of one x and their own constants run side by side.
    """

    def __init__(
        self, workload: Conv2d, config: PipelineConfig, layout: KLayout, load: Load,
        target: Target, copies: int = 1, extras: Extras = NO_EXTRAS,
    ) -> None:  # fmt: skip
        super().__init__(workload, config)
        self.layout, self.load, self.copies = layout, load, copies
        self.looks_ahead, self.overlaps = extras.ahead > 0, extras.overlaps
        self.weighing, self.expansion = extras.weighing, extras.expansion
        self.memory = PipelineMemory(config, layout, self.epilogue, load.rows, self.table_start)
        self.lookups_at = self.memory.lookups_at
        # Sums of columns of each warp, where the product is weighed, lie behind everything else.
        self.weigh_offset = ceil_div(self.memory.smem_bytes, 16) * 16
        weighed = self.weigh_offset + self.weighing.smem_bytes if self.weighing else 0
        self.smem_bytes = max(self.memory.smem_bytes, weighed)
        # So do the least and the largest value of each warp, where outputs get a range.
        self.range_offset = self.weigh_offset
        if self.epilogue.by_range:
            self.smem_bytes = self.range_offset + RANGE_BYTES * config.consumers
        # And so do rows that become those of y.
        self.out_bytes = element(self.epilogue.out_dtype).bytes if self.expansion else 1
        self.staged_pitch = pitch(config, self.out_bytes) // self.out_bytes
        if self.expansion:
            self.smem_bytes = self.weigh_offset + staged_bytes(config, self.out_bytes)
        self.elements = workload.n * workload.p * workload.q * workload.k

        self.n_tiles = ceil_div(workload.k, config.block_n)
        self.tiles = load.m_tiles * self.n_tiles
        # A cluster computes neighbouring tiles at a time, or all of it one tile.
        self.receivers = config.receivers
        self.works = self.tiles // self.receivers
        # What blocks take of tiles, if they share them out.
        self.portions = layout.stages
        pieces = self.works * (self.portions if config.stream_k else 1)
        self.grid = grid_clusters(config, target, pieces, self.n_tiles, copies)
        weights = copies * self.padded_n * layout.total
        self.look_ahead = look_ahead(weights, extras.ahead, copies * self.grid)
        self.parts = TileParts(config.grid.cluster, config.row_team, config.accumulators, "uint32")
        self.block_stages = layout.stages // config.split_k
        self.own_stages = layout.stages // config.parts
        # Stages of the first tile whose weights, if they stay, need not wait for an empty stage.
        self.early_stages = min(config.stages, layout.stages)
        # Stages, and slots of operands, that are on their way before the block meets.
        self.stages_ahead = min(config.early_loads, config.stages, self.block_stages)
        self.slots_ahead = min(self.stages_ahead, 1)

        self.atom = Wgmma.dense(config.block_n, workload.in_dtype, "int8", "int32")
        self.instructions = config.per_stage * config.row_bytes // self.atom.a_bytes
        self.b_stage_values = self.memory.b_stage_bytes // self.atom.b_element.bytes

        # Teams take turns with a tile each; the warpgroups of a team share its tile.
        self.ping_pong = config.teams > 1
        self.teams = config.teams
        self.team_warpgroups = config.consumers // self.teams
        # The warp that begins with TMA, the one that loads operands, another for weights that
        # stay, and the consumers.
        self.starting_warps = 3 if config.weights_stay else 2
        self.started_threads = 32 * self.starting_warps + 128 * config.consumers

        self.reallocates = reallocates(workload, config)
        self.meet_all = meet_all(128 * config.consumers, self.grid)
        self.clear_all = clear_all(self.grid)

        self.send_partial = send_partial(config.slice_words)
        self.store_partial = store_partial(config.slice_words)
        self.add_partial = add_partial(config.slice_words)
        self.keep_slice = keep_slice(config.slice_words)
        self.of_last_columns = self.for_last_columns() if config.last_columns else None

    def residual_map(self) -> list[int]:
        """Tensor map of residuals [pixels, k]: boxes of a tile's rows by 64 or 128 channels.

        Eight rows of 64 bytes that four lanes each read meet every bank; rows of 128 are swizzled.
        """
        k, box = self.workload.k, self.config.residual_box
        mode = swizzle_mode(box) if box == 128 else 0
        dtype = self.epilogue.residual_dtype or self.epilogue.out_dtype
        return tiled_map(dtype, [k, self.elements // k], [k], [box, self.config.block_m], mode)

    def k_offset(self, instruction: Any, sub_tile_bytes: int) -> Any:
        """Byte offset of an instruction's k inside the sub-tiles of one operand."""
        row_bytes, step_bytes = self.config.row_bytes, self.atom.a_bytes
        if row_bytes < step_bytes:
            return instruction * (step_bytes // row_bytes * sub_tile_bytes)
        each = row_bytes // step_bytes
        return instruction // each * sub_tile_bytes + instruction % each * step_bytes

    def tile(self, work: Any, rank: Any) -> tuple[Any, Any]:
        """The (m, n) tile of a work index for block `rank` of a cluster.

        n is one for a block whose weights stay.
        """
        if self.config.weights_stay:
            return work // self.n_tiles, work % self.n_tiles
        each_m = self.receivers if self.config.grid.shared is Shared.WEIGHTS else 1
        each_n = self.receivers if self.config.grid.shared is Shared.ACTIVATIONS else 1
        m, n = tile_of(
            work, self.load.m_tiles // each_m, self.n_tiles // each_n, self.config.group,
            self.config.turns_back,
        )  # fmt: skip
        if each_m > 1:
            return m * each_m + rank, n
        return (m, n * each_n + rank) if each_n > 1 else (m, n)

    def expected(self, first: Any) -> Any:
        """Bytes of a stage's barrier: those of weights that stay come with the first tile."""
        if not self.config.weights_stay:
            return T.uint32(self.memory.transaction)
        both = self.memory.transaction + self.memory.b_stage_bytes
        return T.if_then_else(first, T.uint32(both), T.uint32(self.memory.transaction))

    def stages_on_the_way(self, first: Any) -> Any:
        """Stages of a tile that come before the producer's main loop does."""
        return T.if_then_else(first, self.stages_ahead, 0) if self.stages_ahead else 0

    @property
    def weights_once(self) -> bool:
        """Whether the L2 cache gives up weights first."""
        return self.config.weights_once or self.looks_ahead

    def delivery(self, operand: Operand) -> Delivery:
        """How an operand is loaded."""
        blocks = self.receivers if operand.value == self.config.grid.shared.value else 1
        weights = operand is Operand.WEIGHTS
        once = self.weights_once if weights else self.config.input_once
        return Delivery(blocks, once=once)

    def loads(self, operand: Operand, stage: Any, rank: Any) -> Any:
        """Whether block `rank` of a cluster loads an operand's part of a stage."""
        if operand is Operand.WEIGHTS and self.config.weights_stay:
            return False
        return True if self.delivery(operand).blocks == 1 else stage % self.receivers == rank

    def loaded_elsewhere(self, stage: Any, rank: Any) -> Any:
        """Whether another block than `rank` loads the shared operand's part of a stage."""
        return False if self.receivers == 1 else stage % self.receivers != rank

    def empty_arrivals(self, stage: int, rank: Any) -> Any:
        """Warps that leave a stage before a block's producer fills it.

        Of all blocks, where this one loads the stage's shared operand for them.
        """
        own = 4 * self.config.row_team
        if self.receivers == 1:
            return T.uint32(own)
        loads = rank == stage % self.receivers
        return T.if_then_else(loads, T.uint32(own * self.receivers), T.uint32(own))

    def part(self, rank: Any, consumer: Any) -> Any:
        """Part of the reduction, and slice of the tile, of a consumer of block `rank`."""
        if self.config.parts == 1:
            return 0
        rank = rank if self.config.split_k > 1 else 0
        return rank * self.config.team.k_groups + consumer // self.config.row_team

    def staged_at(self, thread: Any) -> Any:
        """Byte offset of the rows that a warp lays out."""
        number = thread.consumer * 4 + thread.warp
        return self.weigh_offset + number * (ROWS * self.staged_pitch * self.out_bytes)

    def staged_rows(self, outputs: Any, thread: Any, n: Any) -> StagedRows:
        """The same place in shared memory as outputs, for rows of n tile `n`."""
        first = self.staged_at(thread) // self.out_bytes
        return StagedRows(outputs, first, self.staged_pitch, n * self.config.block_n)

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """What blocks share tiles through."""
        return self.parts.workspaces(self.grid) if self.config.stream_k else ()

    @property
    def replaces_operands(self) -> bool:
        """Whether a block has more pieces than slots, whose operands replace those of others."""
        return self.config.stream_k or self.works > self.grid * self.config.slots

    def begins_tile(self, part: Any, piece: Any) -> Any:
        """Whether a part of a reduction, or a piece of a tile, is the first one."""
        return piece.first == 0 if self.config.stream_k else part == 0

    def first_stage(self, rank: Any, piece: Any = None) -> Any:
        """First pipeline stage of a piece that block `rank` of a cluster computes."""
        if self.config.stream_k:
            return piece.first
        return rank * self.block_stages if self.config.split_k > 1 else 0

    def first_row(self, consumer: Any) -> Any:
        """First row of a tile that a consumer computes."""
        return (
            0 if self.ping_pong else consumer % self.config.row_team * (64 * self.config.m_blocks)
        )

    def first_step(self, consumer: Any) -> Any:
        """Stages that pass before a consumer's first one."""
        if self.ping_pong:
            return consumer * self.layout.stages
        return 0 if self.config.team.k_groups == 1 else consumer // self.config.row_team
