"""CUDA source of how 64 columns of passing rows get to y."""

from __future__ import annotations

VECTORS = r"""
struct Outputs { OUT* y; };
__device__ __forceinline__ void store_rows(
    const unsigned char* from, const Outputs& to, int first_row, int block, int thread) {
  constexpr int EACH = 64 * OUT_BYTES / VECTOR_BYTES, WORDS = VECTOR_BYTES / 4;
  #pragma unroll 4
  for (int i = thread; i < PASS * EACH; i += 128) {
    const int row = i / EACH, byte = i % EACH * VECTOR_BYTES;
    const int column = block * 64 + byte / OUT_BYTES;
    if (first_row + row >= M || column >= N) continue;
    const unsigned* words = reinterpret_cast<const unsigned*>(from + row * ROW + byte);
    unsigned* at = reinterpret_cast<unsigned*>(to.y + (long long)(first_row + row) * N + column);
    if constexpr (WORDS == 4) {
      *reinterpret_cast<uint4*>(at) = *reinterpret_cast<const uint4*>(words);
    } else if constexpr (WORDS == 2) {
      *reinterpret_cast<uint2*>(at) = *reinterpret_cast<const uint2*>(words);
    } else {
      *at = *words;
    }
  }
}
"""
"""Rows that all threads store."""

BOXES = r"""
struct Outputs { unsigned long long y_map; };
__device__ __forceinline__ void store_rows(
    const unsigned char* from, const Outputs& to, int first_row, int block, int thread) {
  if (thread != 0) return;
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
               : : "l"(to.y_map), "r"(block * 64), "r"(first_row),
                   "r"((unsigned)__cvta_generic_to_shared(from)) : "memory");
  asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}
"""
"""The same by TMA, in boxes of rows that pass together."""
