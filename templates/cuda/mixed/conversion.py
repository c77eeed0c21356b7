"""Narrow weights to pairs of 16-bit floats in registers, in the order of wgmma's A.

PRMT puts bytes u below 0x64, which is the half 1024 + u, and a subtraction of packed halves takes
1024 and the zero point away: four instructions for four values, all of them exact. A signed byte
is stored with its sign bit turned, as 128 more. bfloat16 has eight significant bits: 0x43 above the
low seven bits is 128 + (u & 127), and 0x43 above the eighth bit alone is 128 or 256, so that their
difference is the signed byte, in eight instructions for four values; unsigned bytes are stored as
signed ones, and take two more. Nibbles are masked out of the word. Where the upper one of a byte is
masked in place it counts sixteenfold, which a multiply-add undoes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.element import INTEGER_RANGE, element
from autoq.templates.operators.float_gemm import FloatGemm

_ARITHMETIC = r"""
__device__ __forceinline__ unsigned sub_@(unsigned a, unsigned b) {
  unsigned d;
  asm("sub.rn.KIND %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ unsigned mul_@(unsigned a, unsigned b) {
  unsigned d;
  asm("mul.rn.KIND %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ unsigned fma_@(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("fma.rn.KIND %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
"""
# (word & mask) | bits in one instruction, which ptxas does not find for two constants.
_MASKED = r"""
__device__ __forceinline__ unsigned masked_@(unsigned word, unsigned mask, unsigned bits) {
  unsigned d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(word), "r"(mask), "r"(bits));
  return d;
}
"""

# d: the four registers of k = 16; row 0 and row 8 alternate. taken: what is subtracted of each row.
_BYTES_F16 = r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned low, unsigned high,
                                        const unsigned* taken) {
  d[0] = sub_@(__byte_perm(low, 0x64646464u, 0x4140), taken[0]);
  d[1] = sub_@(__byte_perm(low, 0x64646464u, 0x4342), taken[1]);
  d[2] = sub_@(__byte_perm(high, 0x64646464u, 0x4140), taken[0]);
  d[3] = sub_@(__byte_perm(high, 0x64646464u, 0x4342), taken[1]);
}
"""
_BYTES_BF16 = r"""
__device__ __forceinline__ unsigned signed_@(unsigned pair) {
  return sub_@(pair & 0xff7fff7fu, pair & 0xff80ff80u);
}
__device__ __forceinline__ void widen_@(unsigned* d, unsigned low, unsigned high,
                                        const unsigned* taken) {
  d[0] = signed_@(__byte_perm(low, 0x43434343u, 0x4140));
  d[1] = signed_@(__byte_perm(low, 0x43434343u, 0x4342));
  d[2] = signed_@(__byte_perm(high, 0x43434343u, 0x4140));
  d[3] = signed_@(__byte_perm(high, 0x43434343u, 0x4342));
  if (SHIFTED) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) d[i] = sub_@(d[i], taken[i % 2]);
  }
}
"""
_NIBBLES_F16 = (
    _MASKED
    + r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* taken) {
  const unsigned upper = word >> 8;
  d[0] = sub_@(masked_@(word, 0x000f000fu, 0x64006400u), taken[0]);
  d[1] = fma_@(masked_@(word, 0x00f000f0u, 0x64006400u), 0x2c002c00u, taken[1]);
  d[2] = sub_@(masked_@(upper, 0x000f000fu, 0x64006400u), taken[0]);
  d[3] = fma_@(masked_@(upper, 0x00f000f0u, 0x64006400u), 0x2c002c00u, taken[1]);
}
"""
)
_NIBBLES_BF16 = (
    _MASKED
    + r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* taken) {
  #pragma unroll
  for (int i = 0; i < 4; ++i)
    d[i] = sub_@(masked_@(word >> (4 * i), 0x000f000fu, 0x43004300u), taken[i % 2]);
}
"""
)

# from: the tile of 64 rows and 64 k in shared memory; thread: of the warpgroup.
_STEP = r"""
__device__ __forceinline__ void convert_@(unsigned* a, const void* from, const unsigned* rows,
                                          int thread) {
  const uint4* words = reinterpret_cast<const uint4*>(from) + thread;
  unsigned state[4] = {rows[0], rows[1], rows[2], rows[3]};
  #pragma unroll
  for (int part = 0; part < PARTS; ++part) {
    if (GROUPED && part % (PARTS / GROUPS) == 0) {
      const unsigned* own = reinterpret_cast<const unsigned*>(
          reinterpret_cast<const char*>(from) + VALUES) + part / (PARTS / GROUPS) * 64;
      const int row = thread / 32 * 16 + thread % 32 / 4;
      const unsigned first = own[row], second = own[row + 8];
      state[0] = __byte_perm(first, 0, 0x3232), state[2] = __byte_perm(first, 0, 0x1010);
      state[1] = __byte_perm(second, 0, 0x3232), state[3] = __byte_perm(second, 0, 0x1010);
    }
    CONVERT
    if (SCALED) {
      #pragma unroll
      for (int i = 0; i < 16 / PARTS; ++i)
        a[part * (16 / PARTS) + i] = mul_@(a[part * (16 / PARTS) + i], state[2 + i % 2]);
    }
  }
}
"""
_BYTE_PART = """const uint4 four = words[part * 128];
    widen_@(a + 8 * part, four.x, four.y, state);
    widen_@(a + 8 * part + 4, four.z, four.w, state);"""
_NIBBLE_PART = """const uint4 four = *words;
    const unsigned pair[2] = {part ? four.z : four.x, part ? four.w : four.y};
    widen_@(a + 8 * part, pair[0], state);
    widen_@(a + 8 * part + 4, pair[1], state);"""


class GroupScale(str, Enum):
    """What the scale of a group multiplies.

    WEIGHT: the widened weights, which are rounded to 16 bits once more. SUM: the float32 sum of a
    group's products, of exact factors, before it is added to the others; the group costs a
    multiply-add an accumulator, and as many registers again.
    """

    WEIGHT = "weight"
    SUM = "sum"


@dataclass(frozen=True)
class Conversion:
    """How the integers of a workload's weight become floats of its activations' type.

    A tile of 64 rows and 64 k holds the values, for each of its groups and rows a word of the
    group's zero point and scale where one of them goes to the weights, and the float32 scales where
    they go to the sums.
    """

    workload: FloatGemm
    group_scale: GroupScale = GroupScale.WEIGHT

    @property
    def values_bytes(self) -> int:
        """Bytes of 64 rows of 64 values."""
        return 64 * 64 * element(self.workload.weight_dtype).bits // 8

    @property
    def groups(self) -> int:
        """Groups of a row in 64 values of k that have a scale of their own; 0 without groups."""
        group = self.workload.group
        return max(64 // group, 1) if group else 0

    @property
    def tile_bytes(self) -> int:
        """Bytes of such a tile with what its groups need."""
        return self.sum_scales_at + 256 * self.groups * self.scales_sums

    @property
    def scales_weights(self) -> bool:
        """Whether each widened weight is multiplied by its group's scale."""
        return bool(self.groups) and self.group_scale is GroupScale.WEIGHT

    @property
    def scales_sums(self) -> bool:
        """Whether the sum of each group's products is."""
        return bool(self.groups) and self.group_scale is GroupScale.SUM

    @property
    def group_words(self) -> bool:
        """Whether a tile holds a word of each row and group, for its weights."""
        return self.scales_weights or (self.scales_sums and self.workload.zero_points)

    @property
    def sum_scales_at(self) -> int:
        """Byte offset in a tile of the scales of sums, float32 [groups, 64]."""
        return self.values_bytes + 256 * self.groups * self.group_words

    @property
    def nibbles(self) -> bool:
        return element(self.workload.weight_dtype).packed

    @property
    def half(self) -> bool:
        """Whether activations are float16; else they are bfloat16."""
        return self.workload.in_dtype == "float16"

    @property
    def offset(self) -> int:
        """What is added to a value before it is stored as an unsigned one."""
        least = INTEGER_RANGE[self.workload.weight_dtype][0]
        if self.nibbles or self.half:
            return -least
        return 0 if least else -128  # signed bytes as they are, unsigned ones as signed

    @property
    def taken(self) -> int:
        """What a zero point of 0 takes from a widened value of the first row."""
        if self.half or self.nibbles:
            return (1024 if self.half else 128) + self.offset
        return self.offset

    def taken_of(self, zero_points: np.ndarray, second_rows: np.ndarray) -> np.ndarray:
        """The packed half or bfloat16 that is taken away, uint16, of zero points and rows.

        second_rows: whether a row is one of the upper eight of sixteen, whose nibbles are
        multiplied by a sixteenth first.
        """
        values = self.taken + zero_points.astype(np.float32)
        if self.nibbles and self.half:
            values = np.where(second_rows, -(values - 1024 + 64), values)
        return values.astype(element(self.workload.in_dtype).dtype).view(np.uint16)

    @property
    def shifted(self) -> bool:
        """Whether bytes in bfloat16 have something taken away."""
        return bool(self.taken) or self.workload.zero_points

    @property
    def instructions(self) -> tuple[float, float]:
        """Integer and packed floating-point instructions that widen four values."""
        if self.nibbles:
            integer, packed = (2.5 if self.half else 3.5), 2.0
        elif self.half:
            integer, packed = 2.0, 2.0
        else:
            integer, packed = 6.0, 4.0 if self.shifted else 2.0
        return integer, packed + 2.0 * self.scales_weights

    def function(self) -> DeviceFunction:
        """convert(a, from, rows, thread): 16 registers of A [64, 64] from a tile.

        rows: the words that are taken from a thread's two rows, and two that are not read.
        """
        if self.nibbles:
            widen, part = (_NIBBLES_F16 if self.half else _NIBBLES_BF16), _NIBBLE_PART
        else:
            widen, part = (_BYTES_F16 if self.half else _BYTES_BF16), _BYTE_PART
        source = (_ARITHMETIC + widen + _STEP).replace("CONVERT", part)
        for name, value in {
            "KIND": "f16x2" if self.half else "bf16x2",
            "SHIFTED": str(int(self.shifted)),
            "GROUPED": str(int(self.group_words)),
            "SCALED": str(int(self.scales_weights)),
            "GROUPS": str(max(self.groups, 1)),
            "PARTS": "2",
            "VALUES": str(self.values_bytes),
        }.items():
            source = source.replace(name, value)
        return device_function("convert", source)
