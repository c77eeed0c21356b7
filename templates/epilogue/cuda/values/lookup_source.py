"""CUDA source that replaces four output bytes by the entries of a table that they select."""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue

_LOOKUP = r"""
__device__ __forceinline__ unsigned looked_up4_@(unsigned bytes, const void* table) {
  const unsigned char* entries = reinterpret_cast<const unsigned char*>(table);
  const unsigned a = entries[bytes & 0xffu], b = entries[__byte_perm(bytes, 0, 0x4441)];
  const unsigned c = entries[__byte_perm(bytes, 0, 0x4442)], d = entries[bytes >> 24];
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}
"""


_LOOKUP_READ = r"""
__device__ __forceinline__ unsigned looked_up4_@(int a, int b, int c, int d, const void* table) {
  const unsigned char* entries = reinterpret_cast<const unsigned char*>(table);
  const unsigned ab = __byte_perm(entries[a], entries[b], 0x0040);
  const unsigned cd = __byte_perm(entries[c], entries[d], 0x0040);
  return __byte_perm(ab, cd, 0x5410);
}
"""


LOOK_UP_VECTOR = r"""
__device__ __forceinline__ Raw<OUT, V> looked_up(
    const Raw<OUT, V>& bytes, const unsigned char* table) {
  Raw<OUT, V> out = {};
  #pragma unroll
  for (int i = 0; i < V; ++i) {
    const unsigned entry = table[bytes.word[i / 4] >> 8 * (i % 4) & 255u];
    out.word[i / 4] |= entry << 8 * (i % 4);
  }
  return out;
}
"""
"""looked_up(values, table) of a `Raw<OUT, V>` of bytes: `numbers.py` has its types."""


def lookup_source(epilogue: Epilogue) -> str:
    """Source of `looked_up4_@`(bytes, table), where the epilogue has a table."""
    return _LOOKUP if epilogue.table else ""


def read_lookup_source() -> str:
    """Source of `looked_up4_@`(four indices, table)."""
    return _LOOKUP_READ


def looked_up(epilogue: Epilogue, word: str) -> str:
    """Expression of four output bytes from those in `word`, by way of the parameter `lookups`."""
    return f"looked_up4_@({word}, lookups)" if epilogue.table else word


def table_parameter(epilogue: Epilogue) -> str:
    """The last parameter of a requantising function: its table [256], where there is one."""
    return ", const void* lookups" if epilogue.table else ""
