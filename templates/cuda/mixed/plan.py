"""Sizes and offsets of one mixed-input kernel, derived from workload and knobs."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.raster import tile_of
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import tiled_map
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.mixed.config import STEP_K, MixedConfig
from autoq.templates.cuda.mixed.conversion import Conversion
from autoq.templates.cuda.mixed.groups import GroupSums
from autoq.templates.cuda.mixed.staging import Staging
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

_K16 = 16
_STEP_INSTRUCTIONS = STEP_K // _K16
_FLOAT_TILE_BYTES = 64 * STEP_K * 2


class MixedPlan:
    """What the kernel's parts share; every attribute is a constant of the kernel.

    Weights are tiles of 64 rows and 64 k, one behind the other along k.
    """

    def __init__(self, workload: FloatGemm, config: MixedConfig) -> None:
        self.workload, self.config = workload, config
        self.conversion = Conversion(workload, config.group_scale, config.widening)
        self.atom = Wgmma(
            (64, config.block_m, _K16), workload.in_dtype, workload.in_dtype, "float32",
            a_from_registers=workload.quantised,
        )  # fmt: skip
        self.m_tiles = -(-workload.m // config.block_m)
        n_tiles = -(-workload.n // config.block_n)
        self.n_clusters = -(-n_tiles // config.cluster)
        self.padded_n = self.n_clusters * config.cluster * config.block_n
        # A consumer's stages come in pairs, so that its registers of A take turns.
        pair = 2 * config.steps * STEP_K * config.k_groups
        self.padded_k = -(-workload.k // pair) * pair
        self.k_steps = self.padded_k // STEP_K
        self.k_stages = self.k_steps // config.steps
        self.pairs = self.k_stages // config.k_groups // 2
        self.works = self.m_tiles * self.n_clusters

        self.tile_bytes = self.conversion.tile_bytes if workload.quantised else _FLOAT_TILE_BYTES
        self.weight_bytes = self.padded_n // 64 * self.k_steps * self.tile_bytes
        self.block_bytes = config.steps * self.tile_bytes
        self.weight_offset = config.steps * config.x_bytes
        own = self.weight_offset + config.blocks * self.block_bytes
        self.stage_bytes = -(-own // 1024) * 1024
        self.loaded_bytes = config.steps * 128 * config.loaded_rows * config.cluster
        self.transaction = self.loaded_bytes + config.blocks * self.block_bytes

        self.store_offset = config.stages * self.stage_bytes
        self.staging = Staging(workload, config)
        self.exchange_offset = self.store_offset + 2 * config.row_team * self.staging.bytes
        self.barrier_offset = self.exchange_offset + config.exchange_bytes
        self.smem_bytes = self.barrier_offset + config.barriers_bytes

        # Without groups, what is taken from a row's weights is the same over all k.
        self.rows_shifted = workload.quantised and not self.conversion.group_words
        self.rows_scaled = workload.quantised and not self.conversion.scales_sums
        # Registers of A of a row block's stage.
        self.a_registers = 4 * _STEP_INSTRUCTIONS * config.steps
        self.converts = workload.quantised
        self.groups = GroupSums(self.conversion, config) if self.conversion.scales_sums else None
        # Instructions along k that are started together.
        self.unit_instructions = _STEP_INSTRUCTIONS * config.steps
        if self.groups is not None:
            self.unit_instructions //= self.groups.units
        self.convert = self.conversion.function() if workload.quantised else None

    def clusters(self, target: Target) -> int:
        """Clusters that a target runs at once."""
        return target.units_in_clusters(self.config.cluster) // self.config.cluster

    def grid(self, target: Target) -> int:
        """Clusters of the launch: those that run at once, or one for each piece of work."""
        if self.config.split_k > 1:
            return self.works * self.config.split_k
        most = self.works * self.pairs if self.config.stream_k else self.works
        return max(min(self.clusters(target), most), 1)

    def shared_tiles(self, grid: int) -> int:
        """Tiles of which `stream_k` shares out the reductions: less than two waves of them."""
        waves = self.works // grid
        return self.works - max(waves - 1, 0) * grid

    def x_map(self) -> list[int]:
        """Arguments of the map of x: boxes of 64 k and the rows that a block loads."""
        work = self.workload
        box = [STEP_K, self.config.loaded_rows]
        return tiled_map(work.in_dtype, [work.k, work.m], [work.k], box, swizzle_mode(128))

    def tile(self, work: Any, rank: Any) -> tuple[Any, Any]:
        """The (m, n) tile of a work index and a block of its cluster."""
        m, n = tile_of(work, self.m_tiles, self.n_clusters, self.config.group_m)
        return m, n * self.config.cluster + rank

    def first_row(self, rank: Any) -> Any:
        """First of the tile's rows of x that a block loads."""
        if self.config.cluster == 1:
            return 0
        last = self.config.block_m - self.config.loaded_rows
        return T.min(rank * self.config.loaded_rows, last)

    def weight_at(self, n: Any, block: int, stage: Any) -> Any:
        """Byte offset of a stage's tiles of a block of 64 weight rows."""
        row_block = n * self.config.blocks + block
        return (row_block * self.k_steps + stage * self.config.steps) * self.tile_bytes

    def x_step(self, instruction: Any) -> Any:
        """Bytes from a stage's start to what one instruction takes of x."""
        step, within = instruction // _STEP_INSTRUCTIONS, instruction % _STEP_INSTRUCTIONS
        return step * self.config.x_bytes + within * 2 * _K16

    def a_step(self, instruction: Any) -> Any:
        """The same of a row block's floating-point weights."""
        step, within = instruction // _STEP_INSTRUCTIONS, instruction % _STEP_INSTRUCTIONS
        return step * self.tile_bytes + within * 2 * _K16

    def a_at(self, parity: Any, block: Any, instruction: Any) -> Any:
        """First of the registers of A that one instruction takes."""
        return (parity * self.config.row_blocks + block) * self.a_registers + 4 * instruction

    def exchanged(self, giver: Any, index: Any, thread: Any) -> Any:
        """Place of a consumer's sum among those given, by its number behind the first group's."""
        return (giver * self.config.accumulators + index) * 128 + thread
