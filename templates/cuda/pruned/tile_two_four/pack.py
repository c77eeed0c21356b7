"""A weight that is 2:4 inside tiles as mma.sp reads it: fragments, metadata, and what is picked.

A stage holds one instruction's reduction of all columns of a tile: kept values of 16 columns after
each other, words of metadata, and for each of four lanes the four words that say what it picks of
x. Rows g and g + 8 of an instruction are neighbouring columns of y.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.device.mma.fragments import QUAD, WARP
from autoq.templates.cuda.device.mma.sparse_fragments import NEIGHBOURS, sparse_fragments
from autoq.templates.cuda.pruned.picked.steps import LANES, NO_ROW, WORD_BYTES
from autoq.templates.cuda.pruned.picked_mma_sync.pack import with_next
from autoq.templates.cuda.pruned.tile_two_four.chunks import REGISTERS, chunk_picks
from autoq.templates.cuda.pruned.tile_two_four.config import COLUMNS, TwoFourCut
from autoq.templates.sparse.two_four import group_starts


def stages_of(
    cut: TwoFourCut, weight: np.ndarray, columns: np.ndarray, kept: np.ndarray
) -> np.ndarray:
    """A tile's stages, uint8 [stages, bytes]; at least one, of zeros where nothing is kept.

    weight: [n, k]. columns, kept: those of the tile, and the rows of k that it keeps.
    """
    operand, kept = cut.operand, np.asarray(kept, np.int64)
    nonzero = weight[np.ix_(columns, kept)].T != 0
    groups = np.split(operand.places(kept), group_starts(nonzero)[1:]) if len(kept) else []
    picks = chunk_picks(groups, operand.size, cut.k_stages, operand.row_bytes)
    steps, k = len(picks.rows) // 2, cut.atom.k
    rows = operand.rows(picks.rows.reshape(steps, k))
    filled = np.zeros((steps, cut.width, k), weight.dtype)
    own = weight[np.ix_(columns, np.maximum(rows, 0).reshape(-1))].reshape(-1, steps, k)
    filled[:, : len(columns)] = (own * (rows != NO_ROW)).transpose(1, 0, 2)
    ordered = filled.reshape(steps, cut.blocks_n, COLUMNS, k)[:, :, NEIGHBOURS]
    values, metadata = sparse_fragments(cut.atom, ordered)
    near = picks.near(operand.row_bytes // WORD_BYTES)
    # [steps of half a fragment, lanes, halves] as a lane's words of a step.
    words = near.reshape(steps, 2, LANES, -1).transpose(0, 2, 1, 3).reshape(steps, -1)
    assert words.shape[1] == REGISTERS * LANES
    made = np.zeros((steps, cut.weight_bytes), np.uint8)
    lying = (values, by_lanes(cut, metadata), words)
    parts = [np.ascontiguousarray(array).view(np.uint8).reshape(steps, -1) for array in lying]
    together = np.concatenate(parts, axis=1)
    made[:, : together.shape[1]] = together
    return with_next(cut, made)


def by_lanes(cut: TwoFourCut, metadata: np.ndarray) -> np.ndarray:
    """Words [steps, instructions, lanes] as lanes hold them, [steps, words, lanes].

    Of 16-bit floats two lanes of four give an instruction theirs: the first two an even one's.
    """
    shared = cut.size
    padding = (0, -metadata.shape[1] % shared)
    every = np.pad(metadata, ((0, 0), padding, (0, 0)))
    groups = every.reshape(len(metadata), -1, shared, WARP)
    lane = np.arange(WARP)
    return groups[:, :, lane % QUAD // 2 % shared, lane]
