"""Which rows of x turned the steps of a tile multiply, and where in the ring of stages they lie.

x turned has k outside: stages are so many k of the rows of y of a block, in lines of 128 bytes
whose units of 16 bytes are swizzled. A lane of ldmatrix names any row of the stages that are there,
so a step is any rows of some neighbouring stages. Eight lanes name rows at once, in different banks
where their numbers differ modulo eight.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autoq.templates.cuda.device.turned.fragment_source import BYTE_ORDER
from autoq.templates.sparse.pruned_matrix import NO_ROW

STAGE_K = 64
"""k of a stage."""
LINE_BYTES = 128
"""Bytes of a row of a stage, and of a block's words."""
_AT_ONCE = 8
_LANES = 32
_SECOND_AT, _LEAVE_AT, _ADVANCE_AT = 12, 24, 28
DEPTH = 2
"""Steps of a block, which a lane's word has rows of."""


def window_stages(ring_stages: int) -> int:
    """Stages that a tile holds at most while others arrive."""
    return max(2, ring_stages * 5 // 8)


def whole_rounds(k: int, ring_stages: int) -> int:
    """Stages of all k, so many that each place of the ring has the same number of them."""
    return -(-k // (STAGE_K * ring_stages)) * ring_stages


def most_blocks(k: int, size: int) -> int:
    """Blocks of a tile that keeps all k."""
    return -(-k // STAGE_K) * (STAGE_K * size // (DEPTH * _LANES))


@dataclass(frozen=True)
class RowSteps:
    """The steps of a tile, one instruction's reduction each, in blocks of `DEPTH`.

    rows: int64 [steps, values], which k each value of a step is, NO_ROW for a weight of 0.
    words: uint32 [blocks, 32], for each lane its row of the ring in both steps, twelve bits each,
    and in four bits each how many stages are left in front of the block, and how many begin.
    """

    rows: np.ndarray
    words: np.ndarray


@dataclass
class _Blocks:
    """Blocks as they are made, each [matrices of eight rows, 8] of k, NO_ROW for none."""

    size: int
    made: list[np.ndarray] = field(default_factory=list)
    newest: list[int] = field(default_factory=list)

    def add(self, rows: np.ndarray, newest: int) -> None:
        """A block of these k, while stages up to the newest one are there."""
        matrices = DEPTH * _LANES // self.size // _AT_ONCE
        block = np.full((_AT_ONCE, matrices), NO_ROW)
        ordered = rows[np.argsort(rows % _AT_ONCE, kind="stable")]
        block.reshape(-1)[: len(ordered)] = ordered  # neighbours come to different matrices
        self.made.append(block.T)
        self.newest.append(newest)

    def steps(self, ring_stages: int) -> RowSteps:
        """What the kernel reads of the blocks."""
        blocks, newest = np.array(self.made), np.array(self.newest)
        rows = self._in_order(blocks)
        kept = np.where(blocks == NO_ROW, np.iinfo(np.int64).max, blocks)
        oldest = np.minimum(kept.reshape(len(blocks), -1).min(axis=1) // STAGE_K, newest)
        oldest = np.minimum.accumulate(oldest[::-1])[::-1]
        before = np.concatenate([[0], newest[:-1] + 1])  # stages that have begun
        left = np.minimum(oldest, before)
        told = np.diff(left, prepend=0) << _LEAVE_AT
        told = told | np.diff(newest + 1, prepend=0) << _ADVANCE_AT
        lanes = self._lanes(blocks, newest) % (ring_stages * STAGE_K)
        words = lanes[:, 0] | lanes[:, 1] << _SECOND_AT | told[:, None]
        return RowSteps(rows, words.astype(np.uint32))

    def _in_order(self, blocks: np.ndarray) -> np.ndarray:
        """The rows of steps [steps, values], in the order of k in fragments."""
        units = blocks.reshape(-1, 16)
        if self.size == 1:
            units = units[:, list(BYTE_ORDER)]
        return units.reshape(-1, _LANES // self.size)

    def _lanes(self, blocks: np.ndarray, newest: np.ndarray) -> np.ndarray:
        """Which k a lane names in each step of a block, one that is there for those without."""
        there = blocks.reshape(len(blocks), -1).max(axis=1)
        spare = np.where(there == NO_ROW, newest * STAGE_K, there)
        own = blocks.max(axis=2, keepdims=True)  # of the same eight, which is no other bank
        named = np.where(own == NO_ROW, spare[:, None, None], own)
        matrices = np.where(blocks == NO_ROW, named, blocks).reshape(len(blocks), DEPTH, -1, 8)
        # Of floats two matrices have the same rows, other rows of y.
        return np.repeat(matrices, self.size, axis=2).reshape(len(blocks), DEPTH, _LANES)


def row_steps(kept: np.ndarray, size: int, k: int, ring_stages: int) -> RowSteps:
    """The steps of a tile that keeps these k, in ascending order, of values of `size` bytes."""
    stages, window = -(-k // STAGE_K), window_stages(ring_stages)
    full = DEPTH * _LANES // size
    blocks, pool, begun = _Blocks(size), np.zeros(0, np.int64), 0
    for stage in range(stages):
        if stage + 1 - begun > window:  # no block waits for more stages than the ring has
            blocks.add(np.zeros(0, np.int64), stage - 1)
            begun = stage
        last = stage == stages - 1
        pool = np.concatenate([pool, kept[kept // STAGE_K == stage]])
        oldest = stage - window + 1
        while len(pool) and (last or pool[0] // STAGE_K <= oldest or len(pool) >= full * 5 // 4):
            taken = _take(pool, full, (oldest + 1) * STAGE_K)
            blocks.add(pool[taken], stage)
            pool, begun = pool[~taken], stage + 1
    if not blocks.made:
        blocks.add(np.zeros(0, np.int64), 0)
    if len(blocks.made) <= most_blocks(k, size):
        return blocks.steps(ring_stages)
    every = _Blocks(size)
    for first in range(0, stages * STAGE_K, full):
        every.add(np.arange(first, first + full), first // STAGE_K)
    found = every.steps(ring_stages)
    return RowSteps(np.where(np.isin(found.rows, kept), found.rows, NO_ROW), found.words)


def _take(pool: np.ndarray, full: int, due: int) -> np.ndarray:
    """Which k of the pool are the next block: those that are due, then as many of each bank."""
    taken = np.zeros(len(pool), bool)
    taken[: min(full, int(np.searchsorted(pool, due)))] = True
    for bank in range(_AT_ONCE):
        own = np.flatnonzero((pool % _AT_ONCE == bank) & ~taken)
        free = full // _AT_ONCE - int((taken & (pool % _AT_ONCE == bank)).sum())
        taken[own[: max(0, min(free, full - int(taken.sum())))]] = True
    rest = np.flatnonzero(~taken)
    taken[rest[: full - int(taken.sum())]] = True
    return taken
