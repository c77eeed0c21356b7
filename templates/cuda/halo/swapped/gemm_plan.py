"""Layouts and plans of gemm_swapped: outputs of bytes go by TMA, others from registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import (
    ENCODE_TILED,
    Delivery,
    load_tiled,
    tiled_map,
    tma_load,
)
from autoq.templates.cuda.halo.swapped.direct_store import DirectStore
from autoq.templates.cuda.halo.swapped.im2col_plan import SwappedIm2colPlan, SwappedIm2colTiling
from autoq.templates.epilogue.cuda.fragments.column_pairs import PairFunctions, pair_functions


class SwappedGemmPlan(SwappedIm2colPlan):
    """The plan of gemm_swapped: a chunk of the reduction is a box of x [rows, row_channels]."""

    x_encode = ENCODE_TILED
    x_rank = 2

    def x_arguments(self) -> list[int]:
        """Tensor map of x."""
        work, tile = self.workload, self.tile
        box = [tile.row_channels, tile.columns]
        mode = swizzle_mode(tile.row_bytes)
        return tiled_map(work.in_dtype, [work.c, work.n], [work.c], box, mode)

    def fetch(self, smem: Any, x_map: Any, m: Any, chunk: Any, barrier: Any) -> Any:
        """The call that loads a chunk of tile m's rows; wrap it in T.evaluate."""
        tile = self.tile
        return tma_load(
            load_tiled(2), Delivery(once=self.config.input_once), smem, x_map,
            chunk * tile.row_channels, m * tile.columns, barrier,
        )  # fmt: skip


@dataclass(frozen=True)
class DirectTiling(SwappedIm2colTiling):
    """One configuration of one workload; nothing is staged."""

    store_bytes = 0
    staged_bytes = 0
    epilogue_slots = 12.0
    other_registers = 80


class DirectGemmPlan(SwappedGemmPlan):
    """The same where threads store their outputs."""

    store = DirectStore

    def column_functions(self) -> PairFunctions:
        """What finishes and stores two channels of two columns."""
        return pair_functions(self.workload.epilogue, self.padded_n)

    def rows_of(self, m: Any, group: int, lane: Any) -> list[Any]:
        """Rows of the output that a thread's columns of a group of eight are."""
        first = m * self.tile.columns + group * 8 + lane % 4 * 2
        return [first, first + 1]

    def stores(self, row: Any, channel: Any) -> Any:
        """Whether an output exists."""
        exists = row < self.tile.pixels
        k = self.workload.k
        return exists if self.padded_n == k else exists & (channel < k)
