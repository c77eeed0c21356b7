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
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.fragments.two_rows import row_stores
from autoq.templates.epilogue.cuda.values.elements import BYTES4, CLAMPED, flip

ROW_PAIR_BYTES = 16
"""Of a row and the one eight below: the sum of bytes and of squares of each."""

NORM_WORDS = 8
"""Words of `NORM_NUMBERS`, with padding."""

_MEET = r"""
__device__ __forceinline__ int dot4_@(unsigned a, unsigned b, int sum) { return DOT; }
// moments: the mean and the factor of each row, [64-row block][row][2].
__device__ __forceinline__ void meet_rows_@(const unsigned* acc, float* moments, const void* place,
                                            const void* barrier, const void* numbers, int lane) {
  const unsigned own = (unsigned)__cvta_generic_to_shared(place);
  const unsigned signal = (unsigned)__cvta_generic_to_shared(barrier);
  #pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
    int sum[2] = {0, 0}, squares[2] = {0, 0};
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g)
      #pragma unroll
      for (int w = 0; w < CHANNELS / 2; ++w) {
        const unsigned word = acc[(b * GROUPS + g) * (2 * CHANNELS) + w];
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
      unsigned rank, there, counts;
      asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there)
                   : "r"(own + ((b * CLUSTER + rank) * 8 + lane / 4) * 16), "r"(to));
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
  #pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
    int sum[2] = {0, 0}, squares[2] = {0, 0};
    #pragma unroll
    for (int r = 0; r < CLUSTER; ++r) {
      const int4 part = static_cast<const int4*>(place)[(b * CLUSTER + r) * 8 + lane / 4];
      sum[0] += part.x, squares[0] += part.y, sum[1] += part.z, squares[1] += part.w;
    }
    #pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float total = (float)sum[row];
      const int whole = (int)total;
      const float spread = (float)((long long)squares[row] * COLUMNS - (long long)whole * whole);
      const float variance = __fmaf_rn(spread, SQUARE_SHARE, epsilon);
      float root;
      asm("rsqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(variance));
      moments[4 * b + 2 * row] = __fmul_rn(total, SHARE);
      moments[4 * b + 2 * row + 1] = __fmul_rn(root, in_steps);
    }
  }
}
"""

_ROWS = r"""
__device__ __forceinline__ unsigned normalised4_@(unsigned word, const float* moments,
                                                  float4 factor, float4 offset,
                                                  const float* numbers) {
  const float factors[4] = {factor.x, factor.y, factor.z, factor.w};
  const float offsets[4] = {offset.x, offset.y, offset.z, offset.w};
  unsigned bits[4];
  word ^= FLIP;
  #pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float u = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7440u + e));
    const float rest = __fsub_rn(__fsub_rn(u, ORIGIN), moments[0]);
    const float value = __fmaf_rn(__fmul_rn(rest, moments[1]), factors[e], offsets[e]);
    bits[e] = __float_as_uint(__fadd_rn(clamped_@(value, numbers[2], numbers[3]), 12582912.f));
  }
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


def _with(source: str, **words: object) -> str:
    for name, word in words.items():
        source = source.replace(name, str(word))
    return source


def _float(value: float) -> str:
    return f"{float(np.float32(value)).hex()}f"


def meet_rows(
    dtype: str, columns: int, blocks: int, groups: int, channels: int, cluster: int
) -> DeviceFunction:
    """meet(acc, moments, place, barrier, numbers, lane): by a warp, of the rows that it holds.

    acc: words of bytes of `dtype`, as `FragmentRows` keeps them; moments: registers, two a row;
    place: where the sums of the warp's rows come to, with its barrier; numbers: NORM_NUMBERS, in
    shared memory. columns: of a whole row; blocks: of 64 rows; groups and channels: of a thread.
    """
    source = _with(
        _MEET, DOT=_DOTS[dtype], SQUARE_SHARE=_float(1 / columns**2), SHARE=_float(1 / columns),
        COLUMNS=columns, BLOCKS=blocks, GROUPS=groups, CHANNELS=channels, CLUSTER=cluster,
    )  # fmt: skip
    return device_function("meet_rows", source)


def normalised_rows(rows: FragmentRows, norm: RowNorm, block_n: int) -> DeviceFunction:
    """normalised(acc, moments, constants, numbers, y0, y1, ok0, ok1, left): stores a unit.

    moments: of its two rows; constants: its place among factors in shared memory, with offsets
    behind those of all `block_n` columns.
    """
    stores: list[str] = []
    for row in range(2):
        stores += row_stores(row, rows.vectors(norm.out_dtype), rows.tail)
    signed = rows.epilogue.out_dtype == "int8"
    source = _with(
        _ROWS, FLIP=flip(rows.epilogue.out_dtype), ORIGIN=_float(2**23 + 128 * signed),
        OUT=_TYPES[norm.out_dtype], WORDS=rows.channels // 4, BLOCK_N=block_n,
        STORES="\n".join(stores),
    )  # fmt: skip
    return device_function("normalised_rows", CLAMPED + BYTES4 + source)
