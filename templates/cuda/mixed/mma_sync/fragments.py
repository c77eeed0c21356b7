"""Integers to fragments of 16-bit floats in registers: every conversion and order of nibbles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mixed.conversion import Conversion
from autoq.templates.cuda.mixed.mma_sync.config import Conform
from autoq.templates.cuda.mixed.pair import MASKED, arithmetic, pair_source
from autoq.templates.cuda.mixed.widening import Widening, widen_bytes, widen_source
from autoq.templates.operators.float_gemm import FloatGemm

# word: bytes of the four registers of a fragment in their order; the low nibble comes first.
_PAIRS = r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* taken) {
  const unsigned upper = word >> 4;
  #pragma unroll
  for (int i = 0; i < 4; ++i)
    d[i] = sub_@(masked_@(__byte_perm(word, upper, 0x4400 + 0x1111 * i), 0x000f000fu, MAGIC),
                 taken[i % 2]);
}
"""
# 0x43 above a byte is 128 + u below 128, and else twice u: halves that and takes 128 away or not.
_UNSIGNED_BYTES = r"""
__device__ __forceinline__ unsigned unsigned_@(unsigned pair) {
  unsigned factor;
  asm("lop3.b32 %0, %1, %2, %3, 0xae;"
      : "=r"(factor) : "r"(pair), "r"(0x00800080u), "r"(0x3f003f00u));
  return fma_@(pair, factor, fma_@(factor, 0xc380c380u, 0x43004300u));
}""" + widen_bytes("0x43434343u", "unsigned_@")
_CONVERT = r"""
__device__ __forceinline__ float value_@(unsigned word, int index) {
  return (float)((TYPE)(word << (32 - BITS - BITS * index)) >> (32 - BITS));
}
"""
_CONVERTED_BYTES = r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned low, unsigned high,
                                        const unsigned* taken) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned word = i < 2 ? low : high;
    d[i] = pair_@(value_@(word, i % 2 * 2), value_@(word, i % 2 * 2 + 1));
    if (SHIFTED) d[i] = sub_@(d[i], taken[i % 2]);
  }
}
"""
_CONVERTED_NIBBLES = r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* taken) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    d[i] = pair_@(value_@(word, 2 * i), value_@(word, 2 * i + 1));
    if (SHIFTED) d[i] = sub_@(d[i], taken[i % 2]);
  }
}
"""
_LOOKED_UP = r"""
__device__ __forceinline__ void widen_@(unsigned* d, unsigned word, const unsigned* taken,
                                        const unsigned* table) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    d[i] = table[word >> (8 * i) & 255];
    if (SHIFTED) d[i] = sub_@(d[i], taken[i % 2]);
  }
}
"""
_SCALED = r"""
__device__ __forceinline__ void fragment_@(unsigned* d, const unsigned* words,
                                           const unsigned* state, const void* table) {
  widen_@(d, WORDS, stateTABLE);
  if (GROUPED) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) d[i] = mul_@(d[i], state[2 + i % 2]);
  }
}
"""
_FILL = r"""
__device__ __forceinline__ void fill_@(void* table, int index) {
  static_cast<unsigned*>(table)[index] = pair_@(value_@(index, 0), value_@(index, 1));
}
"""


@dataclass(frozen=True)
class Fragments:
    """How a configuration's threads make fragments of a workload's integers.

    widening, layout: of the configuration.
    """

    workload: FloatGemm
    widening: Widening
    layout: Conform

    @property
    def shared(self) -> Conversion:
        """What the other kernels of such products know of the types."""
        return Conversion(self.workload)

    @property
    def permutes(self) -> bool:
        """Whether bytes are permuted and masked, not converted or looked up."""
        return self.widening is Widening.PERMUTE

    @property
    def pairs(self) -> bool:
        """Whether a byte holds two neighbouring nibbles of a row, not one of each of two rows."""
        return self.shared.nibbles and not (self.permutes and self.layout is Conform.OFFLINE)

    @property
    def unsigned(self) -> bool:
        """Whether bytes become bfloat16 as they are, and have nothing taken away."""
        integers = not (self.shared.half or self.shared.nibbles or self.shared.signed)
        return self.permutes and integers and not self.workload.zero_points

    @property
    def words(self) -> int:
        """Words of integers of a fragment in a thread."""
        return 1 if self.shared.nibbles else 2

    @property
    def offset(self) -> int:
        """What is added to a value before it is stored as an unsigned one."""
        return self.shared.offset if self.permutes and not self.unsigned else 0

    @property
    def shifted(self) -> bool:
        """Whether something is taken away from widened values."""
        if not self.permutes or self.unsigned:
            return self.workload.zero_points
        return self.shared.half or self.shared.nibbles or self.shared.shifted

    def taken_of(self, zero_points: np.ndarray, second_rows: np.ndarray) -> np.ndarray:
        """What is taken away, uint16, as in `Conversion.taken_of`."""
        if self.permutes and not self.pairs:
            return self.shared.taken_of(zero_points, second_rows)
        least = self.shared.taken if self.permutes else 0
        values = least + zero_points.astype(np.float32)
        return values.astype(element(self.workload.in_dtype).dtype).view(np.uint16)

    def function(self, fused: bool) -> DeviceFunction:
        """fragment(d, words, state, table): the four registers of a fragment.

        words: of integers; state: what is taken from the first and from the second eight rows, then
        what they are multiplied by; table: of `fill`. fused: as in `arithmetic`.
        """
        words = ", ".join(f"words[{i}]" for i in range(self.words))
        table = ", static_cast<const unsigned*>(table)" if self.widening is Widening.TABLE else ""
        source = self._source(fused) + _SCALED.replace("WORDS", words).replace("TABLE", table)
        return device_function("fragment", self._filled_in(source))

    def fill(self) -> DeviceFunction:
        """fill(table, index): one of 256 pairs of values."""
        source = pair_source(self.workload.in_dtype) + _CONVERT + _FILL
        return device_function("fill", self._filled_in(source))

    def _source(self, fused: bool) -> str:
        basis = arithmetic(self.shared.half, fused) + pair_source(self.workload.in_dtype)
        if self.permutes:
            if self.pairs:
                return basis + MASKED + _PAIRS
            if self.unsigned:
                return basis + _UNSIGNED_BYTES
            kind = (self.shared.half, self.shared.nibbles, self.shared.signed)
            return basis + widen_source(self.widening, *kind)
        if self.widening is Widening.TABLE:
            return basis + _LOOKED_UP
        return basis + _CONVERT + (_CONVERTED_NIBBLES if self.pairs else _CONVERTED_BYTES)

    def _filled_in(self, source: str) -> str:
        least = INTEGER_RANGE[self.workload.weight_dtype][0]
        for name, value in {
            "KIND": "f16x2" if self.shared.half else "bf16x2",
            "MAGIC": "0x64006400u" if self.shared.half else "0x43004300u",
            "SHIFTED": str(int(self.shifted)),
            "GROUPED": str(int(self.workload.group > 0)),
            "TYPE": "int" if least else "unsigned",
            "BITS": "4" if self.shared.nibbles else "8",
        }.items():
            source = source.replace(name, value)
        return source
