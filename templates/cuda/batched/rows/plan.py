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

    A tile is 64 rows of y of a pair, and a block has neighbouring ones, of one pair or several.
    Shared memory holds other of each pair as it lies, [k, n]; then turned, for each 32 values of k
    groups of eight columns of two 8 x 16-byte matrices; a matrix of ones; sums of columns; the
    barrier; and a block's rows of x as they lie in memory, from the 16-byte unit on that the first
    one is in.
    """

    def __init__(self, workload: BatchedGemm, config: BatchedRowsConfig, target: Target) -> None:
        self.workload, self.config, self.target = workload, config, target
        self.tiles_k = ceil_div(workload.k, K_BYTES)
        self.groups = workload.n // COLUMN_GROUP
        self.tiles_m = ceil_div(workload.m, WARPGROUP_ROWS)
        self.tiles = workload.products * self.tiles_m
        self.blocks = ceil_div(self.tiles, config.row_groups)
        self.slots = self._most_pairs()
        self.other_gap = UNIT_BYTES if self.groups % 2 == 0 else 2 * UNIT_BYTES
        """Bytes behind each eight rows of other, so that ldmatrix meets other banks."""
        self.turned_group = _CORE_ROWS * K_BYTES + _TURNED_GAP
        eight = _CORE_ROWS * workload.n + self.other_gap
        self.turned_at = self.slots * self.tiles_k * K_BYTES // _CORE_ROWS * eight
        turned = self.tiles_k * workload.n // _CORE_ROWS * self.turned_group
        self.ones_at = self.turned_at + self.slots * turned
        self.sums_at = self.ones_at + _CORE_ROWS * K_BYTES
        self.barrier_at = self.sums_at + self.slots * workload.n * _SUM_BYTES
        self.x_at = self.barrier_at + UNIT_BYTES
        rows = min(WARPGROUP_ROWS, workload.m)
        read = (config.row_groups - 1) * rows + ceil_div(rows, _WARP_ROWS) * _WARP_ROWS
        held = read * workload.k + UNIT_BYTES + 2 * K_BYTES
        self.smem_bytes = self.x_at + ceil_div(held, UNIT_BYTES) * UNIT_BYTES

    def _most_pairs(self) -> int:
        """Pairs that the tiles of a block lie in."""
        groups, tiles_m = self.config.row_groups, self.tiles_m
        starts = range(0, math.lcm(groups, tiles_m), groups)
        ends = (min(start + groups, self.tiles) - 1 for start in starts)
        return max(
            end // tiles_m - start // tiles_m + 1
            for start, end in zip(starts, ends, strict=True)
            if start < self.tiles
        )

    @property
    def store_bytes(self) -> int:
        """Bytes of an aligned store: a thread has `4 * groups` neighbouring columns of a row."""
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
