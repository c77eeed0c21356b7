"""Sizes and offsets of one wgmma pipeline kernel, derived from workload, knobs and load."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.border import border_classes
from autoq.templates.cuda.device.border_bias import bias_row
from autoq.templates.cuda.device.launch.raster import tile_of
from autoq.templates.cuda.device.memory.exchange import (
    add_partial,
    keep_slice,
    send_partial,
    store_partial,
)
from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import Delivery, tiled_map
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.device.pixel import Pixel
from autoq.templates.cuda.device.weights import KLayout, ceil_div
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.cuda.wgmma.loads import Load
from autoq.templates.epilogue.cuda.bounds import LIMITS
from autoq.templates.epilogue.cuda.epilogue_table import table_words
from autoq.templates.epilogue.cuda.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.lookups import table_bytes
from autoq.templates.epilogue.cuda.requantisation import Form, boundable, convertible
from autoq.templates.epilogue.cuda.scalars import scalar_words
from autoq.templates.epilogue.cuda.started_rows import shared_residual, start_rows
from autoq.templates.epilogue.cuda.wgmma_units import Unit, unit_at
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target


def grid_clusters(config: PipelineConfig, target: Target, works: int, n_tiles: int) -> int:
    """Clusters of a kernel; with weights that stay, as many for every n tile."""
    if not config.persistent:
        return works
    units = target.units_in_clusters(config.cluster)
    resident = units * config.blocks_per_unit // config.cluster
    clusters = min(resident, works)
    return clusters // n_tiles * n_tiles if config.weights_stay else clusters


class PipelinePlan:
    """What the kernel's parts share; every attribute is a compile-time constant of the kernel."""

    def __init__(
        self, workload: Conv2d, config: PipelineConfig, layout: KLayout, load: Load, target: Target
    ) -> None:
        self.workload, self.config, self.layout, self.load = workload, config, layout, load
        self.epilogue = workload.epilogue

        self.n_tiles = ceil_div(workload.k, config.block_n)
        self.padded_n = self.n_tiles * config.block_n
        self.tiles = load.m_tiles * self.n_tiles
        # A cluster computes neighbouring tiles at a time, or all of it one tile.
        self.receivers = config.receivers
        self.works = self.tiles // self.receivers
        self.grid = grid_clusters(config, target, self.works, self.n_tiles)
        self.elements = workload.n * workload.p * workload.q * workload.k

        # Shared memory of a stage: per_stage sub-tiles of activations, then as many of weights,
        # which else lie behind all stages, where a stage's step is the k of the main loop.
        self.a_bytes = config.block_m * config.row_bytes
        self.b_bytes = config.block_n * config.row_bytes
        self.b_stage_bytes = config.per_stage * self.b_bytes
        self.b_offset = config.per_stage * self.a_bytes
        self.transaction = config.per_stage * load.rows * config.row_bytes
        if config.weights_stay:
            self.b_offset = config.stages * config.stage_bytes
            # Stages of the first tile whose weights need not wait for an empty stage.
            self.early_stages = min(config.stages, layout.stages)
        else:
            self.transaction += self.b_stage_bytes
        self.smem_bytes = config.smem_bytes(layout)
        self.barrier_offset = self.smem_bytes - config.barriers * BARRIER_BYTES
        self.lookups_at = self.smem_bytes
        self.smem_bytes += table_bytes(self.epilogue)
        self.block_stages = layout.stages // config.split_k
        self.own_stages = layout.stages // config.parts
        self.atom = Wgmma.dense(config.block_n, workload.in_dtype, "int8", "int32")
        self.instructions = config.per_stage * config.row_bytes // self.atom.a_bytes

        # Teams take turns with a tile each; the warpgroups of a team share its tile.
        self.ping_pong = config.teams > 1
        self.teams = config.teams
        self.team_warpgroups = config.consumers // self.teams
        # The warp that begins with TMA, the one that loads operands, another for weights that
        # stay, and the consumers.
        self.starting_warps = 3 if config.weights_stay else 2
        self.started_threads = 32 * self.starting_warps + 128 * config.consumers
        self.slot_barriers = 2 * config.stages
        self.order_barriers = self.slot_barriers + 2 * config.slots
        self.exchange_barriers = self.order_barriers
        self.block_accumulators = self.atom.d_registers
        self.b_stage_values = self.b_stage_bytes // self.atom.b_element.bytes

        self.rows, self.columns = border_classes(workload)
        self.classes = self.rows.count * self.columns.count
        self.channels = config.channels
        self.groups = config.groups
        self.bounded = boundable(self.epilogue)
        self.started = self.bounded or config.parts > 1
        self.row_epilogue = FragmentRows(
            self.epilogue,
            self.channels,
            workload.k,
            tail=self.padded_n != workload.k,
            row_bias=self.classes > 1,
            bias=not self.bounded,
        )
        self.requantise = self.row_epilogue.rows()
        self.convertible = convertible(self.epilogue)
        if self.bounded:
            self.start_rows = start_rows(self.channels, self.classes > 1)
            self.bounded_rows = self.row_epilogue.rows(Form.BOUNDED)
            self.converted_rows = self.row_epilogue.rows(Form.CONVERTED)
            self.shared_residual = shared_residual()
        self.table_start = self.classes == 1
        self.table_words = table_words(config.block_n, self.table_start)
        self.scale_words = self.table_words - config.block_n
        self.residual_ahead = config.residual_ahead
        self.residual_bytes = config.block_m * config.block_n if config.residual_ahead else 0
        self.slot_offset = (
            config.stages * config.stage_bytes + config.resident_bytes(layout)
        )  # fmt: skip
        self.slot_transaction = 4 * self.table_words + self.residual_bytes
        self.limits_at = scalar_words(self.epilogue)
        self.scalars = self.limits_at + (LIMITS if self.bounded else 0)
        self.load_residual = self.row_epilogue.load()
        # A thread's accumulators are 64-row blocks of channel groups; a slice is some of these.
        self.units = config.m_blocks * self.groups // config.parts
        self.slice_bytes = 512 * config.slice_words
        self.exchange_offset = self.barrier_offset - config.exchange_bytes
        self.exchange_transaction = (config.parts - 1) * self.slice_bytes
        self.send_partial = send_partial(config.slice_words)
        self.store_partial = store_partial(config.slice_words)
        self.add_partial = add_partial(config.slice_words)
        self.keep_slice = keep_slice(config.slice_words)
        self.words = self.row_epilogue.residual_words
        self.residual_early = config.residual_early and self.words > 0
        self.residual_late = not config.residual_early and self.words > 0
        held = self.units if self.residual_early else 1
        self.residual_registers = max(1, held * 2 * self.words)

    def residual_map(self) -> list[int]:
        """Tensor map of residuals [pixels, k]: boxes of a tile's rows by 64 or 128 channels.

        Eight rows of 64 bytes that four lanes each read meet every bank; rows of 128 are swizzled.
        """
        k, box = self.workload.k, self.config.residual_box
        mode = swizzle_mode(box) if box == 128 else 0
        dtype = self.epilogue.residual_dtype or self.epilogue.out_dtype
        return tiled_map(dtype, [k, self.elements // k], [k], [box, self.config.block_m], mode)

    def table_at(self, slot: Any, group: Any, lane: Any) -> Any:
        """Byte offset of a thread's start values of a channel group in shared memory."""
        base = self.slot_offset + slot * self.config.slot_bytes + self.residual_bytes
        return base + group * (32 * self.channels) + lane % 4 * 16

    def scale_at(self, slot: Any, group: Any, lane: Any) -> Any:
        """Byte offset of a thread's scales of a channel group in shared memory."""
        base = self.slot_offset + slot * self.config.slot_bytes + self.residual_bytes
        return base + 4 * self.scale_words + group * (16 * self.channels) + lane % 4 * 16

    def shared_residual_at(self, slot: Any, group: Any, row: Any, lane: Any) -> Any:
        """Byte offset of a tile row's residuals of a thread's channels; row % 8 is lane // 4."""
        box, groups = self.config.residual_box, self.config.residual_box // 64
        base = self.slot_offset + slot * self.config.slot_bytes
        base += group // groups * (box * self.config.block_m) + row * box
        chunk = group % groups * 4 + lane % 4
        return base + (chunk ^ (lane // 4) if box == 128 else chunk) * 16

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
        each_m = self.receivers if self.config.shared == "weights" else 1
        each_n = self.receivers if self.config.shared == "activations" else 1
        m, n = tile_of(work, self.load.m_tiles // each_m, self.n_tiles // each_n, self.config.group)
        if each_m > 1:
            return m * each_m + rank, n
        return (m, n * each_n + rank) if each_n > 1 else (m, n)

    def expected(self, first: Any) -> Any:
        """Bytes of a stage's barrier: those of weights that stay come with the first tile."""
        if not self.config.weights_stay:
            return T.uint32(self.transaction)
        both = self.transaction + self.b_stage_bytes
        return T.if_then_else(first, T.uint32(both), T.uint32(self.transaction))

    def delivery(self, operand: str) -> Delivery:
        """How "activations", "weights" or a "residual" are loaded."""
        blocks = self.receivers if operand == self.config.shared else 1
        return Delivery(blocks, once=self.config.input_once and operand != "weights")

    def loads(self, operand: str, stage: Any, rank: Any) -> Any:
        """Whether block `rank` of a cluster loads an operand's part of a stage."""
        if operand == "weights" and self.config.weights_stay:
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

    def bias_offset(self, pixel: Pixel) -> Any:
        """Offset of an output pixel's border class in the flat bias table."""
        if self.classes == 1:
            return 0
        return bias_row(self.rows, self.columns, pixel.p, pixel.q) * self.padded_n

    def residual_at(self, unit: Unit, half: Any) -> Any:
        """First register of a fragment row's residual."""
        return ((unit.index if self.residual_early else 0) * 2 + half) * self.words

    def part(self, rank: Any, consumer: Any) -> Any:
        """Part of the reduction, and slice of the tile, of a consumer of block `rank`."""
        if self.config.parts == 1:
            return 0
        rank = rank if self.config.split_k > 1 else 0
        return rank * self.config.k_groups + consumer // self.config.row_team

    def unit(self, step: Any, part: Any) -> Unit:
        """The unit that comes at a step of the epilogue of a part."""
        config, channels = self.config, self.channels
        if config.parts == 1:
            return unit_at(step, config.m_blocks, self.groups, channels, config.channels_outer)
        index = part * self.units + step
        return Unit(step, step * (2 * channels), index // self.groups, index % self.groups)

    def first_stage(self, rank: Any) -> Any:
        """First pipeline stage of the reduction that block `rank` of a cluster computes."""
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
        return 0 if self.config.k_groups == 1 else consumer // self.config.row_team

    def partial_at(self, receiver: Any, slice_: int, sender: Any) -> Any:
        """Byte offset in a block's shared memory of what part `sender` sends of a slice."""
        distance = (sender - slice_ + self.config.parts) % self.config.parts
        return self.arrived_at(receiver, distance - 1)

    def arrived_at(self, receiver: Any, index: Any) -> Any:
        """Byte offset of the partial sums that a consumer received from one of the others."""
        each = (self.config.parts - 1) * self.slice_bytes
        return self.exchange_offset + receiver * each + index * self.slice_bytes
