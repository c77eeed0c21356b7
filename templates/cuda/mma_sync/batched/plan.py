"""What the kernel of a batched product knows before it runs: tiles, instructions, helpers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.cuda.device.mma.catalogue import largest
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.device.weights import ceil_div, channels_per_thread
from autoq.templates.cuda.mma_sync.batched.config import BatchedSyncConfig
from autoq.templates.cuda.mma_sync.batched.operand import OperandTile
from autoq.templates.cuda.mma_sync.config import K_TILE_BYTES, UNIT_BYTES
from autoq.templates.cuda.mma_sync.plan import has_cp_async
from autoq.templates.cuda.mma_sync.tiling import unit_offset
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.parameters.lookups import table_bytes
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

ZERO_POINTS = 8
"""Words of the array of zero points: the first two are those of x and other, the others are 0 and
stand for the scalars of an epilogue that has none."""
SCALES = 16
"""Copies of the scale that a kernel reads: as many as a thread has consecutive columns."""
_TURNED_RUN = 4
_WORD_BYTES, _LINE_BYTES = 4, 128


class BatchedSyncPlan:
    """A batched product cut into the tiles of a configuration, on a target.

    A stage holds the tile of x, unless rows of x lie as in memory, then that of other. Sizes count
    bytes unless a name says otherwise.
    """

    def __init__(self, workload: BatchedGemm, config: BatchedSyncConfig, target: Target) -> None:
        self.workload, self.config, self.target = workload, config, target
        self.size = element(workload.in_dtype).bytes
        self.turned = workload.other_order.endswith("n")
        """Whether rows of other are values of k, so that its fragments are transposed."""
        self.step_k = config.block_k // self.size
        """Values of k of a stage."""
        self.steps = ceil_div(workload.k, self.step_k)
        self.tiles_m = ceil_div(workload.m, config.block_m)
        self.tiles_n = ceil_div(workload.n, config.block_n)
        self.blocks = workload.products * self.tiles_m * self.tiles_n
        self.weight_start = 0 if config.verbatim else config.block_m * config.block_k
        self.stage_bytes = self.weight_start + config.block_n * config.block_k
        self.out_size = element(workload.epilogue.out_dtype).bytes
        self.staged_pitch = config.block_n * self.out_size + UNIT_BYTES
        """Bytes of a row of y in shared memory, a unit longer so that neighbours meet other
        banks."""
        staged = config.block_m * self.staged_pitch if config.staged else 0
        self.rows_at = min(config.stages, self.steps) * self.stage_bytes
        """Where those rows of x lie that lie there as in memory."""
        self.lookups_at = max(self.rows_at + self._rows_room, staged)
        self.smem_bytes = self.lookups_at + table_bytes(workload.epilogue)
        self.overlaps = can_overlap(target)

    @functools.cached_property
    def x(self) -> OperandTile:
        work, config = self.workload, self.config
        shape = (config.block_m, config.block_k, work.m, work.k * self.size)
        return self._operand(work.x_order, work.x_shape, shape, 0, 0)

    @functools.cached_property
    def other(self) -> OperandTile:
        work, config = self.workload, self.config
        if self.turned:
            shape = (self.step_k, config.block_n * self.size, work.k, work.n * self.size)
        else:
            shape = (config.block_n, config.block_k, work.n, work.k * self.size)
        run = 0 if self.turned else self.run
        return self._operand(work.other_order, work.other_shape, shape, run, self.weight_start)

    def _operand(
        self, order: str, array: tuple[int, ...], shape: tuple[int, int, int, int], run: int,
        start: int,
    ) -> OperandTile:  # fmt: skip
        pitch = self.workload.row_places(order, 0)[1] * self.size
        array_bytes = math.prod(array) * self.size
        along_k = order.endswith("k")
        bypasses = has_cp_async(self.target)
        paired = self.config.verbatim and not along_k
        return OperandTile(
            *shape, pitch, array_bytes, along_k, run, start, self.size, bypasses, paired
        )

    @property
    def fragment_bytes(self) -> tuple[int, int]:
        """Bytes of k between the words of neighbouring lanes and between a lane's two, of a row."""
        return (8, 4) if self.other.paired else (4, 16)

    @property
    def operands(self) -> tuple[OperandTile, ...]:
        """Those that come stage by stage."""
        return (self.other,) if self.config.verbatim else (self.x, self.other)

    @property
    def rows_bytes(self) -> int:
        """Bytes of the units that hold a block's rows of x, from any byte of the first one on."""
        return (
            ceil_div(self.config.block_m * self.x.pitch + UNIT_BYTES - 1, UNIT_BYTES) * UNIT_BYTES
        )

    @property
    def _rows_room(self) -> int:
        """Theirs in shared memory, with what fragments reach beyond the last row."""
        if not self.config.verbatim:
            return 0
        return ceil_div(self.rows_bytes + 2 * K_TILE_BYTES, _LINE_BYTES) * _LINE_BYTES

    @property
    def tail_tiles(self) -> int:
        """32-byte k-tiles of the last step that reach into the reduction."""
        left = self.workload.k * self.size - (self.steps - 1) * self.config.block_k
        return ceil_div(left, K_TILE_BYTES)

    @property
    def overhangs(self) -> bool:
        """Whether the last of them reaches beyond it."""
        return self.workload.k * self.size % K_TILE_BYTES != 0

    @property
    def asynchronous(self) -> bool:
        """Whether cp.async brings any of the operands."""
        return self.config.verbatim or any(operand.asynchronous for operand in self.operands)

    @functools.cached_property
    def atom(self) -> MmaSync:
        sums = "float32" if self.workload.floating else "int32"
        return largest(self.target, self.workload.in_dtype, self.workload.other_dtype, sums)

    @property
    def large_mma(self) -> bool:
        """Whether one instruction multiplies a whole 16 x 8 tile by a k-tile, as from sm_80."""
        return self.atom.a_registers == 4

    @property
    def pixel_unit_offset(self) -> Callable[[Any, Any, Any], Any]:
        """Where a 16-byte unit of a row lies in the tile of x."""
        return unit_offset

    @property
    def run(self) -> int:
        """Consecutive columns of y that a thread stores of each group of columns."""
        return _TURNED_RUN if self.turned else channels_per_thread(self.config.warp_n)

    @property
    def column_groups(self) -> int:
        """Groups of columns of a warp, of 4 * run each."""
        return self.config.warp_n // (4 * self.run)

    def lane_column(self, lane: Any) -> Any:
        """First column of a lane in a group of columns."""
        if self.turned and self.workload.floating:
            return lane % 2 * 8 + lane % 4 // 2 * 4
        return lane % 4 * self.run

    @functools.cached_property
    def epilogue(self) -> FragmentRows:
        """The epilogue of rows of y in memory."""
        tail = self.workload.n % self.config.block_n != 0
        return self._rows(self.workload.n, tail)

    def _rows(self, pitch: int, tail: bool) -> FragmentRows:
        """The epilogue of accumulators that hold whole values: zero points are taken off before,
        and floats are scaled, as behind groups of scales."""
        work, epilogue = self.workload, self.workload.epilogue
        if work.floating:
            epilogue = Epilogue(epilogue.out_dtype, scale_group=work.k)
        return FragmentRows(epilogue, self.run, pitch, tail, bias=False)

    @property
    def residual_registers(self) -> int:
        """Registers of the residuals of a thread's two rows."""
        return max(2 * self.column_groups * self.epilogue.residual_words, 1)

    @functools.cached_property
    def load_residual(self) -> DeviceFunction:
        return self.epilogue.load()

    @functools.cached_property
    def requantise(self) -> DeviceFunction:
        """To memory, or to whole rows of the tile in shared memory."""
        if self.config.staged:
            return self._rows(self.config.block_n, False).rows()
        return self.epilogue.rows()

    @property
    def store_piece(self) -> int:
        """Bytes of an aligned store of a row of y from shared memory."""
        return max(math.gcd(UNIT_BYTES, self.workload.n * self.out_size), _WORD_BYTES)

    @property
    def row_stores(self) -> int:
        """Stores of a row of a tile: a word more where rows of y start anywhere."""
        whole = self.config.block_n * self.out_size // self.store_piece
        return whole if self.aligned else whole + 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of y."""
        return self.workload.n * self.out_size

    @property
    def contiguous(self) -> bool:
        """Whether a tile has whole rows of y, one behind the other."""
        heads_apart = self.workload.y_order.startswith("bh") or self.workload.heads == 1
        return self.tiles_n == 1 and heads_apart

    @property
    def run_stores(self) -> int:
        """Words of such rows, and those before them in 128 aligned bytes."""
        return ceil_div(self.config.block_m * self.row_bytes + 2 * _LINE_BYTES, _WORD_BYTES)

    @property
    def aligned(self) -> bool:
        """Whether rows of y start at whole words."""
        return self.workload.n * self.out_size % _WORD_BYTES == 0
