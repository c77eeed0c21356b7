"""Transpositions of rows of a few bytes: a thread takes 16 of them apart in its registers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoq.templates.arrays.permuted_axes import PermutedAxes

_SPAN = 16
_LONGEST_ROW = 8
"""Bytes of a row of which a thread holds 16, in four times as many registers."""

APART = r"""
// Byte k of words and byte m, the lower two of a word.
template <int N> __device__ __forceinline__ unsigned two_bytes(
    const Raw<T, N>& raw, int k, int m) {
  return __byte_perm(raw.word[k / 4], raw.word[m / 4], k % 4 | (4 + m % 4) << 4);
}
__device__ __forceinline__ void permute(
    From<T> x, To<T> y, unsigned* shared, int block, int thread) {
  const int item = block * THREADS + thread;
  if (item >= ITEMS) return;
  const int b = item % (B / SPAN) * SPAN, outer = item / (B / SPAN);
  const Raw<T, SPAN * A> rows = load<T, SPAN * A>(x + (IN_OFFSET + b * A));
  #pragma unroll
  for (int a = 0; a < A; ++a) {
    Raw<T, SPAN> column;
    #pragma unroll
    for (int i = 0; i < SPAN; i += 4) {
      const unsigned low = two_bytes(rows, i * A + a, (i + 1) * A + a);
      const unsigned high = two_bytes(rows, (i + 2) * A + a, (i + 3) * A + a);
      column.word[i / 4] = __byte_perm(low, high, 0x5410);
    }
    store<T, SPAN>(y + (OUT_OFFSET + a * OUT_STRIDE + b), column);
  }
}
"""


@dataclass(frozen=True)
class ApartPlan:
    """A thread takes `span` rows of the input, which lie together, to as many rows of the output.

    row, rows: bytes of a row and how many rows of the input lie together.
    """

    span: int
    row: int
    rows: int

    @classmethod
    def of(cls, axes: PermutedAxes, size: int) -> ApartPlan | None:
        """None where elements are no bytes, rows long, apart, or no multiple of 16 of them."""
        row, rows = axes.sizes[axes.across], axes.sizes[-1]
        together = axes.strides[-1] == row
        if size > 1 or row > _LONGEST_ROW or rows % _SPAN or not together:
            return None
        return cls(_SPAN, row, rows)

    def sizes(self, axes: PermutedAxes) -> dict[str, int]:
        """Constants of the source."""
        return {
            "A": self.row,
            "B": self.rows,
            "SPAN": self.span,
            "OUT_STRIDE": axes.out_strides[axes.across],
            "ITEMS": math.prod(axes.sizes) // (self.row * self.span),
        }
