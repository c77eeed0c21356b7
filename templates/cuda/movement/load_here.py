"""Loads that stay where they are written, in front of a wait for other kernels."""

from __future__ import annotations

LOAD_HERE = r"""
// `load`, where it is written: ptxas moves a load of what never changes behind the wait, and behind
// sums that it could overlap.
template <class T, int V> __device__ __forceinline__ Raw<T, V> load_here(const T* from) {
  constexpr int bytes = V * BITS<T> / 8;
  Raw<T, V> raw;
  const size_t at = __cvta_generic_to_global(from);
  unsigned* w = raw.word;
  if constexpr (bytes == 16)
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(at));
  else if constexpr (bytes == 8)
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(at));
  else if constexpr (bytes == 4)
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(w[0]) : "l"(at));
  else raw = load<T, V>(from);
  return raw;
}
"""
"""load_here<T, V>(from): what `load` of `PACKED_VALUES` reads, of memory that nobody writes."""
