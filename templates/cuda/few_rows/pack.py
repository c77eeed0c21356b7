"""Weights in the order in which warps load them: pieces of k, as registers of mma.sync."""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.few_rows.config import PIECE_K, FewRowsTiling

# Bytes of k of a register, lanes that share a row of x, and eights of the 16 outputs.
_WORD, _QUARTERS, _EIGHTS = 4, 4, 2


def pack_weight(tiling: FewRowsTiling, weight: np.ndarray) -> np.ndarray:
    """`FewRowsTiling.weight_shape` of a weight [n, k], zeros beyond both.

    A lane's registers of an instruction hold, of outputs g and g + 8 for g = lane // 4, the first
    and then the second of the two words of k that it multiplies: words 2 i and 2 i + 1 of the four
    neighbouring ones that the lane has of a row of x.
    """
    outputs, inputs = tiling.groups * tiling.outputs, tiling.pieces * PIECE_K
    whole = np.zeros((outputs, inputs), weight.dtype)
    whole[: weight.shape[0], : weight.shape[1]] = weight
    # groups, tiles, eights, rows, pieces, quarters, instructions, words, bytes
    parts = whole.reshape(
        tiling.groups, tiling.config.tiles, _EIGHTS, -1, tiling.pieces, _QUARTERS, 2, 2, _WORD
    )
    ordered = parts.transpose(0, 4, 1, 6, 3, 5, 7, 2, 8)
    return np.ascontiguousarray(ordered).reshape(tiling.weight_shape)
