"""Sizes and offsets of one wgmma pipeline kernel, derived from workload, knobs and load."""

from __future__ import annotations

from typing import Any

from autoq.templates.border import border_classes
from autoq.templates.cuda.wgmma_config import BARRIER_BYTES, PipelineConfig
from autoq.templates.cuda.wgmma_loads import Load, Pixel
from autoq.templates.target import Target
from autoq.templates.tiles.border_bias import bias_row
from autoq.templates.tiles.bounded_rows import boundable
from autoq.templates.tiles.bounds import LIMITS
from autoq.templates.tiles.converted_rows import ConvertedRows, convertible
from autoq.templates.tiles.epilogue_table import table_words
from autoq.templates.tiles.raster import tile_of
from autoq.templates.tiles.requantise import RowEpilogue
from autoq.templates.tiles.swizzle import swizzle_mode
from autoq.templates.tiles.tma import tiled_map
from autoq.templates.tiles.weights import KLayout, ceil_div, channels_per_thread
from autoq.templates.tiles.wgmma import K_BYTES, accumulators
from autoq.templates.workload import Conv2d


def grid_blocks(config: PipelineConfig, units: int, tiles: int, n_tiles: int) -> int:
    """Blocks of a kernel; with weights that stay, as many for every n tile."""
    if not config.persistent:
        return tiles
    blocks = min(units * config.blocks_per_unit, tiles)
    return blocks // n_tiles * n_tiles if config.weights_stay else blocks


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
        self.grid = grid_blocks(config, target.units, self.tiles, self.n_tiles)
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
        else:
            self.transaction += self.b_stage_bytes
        self.smem_bytes = config.smem_bytes(layout)
        self.barrier_offset = self.smem_bytes - config.barriers * BARRIER_BYTES
        self.instructions = config.per_stage * config.row_bytes // K_BYTES

        # Teams take turns with a tile each; the warpgroups of a team share its tile.
        self.ping_pong = not config.cooperative and config.consumers > 1
        self.teams = config.consumers if self.ping_pong else 1
        self.team_warpgroups = config.consumers // self.teams
        self.slot_barriers = 2 * config.stages
        self.order_barriers = self.slot_barriers + 2 * config.slots
        self.weight_barrier = config.barriers - 1
        self.block_accumulators = accumulators(config.block_n)

        self.rows, self.columns = border_classes(workload)
        self.classes = self.rows.count * self.columns.count
        self.channels = channels_per_thread(config.block_n)
        self.groups = config.block_n // (4 * self.channels)
        self.bounded = boundable(self.epilogue)
        self.row_epilogue = (ConvertedRows if self.bounded else RowEpilogue)(
            self.epilogue,
            self.channels,
            workload.k,
            tail=self.padded_n != workload.k,
            row_bias=self.classes > 1,
        )
        self.requantise = self.row_epilogue.rows()
        self.convertible = convertible(self.epilogue)
        if isinstance(self.row_epilogue, ConvertedRows):
            self.start_rows = self.row_epilogue.start()
            self.bounded_rows = self.row_epilogue.bounded()
            self.converted_rows = self.row_epilogue.converted()
            self.shared_residual = self.row_epilogue.shared_residual()
        self.table_start = self.classes == 1
        self.table_words = table_words(config.block_n, self.table_start)
        self.scale_words = self.table_words - config.block_n
        self.residual_ahead = config.residual_ahead
        self.residual_bytes = config.block_m * config.block_n if config.residual_ahead else 0
        self.slot_offset = (
            config.stages * config.stage_bytes + config.resident_bytes(layout)
        )  # fmt: skip
        self.slot_transaction = 4 * self.table_words + self.residual_bytes
        self.scalars = 8 + (LIMITS if self.bounded else 0)
        self.load_residual = self.row_epilogue.load()
        extents = (config.m_blocks, self.groups)
        self.outer_extent, self.inner_extent = extents[:: -1 if config.channels_outer else 1]
        self.words = self.row_epilogue.residual_words
        self.residual_early = config.residual_early and self.words > 0
        self.residual_late = not config.residual_early and self.words > 0
        held = config.m_blocks * self.groups if self.residual_early else 1
        self.residual_registers = max(1, held * 2 * self.words)

    def residual_map(self) -> list[int]:
        """Tensor map of residuals [pixels, k]: boxes of a tile's rows by 64 or 128 channels.

        Eight rows of 64 bytes that four lanes each read meet every bank; rows of 128 are swizzled.
        """
        k, box = self.workload.k, self.config.residual_box
        mode = swizzle_mode(box) if box == 128 else 0
        return tiled_map([k, self.elements // k], [k], [box, self.config.block_m], mode)

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
        row_bytes = self.config.row_bytes
        if row_bytes < K_BYTES:
            return instruction * (K_BYTES // row_bytes * sub_tile_bytes)
        each = row_bytes // K_BYTES
        return instruction // each * sub_tile_bytes + instruction % each * K_BYTES

    def tile(self, work: Any) -> tuple[Any, Any]:
        """The (m, n) tile of a work index; n is one for a block whose weights stay."""
        if self.config.weights_stay:
            return work // self.n_tiles, work % self.n_tiles
        return tile_of(work, self.load.m_tiles, self.n_tiles, self.config.group)

    def bias_offset(self, pixel: Pixel) -> Any:
        """Offset of an output pixel's border class in the flat bias table."""
        if self.classes == 1:
            return 0
        return bias_row(self.rows, self.columns, pixel.p, pixel.q) * self.padded_n

    def residual_at(self, block: Any, group: Any, half: Any) -> Any:
        """First register of a fragment row's residual."""
        slot = block * self.groups + group if self.residual_early else 0
        return (slot * 2 + half) * self.words
