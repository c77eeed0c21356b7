r"""CUDA source of a layer normalisation of bytes by the blocks of a cluster that share rows.

A thread holds its part of two rows in each 64-row block of its tile as words of bytes. Its quad
adds up the bytes and their squares, exactly, and sends both sums of each row to every block of the
cluster, its own among them. What follows is the arithmetic of the formula over whole rows
(`autoq/graph/lowering/cuda/byte_normalisation.py`), rounding by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.element import INTEGER_RANGE, element
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.fragments.two_rows import row_stores
from autoq.templates.epilogue.cuda.values.elements import BYTES4, CLAMPED, SATURATED4

ROW_PAIR_BYTES = 16
"""Of a row and the one eight below: the sum of bytes and of squares of each."""

NORM_WORDS = 8
"""Words of `norm_numbers`."""
_LARGEST = float(1 << 22) - 8.0
_MAGIC_BITS = 0x4B400000
"""Bits of the float32 1.5 * 2**23."""

_MEET = r"""
__device__ __forceinline__ int dot4_@(unsigned a, unsigned b, int sum) { return DOT; }
__device__ __forceinline__ void meet_rows_@(const unsigned* acc, float* moments, const void* place,
                                            const void* barrier, const void* numbers, int part,
                                            int lane) {
  const unsigned own = (unsigned)__cvta_generic_to_shared(place);
  const unsigned signal = (unsigned)__cvta_generic_to_shared(barrier);
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  #pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
    int sum[2] = {0, 0}, squares[2] = {0, 0};
    #pragma unroll
    for (int u = 0; u < UNITS; ++u)
      #pragma unroll
      for (int w = 0; w < CHANNELS / 2; ++w) {
        const unsigned word = acc[(b * UNITS + u) * (2 * CHANNELS) + w];
        sum[w % 2] = dot4_@(word, 0x01010101u, sum[w % 2]);
        squares[w % 2] = dot4_@(word, word, squares[w % 2]);
      }
    #pragma unroll
    for (int apart = 1; apart < 4; apart *= 2)
      #pragma unroll
      for (int row = 0; row < 2; ++row) {
        sum[row] += __shfl_xor_sync(0xffffffffu, sum[row], apart);
        squares[row] += __shfl_xor_sync(0xffffffffu, squares[row], apart);
      }
    #pragma unroll
    for (int i = 0; i < (CLUSTER + 3) / 4; ++i) {
      const int to = i * 4 + lane % 4;
      if (CLUSTER % 4 && to >= CLUSTER) continue;
      unsigned there, counts;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there)
                   : "r"(own + (((b * CLUSTER + rank) * PARTS + part) * 8 + lane / 4) * 16),
                     "r"(to));
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counts) : "r"(signal), "r"(to));
      asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32"
                   " [%0], {%1, %2, %3, %4}, [%5];"
                   :: "r"(there), "r"(sum[0]), "r"(squares[0]), "r"(sum[1]), "r"(squares[1]),
                      "r"(counts) : "memory");
    }
  }
  const float epsilon = static_cast<const float*>(numbers)[0];
  const float in_steps = static_cast<const float*>(numbers)[1];
  unsigned done;
  do {
    asm volatile("{ .reg .pred there;\n"
                 "  mbarrier.try_wait.parity.shared::cta.b64 there, [%1], 0;\n"
                 "  selp.u32 %0, 1, 0, there; }" : "=r"(done) : "r"(signal) : "memory");
  } while (!done);
  // A lane of a quad adds up one of four: the sum and the squares of either row.
  const bool odd = lane % 2, lower = lane / 2 % 2;
  #pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
    int mine = 0;
    #pragma unroll
    for (int s = 0; s < CLUSTER * PARTS; ++s)
      mine += static_cast<const int*>(place)[(b * (CLUSTER * PARTS) + s) * 32 + lane];
    const int other = __shfl_xor_sync(0xffffffffu, mine, 1);
    const int sum = odd ? other : mine, squares = odd ? mine : other;
    const float spread = (float)((long long)squares * COLUMNS - (long long)sum * sum);
    const float variance = __fmaf_rn(spread, SQUARE_SHARE, epsilon);
    float root;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(variance));
    const float mean = __fmul_rn((float)sum, SHARE), factor = __fmul_rn(root, in_steps);
    const float mean_of_other = __shfl_xor_sync(0xffffffffu, mean, 2);
    const float factor_of_other = __shfl_xor_sync(0xffffffffu, factor, 2);
    moments[4 * b] = lower ? mean_of_other : mean;
    moments[4 * b + 1] = lower ? factor_of_other : factor;
    moments[4 * b + 2] = lower ? mean : mean_of_other;
    moments[4 * b + 3] = lower ? factor : factor_of_other;
  }
  moments[4 * BLOCKS] = static_cast<const float*>(numbers)[5];
}
"""

# A byte u as a half is the denormal u * 2**-24: x - mean is one instruction, and rounded once.
_RESTS = {
    "uint8": r"""
__device__ __forceinline__ void rests_@(unsigned word, float mean, float* rest) {
  const unsigned low = __byte_perm(word, 0, 0x4140), high = __byte_perm(word, 0, 0x4342);
  const unsigned short halves[4] = {(unsigned short)low, (unsigned short)(low >> 16),
                                    (unsigned short)high, (unsigned short)(high >> 16)};
  #pragma unroll
  for (int e = 0; e < 4; ++e) {
    asm("cvt.f32.f16 %0, %1;" : "=f"(rest[e]) : "h"(halves[e]));
    rest[e] = __fmaf_rn(rest[e], 16777216.f, -mean);
  }
}
""",
    "int8": r"""
__device__ __forceinline__ void rests_@(unsigned word, float mean, float* rest) {
  word ^= 0x80808080u;
  #pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float u = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7440u + e));
    rest[e] = __fsub_rn(__fsub_rn(u, 8388736.f), mean);
  }
}
""",
}

_ROWS = r"""
__device__ __forceinline__ unsigned normalised4_@(unsigned word, const float* moments,
                                                  float4 factor, float4 offset,
                                                  const float* numbers) {
  const float factors[4] = {factor.x, factor.y, factor.z, factor.w};
  const float offsets[4] = {offset.x, offset.y, offset.z, offset.w};
  float rest[4];
  rests_@(word, moments[0], rest);
  int bits[4];
  #pragma unroll
  for (int e = 0; e < 4; ++e) {
    float value = __fmaf_rn(__fmul_rn(rest[e], moments[1]), factors[e], offsets[e]);
    if (!SHORT) value = clamped_@(value, numbers[2], numbers[3]);
    bits[e] = __float_as_int(__fadd_rn(value, 12582912.f));
    if (SHORT) bits[e] = __viaddmax_s32(bits[e], __float_as_int(numbers[6]),
                                        __float_as_int(numbers[7]));
  }
  if (SHORT) return saturated4_@(bits[0], bits[1], bits[2], bits[3]);
  return bytes4_@(bytes2_@(bits[0], bits[1]), bytes2_@(bits[2], bits[3]), last_byte_@(numbers[4]));
}
__device__ __forceinline__ void normalised_rows_@(const unsigned* acc, const float* moments,
    const void* constants, const void* all, OUT* y0, OUT* y1, int ok0, int ok1, int left) {
  const float4* four = static_cast<const float4*>(constants);
  const float* numbers = static_cast<const float*>(all);
  unsigned out0[WORDS], out1[WORDS];
  #pragma unroll
  for (int q = 0; q < WORDS; ++q) {
    const float4 factor = four[4 * q], offset = four[4 * q + BLOCK_N / 4];
    out0[q] = normalised4_@(acc[2 * q], moments, factor, offset, numbers);
    out1[q] = normalised4_@(acc[2 * q + 1], moments + 2, factor, offset, numbers);
  }
STORES
}
"""
_DOTS = {
    "int8": "__dp4a((int)a, (int)b, sum)",
    "uint8": "(int)__dp4a(a, b, (unsigned)sum)",
}
_TYPES = {"int8": "signed char", "uint8": "unsigned char"}


@dataclass(frozen=True)
class RowNorm:
    """A normalisation of whole rows of bytes; out_dtype: int8 or uint8, of what is written."""

    out_dtype: str


def norm_numbers(
    norm: RowNorm, numbers: np.ndarray, factor: np.ndarray, offset: np.ndarray
) -> np.ndarray:
    """The numbers of all rows as kernels take them, float32 [NORM_WORDS].

    These are epsilon, the factor of all columns, both bounds and the zero point as numbers has
    them; whether the short form is exact, in which no value leaves what float32 holds as integers
    and the type itself is the upper bound; and, as bits, what is added to a rounded output then,
    and the least output. factor and offset: of columns.
    """
    epsilon, in_steps, low, high, zero_point = map(float, numbers)
    # No integer of a row is further from the mean than the root of their number deviations.
    largest = abs(in_steps) * float(np.abs(factor).max()) * 1.01 * factor.size**0.5
    small = epsilon > 0 and largest + float(np.abs(offset).max()) <= _LARGEST
    whole = low.is_integer() and high.is_integer() and zero_point.is_integer()
    least, most = INTEGER_RANGE[norm.out_dtype]
    short = small and whole and least <= low + zero_point <= most == high + zero_point
    found = np.zeros(NORM_WORDS, np.float32)
    found[:5] = numbers
    if short:
        found[5] = 1
        found[6:].view(np.int32)[:] = int(zero_point) - _MAGIC_BITS, int(low + zero_point)
    return found


def _with(source: str, **words: object) -> str:
    for name, word in words.items():
        source = source.replace(name, str(word))
    return source


def _float(value: float) -> str:
    return f"{float(np.float32(value)).hex()}f"


def meet_rows(
    dtype: str, columns: int, blocks: int, units: int, channels: int, cluster: int, parts: int
) -> DeviceFunction:
    """meet(acc, moments, place, barrier, numbers, part, lane): by a warp, of the rows that it has.

    acc: words of bytes of `dtype`, as `FragmentRows` keeps them; moments: of each 64-row block the
    mean and the factor of both rows, then whether the short form is exact; place: where the sums
    of the warp's rows come to, with its barrier; numbers: `norm_numbers`, in shared memory; part:
    which of so many warpgroups that have the same rows. columns: of a whole row; blocks: of 64
    rows; units and channels: of a thread in each of them.
    """
    source = _with(
        _MEET, DOT=_DOTS[dtype], SQUARE_SHARE=_float(1 / columns**2), SHARE=_float(1 / columns),
        COLUMNS=columns, BLOCKS=blocks, UNITS=units, CHANNELS=channels, CLUSTER=cluster,
        PARTS=parts,
    )  # fmt: skip
    return device_function("meet_rows", source)


def normalised_rows(rows: FragmentRows, norm: RowNorm, block_n: int, short: bool) -> DeviceFunction:
    """normalised(acc, moments, constants, numbers, y0, y1, ok0, ok1, left): stores a unit.

    moments: of its two rows; constants: its place among factors in shared memory, with offsets
    behind those of all `block_n` columns; short: where `norm_numbers` says that it is exact.
    """
    stores: list[str] = []
    for row in range(2):
        stores += row_stores(row, rows.vectors(norm.out_dtype), rows.tail)
    source = _with(
        _ROWS, OUT=_TYPES[norm.out_dtype], WORDS=rows.channels // 4, BLOCK_N=block_n,
        STORES="\n".join(stores), SHORT=str(short).lower(),
    )  # fmt: skip
    helpers = CLAMPED + BYTES4 + SATURATED4.replace("TYPE", element(norm.out_dtype).ptx or "")
    return device_function("normalised_rows", helpers + _RESTS[rows.epilogue.out_dtype] + source)
