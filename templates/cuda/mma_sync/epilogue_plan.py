"""How the mma.sync kernel ends a tile: borders, scales of groups, residuals and rows of outputs."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from autoq.templates.arrays.layout import ROW_BYTES
from autoq.templates.borders.classes import BorderClasses, border_classes
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.mma_sync.config import STAGED_RUN, MmaSyncConfig
from autoq.templates.cuda.mma_sync.rows import output_channel
from autoq.templates.cuda.mma_sync.tiling import (
    MmaSyncTiling,
    as_conv2d,
)
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.fragments.scale_groups import add_group
from autoq.templates.epilogue.cuda.fragments.shuffled_rows import ShuffledRows
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target


@dataclass(frozen=True)
class MmaSyncEpiloguePlan:
    """What becomes of the accumulators of one workload, configuration and target."""

    workload: Conv2d | Gemm
    config: MmaSyncConfig
    target: Target

    @functools.cached_property
    def conv(self) -> Conv2d:
        return as_conv2d(self.workload)

    @functools.cached_property
    def tiling(self) -> MmaSyncTiling:
        return MmaSyncTiling(self.conv, self.config)

    @property
    def accumulator_shift(self) -> int:
        """Bits by which accumulators are too large: unpacked nibbles are 16 times their value."""
        return 4 * (self.tiling.unpacks_pixels + self.tiling.unpacks_weights)

    @functools.cached_property
    def classes(self) -> tuple[BorderClasses, BorderClasses]:
        """Border classes of output rows and columns."""
        return border_classes(self.conv)

    @property
    def bias_rows(self) -> int:
        rows, columns = self.classes
        return rows.count * columns.count

    @functools.cached_property
    def epilogue(self) -> FragmentRows | ShuffledRows:
        """Rows start at multiples of a group's channels, which decides how wide stores are."""
        group_k, packing = self.tiling.group_k, self.config.packing
        tail, row_bias = group_k % self.config.block_n != 0, self.bias_rows > 1
        if packing == "shuffle":
            block_pitch = output_channel(self.conv, "int8", ROW_BYTES)
            return ShuffledRows(self.workload.epilogue, group_k, tail, row_bias, block_pitch)
        run = STAGED_RUN if packing == "shared" else self.config.run
        shift_at = self.tiling.padded_k * self.conv.scale_groups
        rows = run, group_k, tail, row_bias, not self.conv.epilogue.scale_group, shift_at
        return FragmentRows(self.workload.epilogue, *rows)

    @property
    def group_steps(self) -> int:
        """Steps of the reduction that share scales."""
        values = self.config.block_k * (2 if self.config.compute == "s4" else 1)
        return self.workload.epilogue.scale_group // values

    @functools.cached_property
    def add_group(self) -> DeviceFunction:
        tiles = self.config.WARP_ROW_TILES, self.config.WARP_COL_TILES
        return add_group(*tiles, self.accumulator_shift)

    @property
    def residual_registers(self) -> int:
        """Registers of the residuals of a thread's two rows."""
        groups = 1 if self.config.packing == "shared" else self.config.column_groups
        return max(2 * groups * self.epilogue.residual_words, 1)

    @functools.cached_property
    def load_residual(self) -> DeviceFunction:
        return self.epilogue.load()

    @property
    def lookups_at(self) -> int:
        """Byte of shared memory where a table of outputs begins."""
        return self.tiling.lookups_at

    @functools.cached_property
    def requantise(self) -> DeviceFunction:
        return self.epilogue.rows()
