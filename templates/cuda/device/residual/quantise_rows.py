"""Rows of float32 as integers: a few lanes hold a row, find its largest value and store it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.occupancy import smem_margin
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.quantisation import QUANTISATION
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_THREADS = 256
_HELD, _HELD_TURNED = 16, 8
"""Vectors of four values that a lane keeps from the search of the largest to the end; where blocks
have many threads, which have few registers."""
_TURNED = 16
"""Rows whose residuals are turned together: 16 bytes of each column."""
_MOST_THREADS = 1024
_SCRATCH_BYTES = 8 * _MOST_THREADS // 32

_SOURCE = r"""
constexpr int CHUNKS = (WORDS + LANES - 1) / LANES;
__device__ __forceinline__ size_t word_at(int row, int word) {
  if constexpr (PACKED) return packed_at(row, 4 * word) / 4;
  else return (size_t)row * WORDS + word;
}
__device__ __forceinline__ float join(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ int join(int a, int b) { return a + b; }
// The largest float, or the sum of integers, for every lane.
template <class T> __device__ __forceinline__ T over_lanes(T x, T* shared, int thread) {
  #pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, apart));
  if constexpr (LANES > 32) {
    T* own = shared + thread / LANES * (LANES / 32);
    if (thread % 32 == 0) shared[thread / 32] = x;
    asm volatile("bar.sync %0, %1;" : : "r"(1 + thread / LANES), "n"(LANES) : "memory");
    x = own[0];
    #pragma unroll
    for (int warp = 1; warp < LANES / 32; ++warp) x = join(x, own[warp]);
  }
  return x;
}
struct Arrays {
  const float* x;
  unsigned *values, *residual, *waiting;
  float *scales, *inverses;
  int* magnitudes;
  const float* bias;
  float* shared;
};
// Residuals go where the values are, or wait in shared memory to be turned.
__device__ __forceinline__ void store_word(
    const Arrays& to, int row, int word, float4 x, const Steps& steps, float& sum) {
  const float4 q = quantised(x, steps);
  const size_t at = word_at(row, word);
  to.values[at] = word_of(q);
  if constexpr (RESIDUAL) to.residual[at] = word_of(residuals(x, q, steps));
  if constexpr (PITCH > 0) to.waiting[row % BAND * WORDS + word] = word_of(residuals(x, q, steps));
  if constexpr (SUMS) {
    sum += fabsf(q.x - WHOLES) + fabsf(q.y - WHOLES) + fabsf(q.z - WHOLES) + fabsf(q.w - WHOLES);
  }
}
__device__ __forceinline__ void quantise_row(const Arrays& to, int own, int thread) {
  const int lane = thread % LANES, row = min(own, ROWS - 1);
  const float* from = to.x + (size_t)row * LENGTH;
  float4 held[HELD ? CHUNKS : 1];
  float largest = 0.f, sum = 0.f;
  if constexpr (HELD) {
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) held[c] = read_four<LENGTH>(from, 4 * (c * LANES + lane));
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) largest = fmaxf(largest, largest_of(held[c]));
  } else {
    #pragma unroll 8
    for (int c = 0; c < CHUNKS; ++c)
      largest = fmaxf(largest, largest_of(read_four<LENGTH>(from, 4 * (c * LANES + lane))));
  }
  largest = over_lanes(largest, to.shared, thread);
  const Steps steps = steps_of(largest);
  if (own < ROWS) {
    if constexpr (HELD) {
      #pragma unroll
      for (int c = 0; c < CHUNKS; ++c) {
        const int word = c * LANES + lane;
        if (WORDS % LANES == 0 || word < WORDS) store_word(to, row, word, held[c], steps, sum);
      }
    } else {
      #pragma unroll 4
      for (int c = 0; c < CHUNKS; ++c) {
        const int word = c * LANES + lane;
        if (word < WORDS)
          store_word(to, row, word, read_four<LENGTH>(from, 4 * word), steps, sum);
      }
    }
  }
  const int total = SUMS ? over_lanes((int)sum, (int*)to.shared + THREADS / 32, thread) : 0;
  if (lane == 0 && own < ROWS) {
    to.scales[row] = steps.scale;
    if constexpr (INVERSES) to.inverses[row] = steps.inverse;
    if constexpr (SUMS) to.magnitudes[row] = total;
    if constexpr (BIAS_AT > 0) to.scales[BIAS_AT + row] = __ldg(to.bias + row);
  }
}
// Bytes of four words of as many rows, as words of a row's neighbours below.
__device__ __forceinline__ void turn_four(const unsigned (&v)[4], unsigned (&turned)[4]) {
  const unsigned a = __byte_perm(v[0], v[1], 0x5140), b = __byte_perm(v[2], v[3], 0x5140);
  const unsigned c = __byte_perm(v[0], v[1], 0x7362), d = __byte_perm(v[2], v[3], 0x7362);
  turned[0] = __byte_perm(a, b, 0x5410), turned[1] = __byte_perm(a, b, 0x7632);
  turned[2] = __byte_perm(c, d, 0x5410), turned[3] = __byte_perm(c, d, 0x7632);
}
__device__ __forceinline__ void turn_band(const Arrays& to, int first, int thread) {
  for (int word = thread; word < WORDS; word += THREADS) {
    unsigned turned[4][4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned four[4], column[4];
      #pragma unroll
      for (int j = 0; j < 4; ++j) four[j] = to.waiting[(4 * i + j) * WORDS + word];
      turn_four(four, column);
      #pragma unroll
      for (int j = 0; j < 4; ++j) turned[j][i] = column[j];
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (4 * word + j >= LENGTH) break;
      reinterpret_cast<uint4*>(to.residual)[((size_t)(4 * word + j) * PITCH + first) / 16] =
          make_uint4(turned[j][0], turned[j][1], turned[j][2], turned[j][3]);
    }
  }
}
__device__ __forceinline__ void quantise_rows(
    const float* x, void* values, void* residual, float* scales, float* inverses,
    int* magnitudes, const float* bias, float* shared, void* waiting, int block, int thread) {
  const Arrays to = {x, static_cast<unsigned*>(values), static_cast<unsigned*>(residual),
                     static_cast<unsigned*>(waiting), scales, inverses, magnitudes, bias, shared};
  // Lanes that go on to another row have met since they read what their others found: its sum.
  static_assert(SUMS || BAND == THREADS / LANES);
  for (int row = thread / LANES; row < BAND; row += THREADS / LANES)
    quantise_row(to, block * BAND + row, thread);
  if constexpr (PITCH > 0) {
    __syncthreads();
    turn_band(to, block * BAND, thread);
  }
}
"""


@dataclass(frozen=True)
class RowsQuantised:
    """A float32 matrix whose rows get a scale each, and what becomes of it.

    rows, length: of the matrix; words: of four values that a row takes, zeros behind its end;
    most: the largest integer; layout: where the values of a packed matrix lie, None for rows one
    behind the other; residual: whether it is written likewise; pitch: bytes of a row of the
    residual with columns as rows, 0 where it is not written so; sums, inverses: whether these are
    written too; bias_at: where among the scales a bias is copied to, 0 for none; lanes: threads
    that share a row.
    """

    rows: int
    length: int
    words: int
    most: int
    layout: WeightLayout | None
    residual: bool
    pitch: int
    sums: bool
    inverses: bool
    bias_at: int
    lanes: int

    @property
    def threads(self) -> int:
        """Of a block: those of all rows that are turned together, if the block has so many."""
        if self.pitch:
            return min(_TURNED * self.lanes, _MOST_THREADS)
        return max(self.lanes, _THREADS)

    @property
    def band(self) -> int:
        """Rows of a block."""
        return _TURNED if self.pitch else self.threads // self.lanes

    @property
    def waiting_bytes(self) -> int:
        """Shared memory for residuals that wait to be turned."""
        return waiting_bytes(self.words) if self.pitch else 0

    def kernel(self, parameters: Sequence[TensorSpec | None], target: Target) -> PrimFunc:
        """Parameters x, bias, values, residual, scale, inverse, sums: those that are not None."""
        chunks = blocks_for(self.words, self.lanes)
        held = chunks <= (_HELD_TURNED if self.pitch else _HELD)
        layout = self.layout or WeightLayout(16, 16, 1, 0, False)
        sizes = {
            **layout.sizes(), "MOST": self.most, "ROWS": self.rows, "LENGTH": self.length,
            "WORDS": self.words, "LANES": self.lanes, "THREADS": self.threads,
            "HELD": held, "PACKED": self.layout is not None, "SUMS": self.sums,
            "RESIDUAL": self.residual, "PITCH": self.pitch, "INVERSES": self.inverses,
            "BIAS_AT": self.bias_at, "BAND": self.band,
        }  # fmt: skip
        functions = DeviceNamespace("quantise_rows", PACKED_AT + QUANTISATION + _SOURCE, {}, sizes)

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            given = iter(pointers)
            x, bias, *rest = [next(given) if spec else 0 for spec in parameters]
            values, residual, scale, inverse, sums = rest
            words, waiting = 2 * self.threads // 32, 0
            shared = builder.alloc_buffer((words,), "float32", scope="shared").data
            if self.pitch:
                room = (self.waiting_bytes // 4,)
                waiting = builder.alloc_buffer(room, "uint32", scope="shared.dyn", align=16).data
            call(functions.function("quantise_rows"), x, values, residual, scale, inverse, sums,
                 bias, shared, waiting, block, thread)  # fmt: skip

        given = [spec for spec in parameters if spec]
        blocks = blocks_for(self.rows, self.band)
        return thread_kernel(given, blocks, self.threads, target, body)


def waiting_bytes(words: int) -> int:
    """Shared memory for the residuals of rows of so many words that are turned together."""
    return 4 * _TURNED * words


def turns(words: int, target: Target) -> bool:
    """Whether rows of so many words can be turned by the kernel that quantises them."""
    return waiting_bytes(words) + _SCRATCH_BYTES + smem_margin(target) <= target.smem_bytes
