"""How the mma.sync product is cut: tiles, steps of the reduction, and shared memory."""

from __future__ import annotations

import math
from typing import Any

from autoq.templates.arrays.element import Element, element
from autoq.templates.cuda.mixed.mma_sync.config import STEP_BYTES, MixedSyncConfig
from autoq.templates.cuda.mixed.mma_sync.fragments import Fragments
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm

UNIT_BYTES = 16
"""Shared memory is swizzled, and read by ldmatrix, in units of 16 bytes."""
CHUNK_BYTES = 32
"""Bytes of a row of weights that a warp reads at a time: a fragment of floats, two of bytes, or
four of nibbles."""
_ALIGNMENT = 128
_TABLE_BYTES = 1024


class MixedSyncTiling:
    """Sizes and offsets that follow from workload and configuration, whatever the target.

    A stage holds rows of x, then weights, then what groups need; a tile of results takes the place
    of the stages when they are done. Weight rows of each product of a batch are padded to whole
    tiles. Bytes, unless a name says otherwise.
    """

    def __init__(self, workload: FloatGemm, config: MixedSyncConfig) -> None:
        self.workload, self.config = workload, config
        self.m_tiles = -(-workload.m // config.block_m)
        self.n_tiles = -(-workload.n // config.block_n)
        self.product_tiles = self.m_tiles * self.n_tiles
        self.tiles = workload.batch * self.product_tiles
        self.k_steps = -(-workload.k // config.block_k)
        self.split_steps = -(-self.k_steps // config.split_k)
        self.padded_n = self.n_tiles * config.block_n
        self.weight_rows = workload.batch * self.padded_n
        self.padded_k = self.k_steps * config.block_k

        self.fragments = Fragments(workload, config.widening, config.layout)
        self.bits = element(workload.weight_dtype).bits
        self.value_bytes = workload.inputs[0].element.bytes
        self.step_k = STEP_BYTES // self.value_bytes
        self.x_row_bytes = self.value_bytes * config.block_k
        self.weight_row_bytes = config.block_k * self.bits // 8
        self.packed_bytes = self.weight_rows * self.padded_k * self.bits // 8
        self.chunk_k = CHUNK_BYTES * 8 // self.bits
        self.chunks = config.block_k // self.chunk_k
        self.stage_groups = max(config.block_k // workload.group, 1) if workload.group else 0

        self.weight_offset = config.block_m * self.x_row_bytes
        self.group_offset = self.weight_offset + config.block_n * self.weight_row_bytes
        own = self.group_offset + 4 * self.stage_groups * config.block_n
        self.stage_bytes = -(-own // _ALIGNMENT) * _ALIGNMENT
        self.table_offset = max(config.stages * self.stage_bytes, self.result_bytes)
        self.table_offset = -(-self.table_offset // _ALIGNMENT) * _ALIGNMENT
        table = _TABLE_BYTES if config.widening is Widening.TABLE else 0
        self.smem_bytes = self.table_offset + table

    @property
    def group_columns(self) -> int:
        """Groups along the padded k."""
        return -(-self.padded_k // self.workload.group) if self.workload.group else 0

    @property
    def result(self) -> Element:
        """What a tile is stored as: y's type, or float32 for a part of the sums."""
        return element("float32" if self.config.split_k > 1 else self.workload.out_dtype)

    @property
    def result_shape(self) -> tuple[int, int]:
        """Rows and columns of a tile of y."""
        tile = (self.config.block_m, self.config.block_n)
        return tile[::-1] if self.workload.weight_left else tile

    @property
    def result_pitch(self) -> int:
        """Bytes of a row of a tile of results: quads of threads that write together meet other
        banks."""
        wide = self.workload.weight_left and self.result.bytes == 4
        return self.result_shape[1] * self.result.bytes + (32 if wide else 16)

    @property
    def result_bytes(self) -> int:
        """Shared memory of a tile of results."""
        return self.result_shape[0] * self.result_pitch

    @property
    def piece(self) -> int:
        """Bytes of x that are copied at a time: rows start at multiples of them."""
        return math.gcd(self.workload.k * self.value_bytes, UNIT_BYTES)

    @property
    def result_piece(self) -> int:
        """Bytes of a row of y that are stored at a time."""
        values = UNIT_BYTES // self.result.bytes
        return self.result.bytes * math.gcd(self.workload.y_shape[-1], values)


def unit_offset(row_bytes: int, row: Any, unit: Any) -> Any:
    """Byte offset of a 16-byte unit of a row: eight rows' units of one number meet all banks."""
    units = row_bytes // UNIT_BYTES
    rows_of_line = max(8 // units, 1)
    return row * row_bytes + (unit ^ (row // rows_of_line % min(units, 8))) * UNIT_BYTES
