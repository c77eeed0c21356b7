"""Where values lie among packed weights, so that kernels can write them there themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.weights import ceil_div


@dataclass(frozen=True)
class WeightLayout:
    """Packed weights int8 of a product [n, k] in tiles of `block_n` columns.

    block_n: columns of a tile; row_bytes: values of a column that lie together; sub_tiles: such
    rows of every column, some of which may lie beyond k; channels: neighbouring columns of a
    thread, by which the rows of a tile are permuted as `weights.row_channels` says, 0 for rows in
    their order; swizzled: whether 16-byte chunks are exchanged as in shared memory.
    """

    block_n: int
    row_bytes: int
    sub_tiles: int
    channels: int
    swizzled: bool

    @property
    def mask(self) -> int:
        """Bits of an address that are exchanged."""
        return (1 << swizzle_mode(self.row_bytes)) - 1 if self.swizzled else 0

    def columns(self, n: int) -> int:
        """n columns filled up to whole tiles."""
        return ceil_div(n, self.block_n) * self.block_n

    def size(self, n: int) -> int:
        """Bytes of the packed weights of n columns."""
        return self.columns(n) * self.sub_tiles * self.row_bytes

    def sizes(self) -> dict[str, int]:
        """Constants of `PACKED_AT`."""
        return {
            "BLOCK_N": self.block_n,
            "ROW_BYTES": self.row_bytes,
            "SUB_TILES": self.sub_tiles,
            "CHANNELS": self.channels,
            "MASK": self.mask,
        }

    def address(self, n: np.ndarray, k: np.ndarray) -> np.ndarray:
        """The byte of value k of column n, as `PACKED_AT` has it; of integer arrays."""
        column = n % self.block_n
        if self.channels:
            within = column % (4 * self.channels)
            thread, pair = within // self.channels, within % self.channels // 2
            column = column - within + pair * 8 + thread * 2 + within % 2
        sub_tile = n // self.block_n * self.sub_tiles + k // self.row_bytes
        inside = column * self.row_bytes + k % self.row_bytes
        swapped = inside ^ (((inside >> 7) & self.mask) << 4)
        return np.asarray(sub_tile * (self.block_n * self.row_bytes) + swapped)

    def pack(self, weight: np.ndarray) -> np.ndarray:
        """Weights int8 [n, k] as they lie in memory, int8 [size]; 0 where there are none."""
        n, k = weight.shape
        packed = np.zeros(self.size(n), np.int8)
        packed[self.address(np.arange(n)[:, None], np.arange(k))] = weight
        return packed


PACKED_AT = r"""
__device__ __forceinline__ int row_of(int column) {
  if constexpr (CHANNELS == 0) {
    return column;
  } else {
    const int within = column % (4 * CHANNELS);
    return column - within + within % CHANNELS / 2 * 8 + within / CHANNELS * 2 + within % 2;
  }
}
// Where value k of column n lies; sixteen that begin at a multiple of it lie together.
__device__ __forceinline__ size_t packed_at(int n, int k) {
  const size_t sub_tile = (size_t)(n / BLOCK_N) * SUB_TILES + k / ROW_BYTES;
  const unsigned inside = row_of(n % BLOCK_N) * ROW_BYTES + k % ROW_BYTES;
  return sub_tile * (BLOCK_N * ROW_BYTES) + (inside ^ (((inside >> 7) & MASK) << 4));
}
"""
"""CUDA of packed_at(n, k), for a namespace with the constants of `WeightLayout.sizes`."""
