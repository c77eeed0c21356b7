"""Where residuals of b lie whose k are rows: 64 neighbouring columns of all k are one piece.

What a warp of the correction gathers of a k are the 64 bytes of a piece, and what a warp that
quantises writes of neighbouring k lies near.
"""

from __future__ import annotations

import numpy as np

_PIECE = 64
"""Columns of a piece. With 512 neighbouring warps gather neighbouring bytes: on an H100, during
development, the correction took 4 us less at 4096 cubed and 10 at 8192, but quantising b 9 and 28
more."""

TURNED_AT = r"""
__device__ __forceinline__ size_t turned_at(int k, int column) {
  return ((size_t)(column / PIECE) * K + k) * PIECE + column % PIECE;
}
"""
"""CUDA of turned_at(k, column), for a namespace with the constants of `turned_sizes`."""


def turned_shape(n: int, k: int) -> tuple[int, int, int]:
    """The shape of int8 residuals of n columns: pieces, k and columns of a piece."""
    return -(-n // _PIECE), k, _PIECE


def turned_sizes(k: int) -> dict[str, int]:
    """Constants of `TURNED_AT`."""
    return {"K": k, "PIECE": _PIECE}


def turned(residual: np.ndarray) -> np.ndarray:
    """Residuals int8 [n, k] as `TURNED_AT` has them, zeros beyond n."""
    n, k = residual.shape
    pieces, _, piece = turned_shape(n, k)
    whole = np.zeros((pieces * piece, k), np.int8)
    whole[:n] = residual
    return np.ascontiguousarray(whole.reshape(pieces, piece, k).transpose(0, 2, 1))
