"""What the mma.sync kernel of a mixed-input product knows before it runs, target included."""

from __future__ import annotations

import functools
from typing import Any

from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.cuda.device.mma.catalogue import largest
from autoq.templates.cuda.mixed.finish import Finishing
from autoq.templates.cuda.mixed.mma_sync.config import (
    COLUMN_TILE,
    ROW_TILE,
    STEP_BYTES,
    Conform,
    MixedSyncConfig,
)
from autoq.templates.cuda.mixed.mma_sync.conform import conform, narrow
from autoq.templates.cuda.mixed.mma_sync.copies import read_unit
from autoq.templates.cuda.mixed.mma_sync.store import move
from autoq.templates.cuda.mixed.mma_sync.tiling import (
    CHUNK_BYTES,
    UNIT_BYTES,
    MixedSyncTiling,
    unit_offset,
)
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

_CHUNK_UNITS = CHUNK_BYTES // UNIT_BYTES
_CHUNK_TILE_BYTES = ROW_TILE * CHUNK_BYTES


class MixedSyncPlan(MixedSyncTiling):
    """A tiling on a target: instructions, helpers, and where each copy and fragment lies."""

    def __init__(self, workload: FloatGemm, config: MixedSyncConfig, target: Target) -> None:
        super().__init__(workload, config)
        self.target = target
        self.atom = largest(target, workload.in_dtype, workload.in_dtype, "float32")
        self.fused = target.compute_capability < 90
        self.asynchronous = copies_bypass_registers(workload, target)
        self.overlaps = can_overlap(target)
        self.chunk_steps = self.chunk_k // self.step_k
        self.fragment_steps = self.x_row_bytes // STEP_BYTES

        threads = config.threads
        self.x_copies = config.block_m * self.x_row_bytes // self.x_piece
        self.x_rounds = -(-self.x_copies // threads)
        self.weight_copies = config.block_n * self.weight_row_bytes // UNIT_BYTES
        self.weight_rounds = -(-self.weight_copies // threads)
        self.group_copies = self.stage_groups * config.block_n * 4 // UNIT_BYTES
        self.group_rounds = -(-self.group_copies // threads)
        pieces = self.result_shape[0] * self.result_shape[1] * self.result.bytes
        self.result_copies = pieces // self.result_piece
        self.result_rounds = -(-self.result_copies // threads)

    @property
    def x_piece(self) -> int:
        """Bytes of a copy of x: through registers they are whole units, read piece by piece."""
        return self.piece if self.asynchronous else UNIT_BYTES

    @property
    def converts(self) -> bool:
        """Whether weights are integers."""
        return self.workload.quantised

    @property
    def row_shifted(self) -> bool:
        """Whether the same is taken from a row's weights over all k."""
        return self.converts and self.fragments.shifted and not self.workload.group

    @property
    def hinted(self) -> bool:
        """Whether copies of weights tell the L2 what to give up first."""
        return self.asynchronous and self.config.weights_once

    @property
    def finishes(self) -> bool:
        """Whether the kernel stores results, not a part of their sums."""
        return self.config.split_k == 1

    @functools.cached_property
    def fragment(self) -> DeviceFunction:
        return self.fragments.function(self.fused)

    @functools.cached_property
    def fill(self) -> DeviceFunction:
        return self.fragments.fill()

    @functools.cached_property
    def finishing(self) -> Finishing:
        return Finishing.of(self.workload)

    @functools.cached_property
    def move(self) -> DeviceFunction:
        return move(self.result_piece)

    @functools.cached_property
    def read_unit(self) -> DeviceFunction:
        return read_unit(self.piece, self.value_bytes)

    @property
    def table_at(self) -> int:
        """Byte of shared memory where pairs of values are looked up."""
        return self.table_offset if self.config.widening is Widening.TABLE else 0

    @functools.cached_property
    def conform(self) -> DeviceFunction:
        return conform(self.fragments.shared.nibbles)

    @functools.cached_property
    def narrow(self) -> DeviceFunction:
        return narrow(self.fragments.shared.nibbles, self.weight_row_bytes)

    @property
    def copy_x(self) -> str:
        """cp.async of a piece of x; only 16 bytes may pass the L1 by."""
        cache = "cg" if self.piece == UNIT_BYTES else "ca"
        return f"cp.async.{cache}.shared.global.L2::128B"

    @property
    def copy_weights(self) -> str:
        hint = ".L2::cache_hint" if self.config.weights_once else ""
        return f"cp.async.cg.shared.global{hint}.L2::128B"

    def x_place(self, index: Any) -> tuple[Any, Any]:
        """Tile row and first value of k of a copy of x."""
        pieces = self.x_row_bytes // self.x_piece
        return index // pieces, index % pieces * (self.x_piece // self.value_bytes)

    def x_target(self, stage: Any, index: Any) -> Any:
        """Byte of shared memory that a copy of x fills."""
        row, k = self.x_place(index)
        within = k * self.value_bytes % UNIT_BYTES
        unit = unit_offset(self.x_row_bytes, row, k * self.value_bytes // UNIT_BYTES)
        return stage * self.stage_bytes + unit + within

    def weight_source(self, n: Any, step: Any, index: Any) -> Any:
        """Byte of the packed weights that a copy reads; n: tile of all products' weight rows."""
        block_n = self.config.block_n
        if self.config.layout is Conform.OFFLINE:
            units = self.chunks * _CHUNK_TILE_BYTES // UNIT_BYTES
            tile = n * (block_n // ROW_TILE) + index // units
            chunk = tile * (self.padded_k // self.chunk_k) + step * self.chunks
            return chunk * _CHUNK_TILE_BYTES + index % units * UNIT_BYTES
        units = self.weight_row_bytes // UNIT_BYTES
        row = n * block_n + index // units
        padded_row_bytes = self.padded_k * self.bits // 8
        return row * padded_row_bytes + step * self.weight_row_bytes + index % units * UNIT_BYTES

    def weight_target(self, stage: Any, index: Any) -> Any:
        """Byte of shared memory that a copy of weights fills."""
        base = stage * self.stage_bytes + self.weight_offset
        if self.config.layout is Conform.OFFLINE:
            return base + index * UNIT_BYTES
        units = self.weight_row_bytes // UNIT_BYTES
        return base + unit_offset(self.weight_row_bytes, index // units, index % units)

    def group_source(self, n: Any, step: Any, index: Any) -> Any:
        """First word that a copy of what groups need reads; n: as for weights."""
        units = self.config.block_n * 4 // UNIT_BYTES
        column = step * self.config.block_k // self.workload.group + index // units
        return column * self.weight_rows + n * self.config.block_n + index % units * 4

    def group_target(self, stage: Any, index: Any) -> Any:
        return stage * self.stage_bytes + self.group_offset + index * UNIT_BYTES

    def x_matrix(self, thread: Any, pair: int, step: int) -> Any:
        """Byte in a stage of a lane's row of ldmatrix: two tiles of 8 rows of x by 32 bytes."""
        matrix = thread.lane // 8
        first = (
            thread.warp_column * (COLUMN_TILE * self.config.column_tiles) + pair * 2 * COLUMN_TILE
        )
        row = first + matrix // 2 % min(2, self.config.column_tiles) * 8 + thread.lane % 8
        return unit_offset(self.x_row_bytes, row, 2 * step + matrix % 2)

    def first_row(self, thread: Any, tile: int) -> Any:
        """First weight row, in the block's tile, of a row tile of a warp."""
        return (thread.warp_row * self.config.row_tiles + tile) * ROW_TILE

    def weight_matrix(self, thread: Any, tile: int, chunk: int) -> Any:
        """Byte in a stage of a lane's row of ldmatrix: 16 weight rows of 32 bytes."""
        matrix = thread.lane // 8
        row = self.first_row(thread, tile) + matrix % 2 * 8 + thread.lane % 8
        unit = _CHUNK_UNITS * chunk + matrix // 2
        return self.weight_offset + unit_offset(self.weight_row_bytes, row, unit)

    def weight_words(self, thread: Any, tile: int, chunk: int) -> Any:
        """Byte in a stage of a lane's 16 bytes of a fragment that was arranged offline."""
        index = thread.warp_row * self.config.row_tiles + tile
        start = (index * self.chunks + chunk) * _CHUNK_TILE_BYTES
        return self.weight_offset + start + thread.lane * UNIT_BYTES

    def row_tile_at(self, thread: Any, tile: int) -> Any:
        """Byte in a stage of the first row of a row tile."""
        return self.weight_offset + self.first_row(thread, tile) * self.weight_row_bytes

    def group_word(self, thread: Any, tile: int, step: int) -> Any:
        """Word in a stage of what the first of a thread's two rows needs for a fragment's step."""
        group = step * self.step_k // self.workload.group if self.stage_groups > 1 else 0
        row = self.first_row(thread, tile) + thread.lane // 4
        return self.group_offset // 4 + group * self.config.block_n + row

    def starts_group(self, step: Any) -> Any:
        """Whether a fragment's step begins a group, or the stage where groups are longer."""
        if not self.stage_groups:
            return False
        return step * self.step_k % min(self.workload.group, self.config.block_k) == 0


def copies_bypass_registers(workload: FloatGemm, target: Target) -> bool:
    """Whether cp.async brings all tiles: from sm_80 on, and rows of x of whole words."""
    row_bytes = workload.k * workload.inputs[0].element.bytes
    return target.compute_capability >= 80 and row_bytes % 4 == 0
