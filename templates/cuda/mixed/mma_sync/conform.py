"""Narrow weights into the threads that multiply them, wherever they were not arranged offline.

ldmatrix gives each thread of four 4 consecutive bytes of a row, as a product of bytes needs them; a
fragment of 16-bit floats needs two values of each half of 16. The words of a row and of the row
eight below are exchanged together, so that each shuffle moves 4 bytes that are wanted: two shuffles
for two words, half of what a word at a time takes.
"""

from __future__ import annotations

from autoq.templates.cuda.device.functions import DeviceFunction, device_function

# words: of row 0 and row 8 of 16 values; afterwards the lower and the upper 8 k of both.
_BYTES = r"""
__device__ __forceinline__ void exchange_@(unsigned* words, int lane) {
  const int quarter = lane & 3;
  const unsigned first = quarter < 2 ? 0x5410u : 0x7632u;
  const int from = (lane & ~3) + quarter / 2 + quarter % 2 * 2;
  const unsigned here = __shfl_sync(~0u, __byte_perm(words[0], words[1], first), from);
  const unsigned there =
      __shfl_sync(~0u, __byte_perm(words[0], words[1], first ^ 0x2222u), from ^ 2);
  words[0] = quarter % 2 ? there : here;
  words[1] = quarter % 2 ? here : there;
}
"""
# words: of row 0 and row 8 of 32 values; afterwards of 16 values each, a byte a register.
_NIBBLES = r"""
__device__ __forceinline__ void exchange_@(unsigned* words, int lane) {
  const unsigned odd = lane % 2, upper = lane / 2 % 2;
  const unsigned own = odd ? 0x7351u : 0x6240u;
  const unsigned keep = __byte_perm(words[0], words[1], own);
  const unsigned given =
      __shfl_xor_sync(~0u, __byte_perm(words[0], words[1], own ^ 0x1111u), 1);
  const unsigned half = (odd ? 0x1054u : 0x5410u) ^ (upper ? 0x2222u : 0u);
  const unsigned same = __byte_perm(keep, given, half);
  const unsigned other = __shfl_xor_sync(~0u, __byte_perm(keep, given, half ^ 0x2222u), 2);
  words[0] = upper ? other : same;
  words[1] = upper ? same : other;
}
"""
_CONFORM = r"""
__device__ __forceinline__ void conform_@(unsigned* words, int lane) {
  exchange_@(words, lane);
  exchange_@(words + 2, lane);
}
"""
# rows: the first of 16 rows; unit: of 16 bytes, the first of two.
_NARROW = r"""
__device__ __forceinline__ unsigned part_@(const void* rows, int row, int unit, int byte) {
  const int place = row * ROW_BYTES + (unit ^ row / LINE_ROWS % SWIZZLED) * 16 + byte;
  return *reinterpret_cast<const PART*>(static_cast<const char*>(rows) + place);
}
__device__ __forceinline__ void narrow_@(unsigned* words, const void* rows, int unit, int lane) {
  const int row = lane / 4, quarter = lane % 4;
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    PARTS
  }
}
"""
_BYTE_PARTS = """const int byte = i % 2 * 8 + quarter * 2;
    words[i] = part_@(rows, row, unit + i / 2, byte) |
               part_@(rows, row + 8, unit + i / 2, byte) << 16;"""
_NIBBLE_PARTS = """const int byte = i % 2 * 8 + quarter;
    words[i] = part_@(rows, row, unit + i / 2, byte) |
               part_@(rows, row + 8, unit + i / 2, byte) << 8 |
               part_@(rows, row, unit + i / 2, byte + 4) << 16 |
               part_@(rows, row + 8, unit + i / 2, byte + 4) << 24;"""


def conform(nibbles: bool) -> DeviceFunction:
    """conform(words, lane): what ldmatrix.x4 read of 16 rows of 32 bytes, as fragments need it."""
    return device_function("conform", (_NIBBLES if nibbles else _BYTES) + _CONFORM)


def narrow(nibbles: bool, row_bytes: int) -> DeviceFunction:
    """narrow(words, rows, unit, lane): the same, read piece by piece from swizzled rows."""
    units = row_bytes // 16
    source = _NARROW.replace("PARTS", _NIBBLE_PARTS if nibbles else _BYTE_PARTS)
    for name, value in {
        "ROW_BYTES": row_bytes,
        "LINE_ROWS": max(8 // units, 1),
        "SWIZZLED": min(units, 8),
        "PART": "unsigned char" if nibbles else "unsigned short",
    }.items():
        source = source.replace(name, str(value))
    return device_function("narrow", source)
