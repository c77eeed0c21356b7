"""Narrow weights as pairs of 16-bit floats: how they are stored, and what widens them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE, element
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mixed.pair import ARITHMETIC
from autoq.templates.cuda.mixed.widening import (
    UNIT_OF_MASKED,
    UNIT_OF_SUBNORMAL,
    Widening,
    widen_source,
)
from autoq.templates.operators.float_gemm import FloatGemm

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
      STATE
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
_STATE = """state[0] = __byte_perm(first, 0, 0x3232), state[2] = __byte_perm(first, 0, 0x1010);
      state[1] = __byte_perm(second, 0, 0x3232), state[3] = __byte_perm(second, 0, 0x1010);"""
# What is added to subnormal nibbles is 8 of them, taken away: -2^-21 and -2^-17 times the scale.
_STATE_SUBNORMAL = """state[2] = first, state[3] = second;
      state[0] = SIGNED ? mul_@(first, 0x80088008u) : 0u;
      state[1] = SIGNED ? mul_@(second, 0x80808080u) : 0u;"""
_BYTE_PART = """const uint4 four = words[part * 128];
    widen_@(a + 8 * part, four.x, four.y, state);
    widen_@(a + 8 * part + 4, four.z, four.w, state);"""
_NIBBLE_PART = """const uint4 four = *words;
    const unsigned pair[2] = {part ? four.z : four.x, part ? four.w : four.y};
    widen_@(a + 8 * part, pair[0], state AND_SCALES);
    widen_@(a + 8 * part + 4, pair[1], state AND_SCALES);"""


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
    widening: Widening = Widening.PERMUTE

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
    def subnormal(self) -> bool:
        """Whether one multiply-add widens nibbles and multiplies them by their group's scale."""
        return self.widening is Widening.SUBNORMAL

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
    def signed(self) -> bool:
        """Whether weights may be negative."""
        return INTEGER_RANGE[self.workload.weight_dtype][0] < 0

    @property
    def offset(self) -> int:
        """What is added to a value before it is stored."""
        least = INTEGER_RANGE[self.workload.weight_dtype][0]
        if self.widening is Widening.CONVERT:
            return 0
        if self.widening is Widening.TABLE:
            return 0 if least else -8
        if self.nibbles or self.half or self.widening is Widening.FOLD:
            return -least
        return 0 if least else -128  # signed bytes as they are, unsigned ones as signed

    def stored(self, weight: np.ndarray) -> np.ndarray:
        """Weights as they are stored, uint8: nibbles of a table by size and sign."""
        shifted = weight.astype(np.int16) + self.offset
        if self.widening is Widening.TABLE:
            shifted = np.abs(shifted) % 8 + 8 * (shifted < 0)
        return (shifted & (15 if self.nibbles else 255)).astype(np.uint8)

    @property
    def unit(self) -> float:
        """What integers are multiples of when they are widened, a power of 2."""
        if self.subnormal:
            return UNIT_OF_SUBNORMAL
        return UNIT_OF_MASKED if self.widening is Widening.MASK and not self.signed else 1.0

    @property
    def taken(self) -> int:
        """What a zero point of 0 takes from a widened value of the first row, in units."""
        if self.unit != 1:
            return 0
        if self.widening is Widening.PERMUTE and (self.half or self.nibbles):
            return (1024 if self.half else 128) + self.offset
        return self.offset

    def taken_of(self, zero_points: np.ndarray, second_rows: np.ndarray) -> np.ndarray:
        """The packed half or bfloat16 that is taken away, uint16, of zero points and rows.

        second_rows: whether a row is one of the upper eight of sixteen, whose nibbles are
        multiplied by a sixteenth first. Where a multiply-add takes it away it is negative.
        """
        values = (self.taken + zero_points.astype(np.float32)) * np.float32(self.unit)
        if self.nibbles and self.half and self.widening is Widening.PERMUTE:
            values = np.where(second_rows, -(values - 1024 + 64), values)
        if self.widening is Widening.FOLD:
            values = -values
        return values.astype(element(self.workload.in_dtype).dtype).view(np.uint16)

    @property
    def shifted(self) -> bool:
        """Whether anything is taken away of values that need not be brought near zero."""
        return bool(self.taken) or self.workload.zero_points

    @property
    def instructions(self) -> tuple[float, float]:
        """Integer and packed floating-point instructions that widen four values.

        As nvcc 13.0 has them; I2F, which plain converts of signed bytes take, counts fourfold.
        """
        packed = 2.0
        if self.widening is Widening.CONVERT:
            integer = 13.5 if self.nibbles else 21.0 if self.signed else 11.0
        elif self.widening is Widening.TABLE:
            integer = 7.5 if self.half else 8.5
        elif self.nibbles:
            integer = 2.5 if self.half else 3.5
            packed -= 2.0 * self.subnormal
        elif self.half:
            integer = 2.0
        elif self.widening is Widening.FOLD:
            integer, packed = 2.0, 6.0
        elif self.widening is Widening.MASK:
            integer, packed = 5.0, 2.0 + packed * self.shifted
        else:
            integer, packed = 6.0, 2.0 + packed * self.shifted
        if self.widening in (Widening.CONVERT, Widening.TABLE):
            packed *= self.shifted
        return integer, packed + 2.0 * self.scales_weights

    def function(self) -> DeviceFunction:
        """convert(a, from, rows, thread): 16 registers of A [64, 64] from a tile.

        rows: the words that are taken from a thread's two rows, and two that are not read.
        """
        widen = widen_source(self.widening, self.half, self.nibbles, self.signed)
        part = _NIBBLE_PART if self.nibbles else _BYTE_PART
        source = (ARITHMETIC + widen + _STEP).replace("CONVERT", part)
        for name, value in {
            "STATE": _STATE_SUBNORMAL if self.subnormal else _STATE,
            " AND_SCALES": ", state + 2" if self.subnormal else "",
            "SIGNED": str(int(self.signed)),
            "KIND": "f16x2" if self.half else "bf16x2",
            "SHIFTED": str(int(self.shifted)),
            "GROUPED": str(int(self.group_words)),
            "SCALED": str(int(self.scales_weights and not self.subnormal)),
            "GROUPS": str(max(self.groups, 1)),
            "PARTS": "2",
            "VALUES": str(self.values_bytes),
        }.items():
            source = source.replace(name, value)
        return device_function("convert", source)
