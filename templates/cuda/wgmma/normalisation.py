"""CUDA of a layer normalisation in the epilogue: blocks of a cluster hold whole rows of bytes.

A thread holds the bytes of its two rows of each 64. Sums of them and of their squares are exact
integers, which the warps of all blocks that have the same rows send each other (`st.async`), each
to an mbarrier of its own in every block; then each normalises what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.wgmma.config import PipelineConfig

_SEND = r"""
__device__ __forceinline__ void send_sums_@(const unsigned* held, const void* inbox,
                                            const void* barrier, int rank, int lane) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(inbox) + lane / 4 * (8 * CLUSTER) + rank * 8;
  const unsigned signal = (unsigned)__cvta_generic_to_shared(barrier);
  unsigned sums[ROWS], squares[ROWS];
  #pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    unsigned sum = 0, square = 0;
    #pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      sum = __dp4a(held[r * WORDS + w], 0x01010101u, sum);
      square = __dp4a(held[r * WORDS + w], held[r * WORDS + w], square);
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    square += __shfl_xor_sync(0xffffffffu, square, 1);
    sums[r] = sum + __shfl_xor_sync(0xffffffffu, sum, 2);
    squares[r] = square + __shfl_xor_sync(0xffffffffu, square, 2);
  }
  #pragma unroll
  for (int i = 0; i < CLUSTER / 4; ++i) {
    unsigned remote, remote_signal;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(to), "r"(lane % 4 + 4 * i));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(remote_signal) : "r"(signal), "r"(lane % 4 + 4 * i));
    #pragma unroll
    for (int r = 0; r < ROWS; ++r)
      asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32"
                   " [%0], {%1, %2}, [%3];"
                   :: "r"(remote + r * (64 * CLUSTER)), "r"(sums[r]), "r"(squares[r]),
                      "r"(remote_signal) : "memory");
  }
}
"""

_FINISH = r"""
__device__ __forceinline__ float share_@(unsigned word, int i) {
  const unsigned pair = __byte_perm(word, 0, i < 2 ? 0x4140 : 0x4342);
  float share;
  asm("cvt.f32.f16 %0, %1;" : "=f"(share) : "h"((unsigned short)(i % 2 ? pair >> 16 : pair)));
  return share;
}
// Integers of even zero points in one instruction, as `written_values.py` says.
template <bool EVEN> __device__ __forceinline__ int rounded_@(float value, int place) {
  if constexpr (EVEN)
    return __float_as_int(__saturatef(__fmaf_rn(value, __int_as_float(1), __int_as_float(place))));
  return __float_as_int(__fadd_rn(value, 12582912.f)) + (place - 0x4B400000);
}
template <bool EVEN> __device__ __forceinline__ void write_rows_@(
    const unsigned* held, const float4* columns, const float (&mean)[ROWS],
    const float (&root)[ROWS], int place, OUT* y, int lane) {
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    unsigned out[ROWS][CHANNELS / 4];
    #pragma unroll
    for (int w = 0; w < CHANNELS / 4; ++w) {
      const float4 f = columns[(g * (CHANNELS / 4) + w) * 4 + lane % 4];
      const float4 o = columns[BLOCK_N / 4 + (g * (CHANNELS / 4) + w) * 4 + lane % 4];
      const float factor[4] = {f.x, f.y, f.z, f.w}, offset[4] = {o.x, o.y, o.z, o.w};
      #pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const unsigned word = held[r * WORDS + g * (CHANNELS / 4) + w];
        int v[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float rest = __fmul_rn(__fsub_rn(share_@(word, i), mean[r]), root[r]);
          const float value = __fmaf_rn(rest, factor[i], offset[i]);
          v[i] = rounded_@<EVEN>(value, place);
        }
        unsigned high, low;
        asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(v[3]), "r"(v[2]));
        asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(low) : "r"(v[1]), "r"(v[0]), "r"(high));
        out[r][w] = low ^ (SIGNED ? 0x80808080u : 0u);
      }
    }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      OUT* to = y + (r / 2 * 64 + r % 2 * 8) * ROW + g * (4 * CHANNELS);
      if constexpr (CHANNELS == 16)
        *reinterpret_cast<uint4*>(to) =
            make_uint4(out[r][0], out[r][1], out[r][2], out[r][3]);
      else
        *reinterpret_cast<uint2*>(to) = make_uint2(out[r][0], out[r][1]);
    }
  }
}
__device__ __forceinline__ void normalise_@(const unsigned* held, const void* inbox,
                                            const void* numbers, OUT* y, int lane) {
  const unsigned* box = static_cast<const unsigned*>(inbox) + lane / 4 * (2 * CLUSTER);
  const float4* columns = static_cast<const float4*>(numbers);
  const float4 n = columns[BLOCK_N / 2];
  float mean[ROWS], root[ROWS];
  #pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    int sum = 0, square = 0;
    #pragma unroll
    for (int i = 0; i < CLUSTER / 4; ++i) {
      const uint2 part = *reinterpret_cast<const uint2*>(
          box + r * (16 * CLUSTER) + (lane % 4 + 4 * i) * 2);
      sum += (int)part.x, square += (int)part.y;
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    square += __shfl_xor_sync(0xffffffffu, square, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    square += __shfl_xor_sync(0xffffffffu, square, 2);
    mean[r] = __fmul_rn((float)sum, 0x1p-24f / ROW);
    const float spread = (float)((long long)square * ROW - (long long)sum * sum);
    float reciprocal;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(reciprocal) : "f"(__fmaf_rn(spread, n.x, n.y)));
    root[r] = __fmul_rn(reciprocal, n.z * 0x1p24f);
  }
  const int place = (int)n.w + (SIGNED ? 128 : 0);
  if (place % 2 == 0) write_rows_@<true>(held, columns, mean, root, place, y, lane);
  else write_rows_@<false>(held, columns, mean, root, place, y, lane);
}
"""

_COPY = r"""
__device__ __forceinline__ void copy_numbers_@(void* to, const float* from, int thread) {
  for (int i = thread; i < BLOCK_N / 2 + 1; i += THREADS)
    static_cast<float4*>(to)[i] = __ldg(reinterpret_cast<const float4*>(from) + i);
  asm volatile("bar.sync 7, THREADS;" : : : "memory");
}
"""


@dataclass(frozen=True)
class Normalisation:
    """The normalisation behind a tile of `config` of rows of `row` bytes; out: its dtype."""

    config: PipelineConfig
    row: int
    out: str

    @property
    def cluster(self) -> int:
        """Blocks that share rows."""
        return self.config.grid.cluster

    @property
    def rows(self) -> int:
        """Rows of a thread."""
        return 2 * self.config.m_blocks

    @property
    def words(self) -> int:
        """Words of a thread's bytes of a row."""
        return self.config.block_n // 16

    @property
    def barriers(self) -> int:
        """One of each consumer warp."""
        return 4 * self.config.consumers

    @property
    def inbox_bytes(self) -> int:
        """What a warp receives."""
        return 8 * self.cluster * 8 * self.rows

    @property
    def numbers(self) -> int:
        """Floats of a tile's columns, and the four of all."""
        return 2 * self.config.block_n + 4

    @property
    def bytes(self) -> int:
        """Shared memory behind everything else: barriers, columns' numbers, inboxes."""
        return 8 * self.barriers + 4 * self.numbers + self.barriers * self.inbox_bytes

    def _function(self, name: str, source: str) -> DeviceFunction:
        constants = {
            "CLUSTER": self.cluster, "ROWS": self.rows, "WORDS": self.words,
            "BLOCK_N": self.config.block_n, "GROUPS": self.config.groups,
            "CHANNELS": self.config.channels, "THREADS": 128 * self.config.consumers,
            "SIGNED": int(self.out == "int8"), "ROW": self.row,
            "OUT": "signed char" if self.out == "int8" else "unsigned char",
        }  # fmt: skip
        import re

        for key, value in constants.items():
            source = re.sub(rf"\b{key}\b", str(value), source)
        return device_function(name, source)

    @cached_property
    def send(self) -> DeviceFunction:
        """Sends what a thread's quad knows of its rows to all blocks of the cluster."""
        return self._function("send_sums", _SEND)

    @cached_property
    def finish(self) -> DeviceFunction:
        """Writes the normalised bytes."""
        return self._function("normalise", _FINISH)

    @cached_property
    def copy(self) -> DeviceFunction:
        """Brings the numbers of a tile's columns to shared memory; all consumers meet."""
        return self._function("copy_numbers", _COPY)

    def packed_numbers(self, factor: Any, offset: Any, numbers: Any) -> np.ndarray:
        """float32 [tiles * numbers]: of each tile factors and offsets as threads read them."""
        config = self.config
        # [tile, group, lane of a quad, word, element] -> [tile, group, word, lane, element]
        shape = (-1, config.groups, 4, config.channels // 4, 4)

        def turned(values: Any) -> np.ndarray:
            array = np.asarray(values, np.float32).reshape(shape)
            return array.transpose(0, 1, 3, 2, 4).reshape(-1, config.block_n)

        tiles = self.row // config.block_n
        tail = np.tile(np.asarray(numbers, np.float32), (tiles, 1))
        return np.concatenate([turned(factor), turned(offset), tail], axis=1).reshape(-1)
