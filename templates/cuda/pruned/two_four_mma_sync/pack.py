"""A 2:4 sparse weight as mma.sp reads it: fragments and metadata of 16 rows, stage by stage.

Of the 64 weight rows of a warp a thread has eight neighbouring ones, so that its sums of a row of x
are neighbours in y: rows g and g + 8 of instruction b are rows 8 g + 2 b and 8 g + 2 b + 1.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.mma.fragments import QUAD, WARP
from autoq.templates.cuda.device.mma.sparse_fragments import sparse_fragments
from autoq.templates.cuda.pruned.two_four_mma_sync.config import (
    STEPS,
    WARP_BLOCKS,
    WARP_WEIGHTS,
    TwoFourMmaTiling,
)
from autoq.templates.workload import Constants

_BLOCK, _ROW = np.indices((WARP_BLOCKS, 16))
ROW_ORDER = (8 * (_ROW % 8) + 2 * _BLOCK + _ROW // 8).reshape(-1)
"""Which of a warp's weight rows each row of its instructions is."""


def weight_spec(tiling: TwoFourMmaTiling) -> TensorSpec:
    """The packed weight: bytes of every stage of every tile."""
    shape = (tiling.weight_tiles, tiling.k_stages, tiling.weight_stage_bytes)
    return TensorSpec("weight", shape, "uint8")


def pack_weight(tiling: TwoFourMmaTiling, constants: Constants) -> np.ndarray:
    """The weight as `weight_spec` says."""
    weight = np.asarray(constants["weight"])
    n, k = weight.shape
    atom, stages = tiling.atom, tiling.k_stages
    depth = stages * STEPS * atom.k
    whole = np.zeros((tiling.terms, depth), weight.dtype)
    whole[:n, :k] = weight
    whole = whole.reshape(-1, WARP_WEIGHTS, depth)[:, ROW_ORDER]
    # [blocks of 16 rows, steps of all stages, 16, k of an instruction]
    cut = whole.reshape(-1, atom.m, stages * STEPS, atom.k).transpose(0, 2, 1, 3)
    values, metadata = sparse_fragments(atom, cut.reshape(len(cut), stages, STEPS, atom.m, atom.k))
    values = values.reshape(len(cut), stages, -1)
    own = np.concatenate([values, _by_lanes(tiling, metadata)], axis=-1)
    own = own.reshape(tiling.weight_tiles, -1, stages, tiling.block_bytes)
    return np.ascontiguousarray(own.transpose(0, 2, 1, 3)).reshape(weight_spec(tiling).shape)


def _by_lanes(tiling: TwoFourMmaTiling, metadata: np.ndarray) -> np.ndarray:
    """Words [blocks, stages, steps, lanes] as the bytes [blocks, stages, bytes] of lanes.

    Of 16-bit floats two lanes of four give an instruction theirs: the first two the first step's.
    """
    words = metadata
    if tiling.metadata_words < STEPS:
        lane = np.arange(WARP)
        words = metadata[:, :, lane % QUAD // 2, lane]
    return np.ascontiguousarray(words, np.uint32).view(np.uint8).reshape(*metadata.shape[:2], -1)
