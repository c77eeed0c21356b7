"""Sizes and offsets of one mixed-input kernel, derived from workload and knobs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.raster import tile_of
from autoq.templates.cuda.device.memory.parts import TileParts
from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.mixed.conversion import Conversion
from autoq.templates.cuda.mixed.wgmma.config import STEP_BYTES, MixedConfig
from autoq.templates.cuda.mixed.wgmma.groups import GroupStages
from autoq.templates.cuda.mixed.wgmma.residuals import barrier_bytes
from autoq.templates.cuda.mixed.wgmma.rows import MatrixRows, Rows
from autoq.templates.cuda.mixed.wgmma.staging import Staging
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

_INSTRUCTION_BYTES = 32
_STEP_INSTRUCTIONS = STEP_BYTES // _INSTRUCTION_BYTES
_FLOAT_TILE_BYTES = 64 * STEP_BYTES


class MixedPlan:
    """What the kernel's parts share; every attribute is a constant of the kernel.

    Weights are tiles of 64 rows and a step of k, one behind the other along k. In a batch the rows
    of each product's weight, padded to whole tiles, follow those of the one before. rows: where
    those of x come from, the workload's own x by default. apart: whether the results of a batch are
    arrays of their own.
    """

    def __init__(
        self, workload: FloatGemm, config: MixedConfig, rows: Rows | None = None,
        apart: bool = False,
    ) -> None:  # fmt: skip
        self.workload, self.config, self.apart = workload, config, apart
        self.rows = rows or MatrixRows(workload)
        self.conversion = Conversion(workload, config.group_scale, config.widening)
        value_bytes = workload.inputs[0].element.bytes
        self.step_k = STEP_BYTES // value_bytes
        shape = (64, config.block_m, _INSTRUCTION_BYTES // value_bytes)
        factor, registers = workload.in_dtype, workload.quantised
        self.atom = Wgmma(shape, factor, factor, "float32", a_from_registers=registers)
        self.m_tiles = -(-workload.m // config.block_m)
        self.n_clusters = config.columns(workload.n)
        self.padded_n = self.n_clusters * config.cluster * config.block_n
        # A consumer's stages come in pairs, so that its registers of A take turns.
        pair = 2 * config.steps * self.step_k * config.k_groups
        self.padded_k = -(-workload.k // pair) * pair
        self.k_steps = self.padded_k // self.step_k
        self.k_stages = self.k_steps // config.steps
        self.portions = self.k_stages // config.k_groups // 2
        self.parts = TileParts(config.cluster, config.row_team, config.accumulators, "float32")
        self.product_works = self.m_tiles * self.n_clusters
        self.works = workload.batch * self.product_works
        self.weight_rows = workload.batch * self.padded_n

        self.tile_bytes = self.conversion.tile_bytes if workload.quantised else _FLOAT_TILE_BYTES
        self.weight_bytes = self.weight_rows // 64 * self.k_steps * self.tile_bytes
        self.block_bytes = config.steps * self.tile_bytes
        self.weight_offset = config.steps * config.x_bytes
        own = self.weight_offset + config.blocks * self.block_bytes
        self.stage_bytes = -(-own // 1024) * 1024
        self.loaded_bytes = config.steps * 128 * config.loaded_rows * config.cluster
        self.transaction = self.loaded_bytes + config.blocks * self.block_bytes

        self.store_offset = config.all_stages * self.stage_bytes
        self.staging = Staging(workload, config, workload.batch > 1 and not apart)
        # Two staging buffers of a consumer, where sums of other blocks have arrived before.
        self.store_bytes = max(2 * self.staging.bytes, config.incoming_bytes)
        self.exchange_offset = self.store_offset + config.storers * self.store_bytes
        self.barrier_offset = self.exchange_offset + config.exchange_bytes
        own = barrier_bytes(config.storers) if workload.residual else 0
        self.barriers = config.barriers + own // BARRIER_BYTES
        self.smem_bytes = self.barrier_offset + self.barriers * BARRIER_BYTES

        # Without groups, what is taken from a row's weights is the same over all k.
        self.groups_scale_sums = workload.quantised and self.conversion.scales_sums
        self.rows_shifted = workload.quantised and not self.conversion.group_words
        self.rows_scaled = workload.scaled and not self.groups_scale_sums
        # Registers of A of a row block's stage.
        self.a_registers = 4 * _STEP_INSTRUCTIONS * config.steps
        self.converts = workload.quantised
        self.groups = GroupStages(self.conversion, config) if self.groups_scale_sums else None
        # Instructions along k that are started together.
        self.unit_instructions = _STEP_INSTRUCTIONS * config.steps
        if self.groups is not None:
            self.unit_instructions //= self.groups.units

    @cached_property
    def convert(self) -> DeviceFunction | None:
        """What widens the values of a word, whose source is written for kernels alone."""
        return self.conversion.function() if self.workload.quantised else None

    def store_at(self, consumer: Any) -> Any:
        """Byte offset of the staging buffers of a consumer, one of those that store."""
        return self.store_offset + self.storer(consumer) * self.store_bytes

    def storer(self, consumer: Any) -> Any:
        """The number of a consumer among those of its block that store."""
        return consumer // self.config.split_k if self.config.split_cluster else consumer

    def loads(self, warp: Any) -> Any:
        """Whether a warp of the first warpgroup loads operands, those of a team."""
        return warp == 0 if self.config.teams == 1 else warp < self.config.teams

    def team(self, index: Any) -> Any:
        """The team whose operands a warp loads, or that a consumer belongs to."""
        return 0 if self.config.teams == 1 else index

    def clusters(self, target: Target) -> int:
        """Clusters that a target runs at once, at least one."""
        return max(target.units_in_clusters(self.config.cluster) // self.config.cluster, 1)

    def grid(self, target: Target) -> int:
        """Clusters of the launch: those that run at once, or one for each piece of work."""
        if self.config.split_k > 1:
            return self.works * self.config.split_k
        most = self.works * self.portions if self.config.stream_k else self.works
        return min(self.clusters(target), most)

    @property
    def y_rank(self) -> int:
        """Dimensions of the map of y."""
        return 3 if self.staging.batched else 2

    @property
    def ys(self) -> int:
        """Arrays of results."""
        return self.workload.batch if self.apart else 1

    def tile(self, work: Any, rank: Any) -> tuple[Any, Any]:
        """The (m, n) tile of a work index and a block of its cluster."""
        if self.workload.batch > 1:
            work = work % self.product_works
        m, n = tile_of(
            work, self.m_tiles, self.n_clusters, self.config.group_m, self.config.turns_back
        )
        return m, n * self.config.cluster + rank

    def product(self, work: Any) -> Any:
        """The product of the batch that a work index belongs to."""
        return work // self.product_works if self.workload.batch > 1 else 0

    def weight_tile(self, place: Any) -> Any:
        """Index along all products' weight rows of the tile at a place."""
        if self.workload.batch == 1:
            return place.n
        return place.product * (self.padded_n // self.config.block_n) + place.n

    def first_row(self, rank: Any) -> Any:
        """First of the tile's rows of x that a block loads."""
        if self.config.cluster == 1:
            return 0
        last = self.config.block_m - self.config.loaded_rows
        return T.min(rank * self.config.loaded_rows, last)

    def weight_at(self, n: Any, block: int, stage: Any) -> Any:
        """Byte offset of a stage's tiles of a block of 64 weight rows."""
        row_block = n * self.config.blocks + block
        if self.weight_bytes >= 1 << 31:
            row_block = T.cast(row_block, "int64")
        return (row_block * self.k_steps + stage * self.config.steps) * self.tile_bytes

    def x_step(self, instruction: Any) -> Any:
        """Bytes from a stage's start to what one instruction takes of x."""
        step, within = instruction // _STEP_INSTRUCTIONS, instruction % _STEP_INSTRUCTIONS
        return step * self.config.x_bytes + within * _INSTRUCTION_BYTES

    def a_step(self, instruction: Any) -> Any:
        """The same of a row block's floating-point weights."""
        step, within = instruction // _STEP_INSTRUCTIONS, instruction % _STEP_INSTRUCTIONS
        return step * self.tile_bytes + within * _INSTRUCTION_BYTES

    def a_at(self, parity: Any, block: Any, instruction: Any) -> Any:
        """First of the registers of A that one instruction takes."""
        return (parity * self.config.row_blocks + block) * self.a_registers + 4 * instruction

    def exchanged(self, giver: Any, index: Any, thread: Any) -> Any:
        """Place of a consumer's sum among those given, by its number behind the first group's."""
        return (giver * self.config.accumulators + index) * 128 + thread
