"""What the kernel of a batched product with x from registers knows before it runs."""

from __future__ import annotations

import math

from autoq.templates.cuda.batched.rows.config import WARPGROUP_ROWS, BatchedRowsConfig
from autoq.templates.cuda.device.mma.wgmma import K_BYTES, Wgmma
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

UNIT_BYTES = 16
COLUMN_GROUP = 16
"""Columns of other that a warp turns at a time."""
_WARP_ROWS, _CORE_ROWS = 16, 8
# Between groups of eight columns of the turned other, so that its writers meet other banks.
_TURNED_GAP = UNIT_BYTES
_SUM_BYTES = 4
_LARGEST_FACTOR = 255
"""A byte less a zero point."""


class BatchedRowsPlan:
    """A batched product of bytes cut into the tiles of a configuration. Sizes count bytes.

    Shared memory holds other as it lies, [k, n]; then turned, for each 32 values of k groups of
    eight columns of two 8 x 16-byte matrices; a matrix of ones; sums of columns; the barrier; and
    a block's rows of x as they lie in memory, from the 16-byte unit on that the first one is in.
    """

    def __init__(self, workload: BatchedGemm, config: BatchedRowsConfig, target: Target) -> None:
        self.workload, self.config, self.target = workload, config, target
        self.tiles_k = ceil_div(workload.k, K_BYTES)
        self.groups = workload.n // COLUMN_GROUP
        self.tiles_m = ceil_div(workload.m, config.block_m)
        self.blocks = workload.products * self.tiles_m
        self.other_gap = UNIT_BYTES if self.groups % 2 == 0 else 2 * UNIT_BYTES
        """Behind each eight rows of other, so that ldmatrix meets other banks."""
        self.turned_group = _CORE_ROWS * K_BYTES + _TURNED_GAP
        self.turned_tile = workload.n // _CORE_ROWS * self.turned_group
        eight = _CORE_ROWS * workload.n + self.other_gap
        self.turned_at = self.tiles_k * K_BYTES // _CORE_ROWS * eight
        self.ones_at = self.turned_at + self.tiles_k * self.turned_tile
        self.sums_at = self.ones_at + _CORE_ROWS * K_BYTES
        self.barrier_at = self.sums_at + workload.n * _SUM_BYTES
        self.x_at = self.barrier_at + UNIT_BYTES
        warp_rows = ceil_div(workload.m, _WARP_ROWS) * _WARP_ROWS
        held = min(config.block_m, warp_rows) * workload.k + UNIT_BYTES + 2 * K_BYTES
        self.smem_bytes = self.x_at + ceil_div(held, UNIT_BYTES) * UNIT_BYTES

    @property
    def store_bytes(self) -> int:
        """Of an aligned store: a thread has `4 * groups` neighbouring columns of a row."""
        return math.gcd(UNIT_BYTES, 4 * self.groups)

    @property
    def small_sums(self) -> bool:
        """Whether sums of products of two bytes less their zero points stay below 2**22."""
        return self.workload.k * _LARGEST_FACTOR**2 < 1 << 22

    def atom(self, columns: int) -> Wgmma:
        """The instruction of so many columns of y."""
        work = self.workload
        shape = (WARPGROUP_ROWS, columns, K_BYTES)
        return Wgmma(shape, work.in_dtype, work.other_dtype, "int32", a_from_registers=True)
