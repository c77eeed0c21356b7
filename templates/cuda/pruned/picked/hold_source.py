"""CUDA source of the entries of a tile's words of y, which come to shared memory in time."""

from __future__ import annotations

HOLD = r"""
// The entries of a tile that has few come to shared memory behind its terms while it is multiplied.
__device__ __forceinline__ bool holds(const int4& tile) {
  return whole_words(tile) + shared_words(tile) <= HELD;
}
__device__ __forceinline__ void hold_entries(
    int* terms, const void* entries, const int4& tile, int thread) {
  if (!holds(tile)) return;
  for (int i = thread; i < whole_words(tile) + shared_words(tile); i += 128)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 : : "r"((unsigned)__cvta_generic_to_shared(terms + 3 * WIDTH + 4 * i)),
                     "l"(static_cast<const int4*>(entries) + tile.z + i) : "memory");
}
__device__ __forceinline__ const void* entries_of(
    const int* terms, const void* entries, const int4& tile) {
  return holds(tile) ? reinterpret_cast<const int4*>(terms + 3 * WIDTH) - tile.z : entries;
}
"""
"""hold_entries(terms, entries, tile, thread), and entries_of where await_terms has waited."""

NOT_HELD = r"""
__device__ __forceinline__ void hold_entries(int*, const void*, const int4&, int) {}
__device__ __forceinline__ const void* entries_of(const int*, const void* entries, const int4&) {
  return entries;
}
"""
"""The same where entries are read from memory."""
