"""Sizes and offsets of one wgmma pipeline kernel, derived from workload, knobs and load."""

from __future__ import annotations

from typing import Any

from autoq.templates.border import border_classes
from autoq.templates.cuda.wgmma_config import PipelineConfig
from autoq.templates.cuda.wgmma_loads import Load, Pixel
from autoq.templates.target import Target
from autoq.templates.tiles.border_bias import bias_row
from autoq.templates.tiles.requantise import RowEpilogue
from autoq.templates.tiles.weights import KLayout, ceil_div, channels_per_thread
from autoq.templates.tiles.wgmma import K_BYTES, accumulators
from autoq.templates.workload import Conv2d


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
        resident = target.units * config.blocks_per_unit
        self.grid = min(resident, self.tiles) if config.persistent else self.tiles
        self.elements = workload.n * workload.p * workload.q * workload.k

        # Shared memory of a stage: per_stage sub-tiles of activations, then as many of weights.
        self.a_bytes = config.block_m * config.row_bytes
        self.b_bytes = config.block_n * config.row_bytes
        self.b_offset = config.per_stage * self.a_bytes
        self.transaction = config.per_stage * (load.rows * config.row_bytes + self.b_bytes)
        self.instructions = config.per_stage * config.row_bytes // K_BYTES

        # Teams take turns with a tile each; the warpgroups of a team share its tile.
        self.ping_pong = not config.cooperative and config.consumers > 1
        self.teams = config.consumers if self.ping_pong else 1
        self.team_warpgroups = config.consumers // self.teams
        self.order_barriers = 2 * config.stages
        self.block_accumulators = accumulators(config.block_n)

        self.rows, self.columns = border_classes(workload)
        self.classes = self.rows.count * self.columns.count
        self.channels = channels_per_thread(config.block_n)
        self.groups = config.block_n // (4 * self.channels)
        self.row_epilogue = RowEpilogue(
            self.epilogue,
            self.channels,
            workload.k,
            tail=self.padded_n != workload.k,
            row_bias=self.classes > 1,
        )
        self.requantise = self.row_epilogue.rows()
        self.load_residual = self.row_epilogue.load()
        extents = (config.m_blocks, self.groups)
        self.outer_extent, self.inner_extent = extents[:: -1 if config.channels_outer else 1]
        self.words = self.row_epilogue.residual_words
        self.residual_early = config.residual_early and self.words > 0
        self.residual_late = not config.residual_early and self.words > 0
        held = config.m_blocks * self.groups if self.residual_early else 1
        self.residual_registers = max(1, held * 2 * self.words)

    def k_offset(self, instruction: Any, sub_tile_bytes: int) -> Any:
        """Byte offset of an instruction's k inside the sub-tiles of one operand."""
        row_bytes = self.config.row_bytes
        if row_bytes < K_BYTES:
            return instruction * (K_BYTES // row_bytes * sub_tile_bytes)
        each = row_bytes // K_BYTES
        return instruction // each * sub_tile_bytes + instruction % each * K_BYTES

    def bias_offset(self, pixel: Pixel) -> Any:
        """Offset of an output pixel's border class in the flat bias table."""
        if self.classes == 1:
            return 0
        return bias_row(self.rows, self.columns, pixel.p, pixel.q) * self.padded_n

    def residual_at(self, block: Any, group: Any, half: Any) -> Any:
        """First register of a fragment row's residual."""
        slot = block * self.groups + group if self.residual_early else 0
        return (slot * 2 + half) * self.words
