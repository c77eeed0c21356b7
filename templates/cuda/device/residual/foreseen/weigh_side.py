"""Passes over one side of a product that say how large the product's rows or columns will be.

Where no two products of a sum have opposite signs, the magnitude of every sum is the sum of the
magnitudes, and what `cuts` of the oracle weighs needs no product: sum_j s_j |p_ij| is
sum_k |a'_ik| w_k with w_k = sum_j s_j |b'_kj|. A pass gives the weights of each k, and takes those
that the other side gave if these are there. All of them are of double precision and added in one
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.foreseen.four_over_warp import FOUR_OVER_WARP
from autoq.templates.cuda.device.residual.foreseen.magnitudes import MAGNITUDES
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_WARPS = 8
_PART = 256
"""Vectors of a block."""
_UNITS = 32
"""Of 16 values along k, one for each lane."""
_THREADS = 64
"""Of a block that adds parts."""

CLASH = TensorSpec("clash", (2,), "int32")
"""Whether some product is positive, and whether some is negative."""

# A lane has 16 values along k of each vector; a warp takes four vectors at once. Signs are a byte
# of each k: the highest bit where a value is negative, the one below where one is positive.
_SOURCE = r"""
__device__ __forceinline__ unsigned signs_of(unsigned word) {
  const unsigned negative = word & 0x80808080u;
  const unsigned there = ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) & ~word & 0x80808080u;
  return negative | there >> 1;
}
__device__ __forceinline__ void weigh_side(
    const void* values, const float* scales, const double* weights, double* sums, int* squares,
    double* parts, void* signs, int* clash, double* shared, int block, int thread) {
  // The last vectors first, which the L2 still holds.
  const int chunk = block % CHUNKS, part = PARTS - 1 - block / CHUNKS;
  const int lane = thread % 32, warp = thread / 32, unit = chunk * 32 + lane;
  const bool inside = unit < VECTORS;
  double own[16] = {}, weight[16];
  unsigned seen[4] = {};
  if (CLEARS && block == 0 && thread < 2) clash[thread] = 0;
  if constexpr (TAKES) {
    #pragma unroll
    for (int i = 0; i < 16; ++i) weight[i] = inside ? __ldg(weights + 16 * unit + i) : 0.;
  }
  #pragma unroll 1
  for (int start = 4 * warp; start < PART; start += 4 * WARPS) {
    const int first = part * PART + start;
    if (first >= ROWS) break;
    uint4 v[4];
    double scale[4], found[4] = {};
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = first + r;
      v[r] = make_uint4(0, 0, 0, 0), scale[r] = 0.;
      if (inside && row < ROWS) {
        size_t at = (size_t)row * VECTORS + unit;
        if constexpr (PACKED) at = packed_at(row, 16 * unit) / 16;
        v[r] = __ldg(static_cast<const uint4*>(values) + at);
      }
      if (row < ROWS) scale[r] = (double)__ldg(scales + row);
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      const unsigned words[4] = {v[r].x, v[r].y, v[r].z, v[r].w};
      #pragma unroll
      for (int w = 0; w < 4; ++w) {
        seen[w] |= signs_of(words[w]);
        const unsigned sizes = magnitudes_of(words[w]);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          const double x = magnitude(sizes, i);
          own[4 * w + i] = __fma_rn(x, scale[r], own[4 * w + i]);
          if constexpr (TAKES) found[r] = __fma_rn(x, weight[4 * w + i], found[r]);
        }
      }
    }
    if constexpr (!TAKES) {
      #pragma unroll
      for (int r = 0; r < 4; ++r) {
        const unsigned words[4] = {v[r].x, v[r].y, v[r].z, v[r].w};
        int square = 0;
        #pragma unroll
        for (int w = 0; w < 4; ++w) square = __dp4a((int)words[w], (int)words[w], square);
        square = __reduce_add_sync(0xffffffffu, square);
        if (lane == 0 && first + r < ROWS) squares[(size_t)chunk * ROWS + first + r] = square;
      }
    }
    if constexpr (TAKES) {
      int which;
      const double sum = four_over_warp(found, lane, which);
      if (lane % 8 == 0 && first + which < ROWS) sums[(size_t)chunk * ROWS + first + which] = sum;
    }
  }
  constexpr int WIDTH = 512;
  #pragma unroll
  for (int i = 0; i < 16; ++i) shared[warp * WIDTH + i * 32 + lane] = own[i];
  __syncthreads();
  for (int at = thread; at < WIDTH; at += 32 * WARPS) {
    double sum = 0.;
    #pragma unroll
    for (int w = 0; w < WARPS; ++w) sum += shared[w * WIDTH + at];
    const int k = (chunk * 32 + at % 32) * 16 + at / 32;
    if (k < 16 * VECTORS) parts[(size_t)part * (16 * VECTORS) + k] = sum;
  }
  __syncthreads();
  unsigned* words = reinterpret_cast<unsigned*>(shared);
  #pragma unroll
  for (int w = 0; w < 4; ++w) words[warp * 128 + w * 32 + lane] = seen[w];
  __syncthreads();
  if (thread < 128) {
    unsigned all = 0;
    #pragma unroll
    for (int w = 0; w < WARPS; ++w) all |= words[w * 128 + thread];
    const int own_unit = chunk * 32 + thread % 32;
    if (own_unit < VECTORS)
      static_cast<unsigned*>(signs)[((size_t)part * VECTORS + own_unit) * 4 + thread / 32] = all;
  }
}
// Adds parts, of which all values along k have one each; with the signs of the other side also says
// whether products clash.
__device__ __forceinline__ void add_parts(
    const double* parts, const unsigned char* signs, const unsigned char* others, double* weights,
    unsigned char* all_signs, int* clash, int k) {
  if (k >= 16 * VECTORS) return;
  double sum = 0.;
  unsigned seen = 0;
  #pragma unroll 8
  for (int p = 0; p < PARTS; ++p) {
    sum += __ldg(parts + (size_t)p * (16 * VECTORS) + k);
    seen |= __ldg(signs + (size_t)p * (16 * VECTORS) + k);
  }
  weights[k] = sum;
  if constexpr (JUDGES) {
    const unsigned other = __ldg(others + k), turned = other >> 1 & 64u | other << 1 & 128u;
    if (seen & other) atomicOr(clash, 1);
    if (seen & turned) atomicOr(clash + 1, 1);
  } else {
    all_signs[k] = (unsigned char)seen;
  }
}
"""


@dataclass(frozen=True)
class SideWeighed:
    """A side of a product whose vectors are weighed.

    name: "a" or "b"; rows: of its vectors; vectors: units of 16 values of each; layout: where these
    lie, None for one vector behind the other.
    """

    name: str
    rows: int
    vectors: int
    layout: WeightLayout | None

    @property
    def parts(self) -> int:
        """Blocks that share the vectors."""
        return blocks_for(self.rows, _PART)

    @property
    def chunks(self) -> int:
        """Blocks that share the values of a vector."""
        return blocks_for(self.vectors, _UNITS)

    @property
    def sums(self) -> TensorSpec:
        """Of each vector, in chunks: its magnitudes by the weights of the other side."""
        return TensorSpec(f"{self.name}_foreseen", (self.chunks, self.rows), "float64")

    @property
    def squares(self) -> TensorSpec:
        """Of each vector, in chunks: the squares of its values."""
        return TensorSpec(f"{self.name}_squares", (self.chunks, self.rows), "int32")

    @property
    def given(self) -> tuple[TensorSpec, TensorSpec]:
        """What blocks give of each k: parts of weights, and signs."""
        return (
            TensorSpec(f"{self.name}_parts", (self.parts, 16 * self.vectors), "float64"),
            TensorSpec(f"{self.name}_signs", (self.parts, 16 * self.vectors), "uint8"),
        )

    @property
    def weights(self) -> TensorSpec:
        """Of each k: the magnitudes of all vectors by their scales."""
        return TensorSpec(f"{self.name}_weights", (16 * self.vectors,), "float64")

    @property
    def signs(self) -> TensorSpec:
        """Of each k: which signs its values have."""
        return TensorSpec(f"{self.name}_all_signs", (16 * self.vectors,), "uint8")

    def _functions(self, **flags: bool) -> DeviceNamespace:
        layout = self.layout or WeightLayout(16, 16, 1, 0, False)
        sizes = {
            **layout.sizes(), "ROWS": self.rows, "VECTORS": self.vectors, "PART": _PART,
            "PARTS": self.parts, "CHUNKS": self.chunks, "WARPS": _WARPS,
            "PACKED": self.layout is not None, "TAKES": False, "CLEARS": False, "JUDGES": False,
            **flags,
        }  # fmt: skip
        source = PACKED_AT + FOUR_OVER_WARP + MAGNITUDES + _SOURCE
        return DeviceNamespace(f"weigh_{self.name}", source, {}, sizes)

    def written(self, takes: bool) -> list[TensorSpec]:
        """What a pass writes: sums by the weights of the other side, or squares and `CLASH`."""
        return [self.sums, *self.given] if takes else [self.squares, *self.given, CLASH]

    def kernel(self, given: Sequence[TensorSpec], target: Target) -> PrimFunc:
        """The pass. Parameters: those of `given`, then those of `written`.

        given: values, scales, and weights of the other side if these are taken. Else zeros are
        written to `CLASH`.
        """
        takes = len(given) > 2
        functions = self._functions(TAKES=takes, CLEARS=not takes)
        parameters = [*given, *self.written(takes)]

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            values, scales, *rest = pointers
            if takes:
                weights, sums, parts, signs = rest
                taken = (weights, sums, 0, parts, signs, 0)
            else:
                squares, parts, signs, clash = rest
                taken = (0, 0, squares, parts, signs, clash)
            words = (_WARPS * 512,)
            shared = builder.alloc_buffer(words, "float64", scope="shared", align=16).data
            call(functions.function("weigh_side"), values, scales, *taken, shared, block, thread)

        blocks = self.parts * self.chunks
        return thread_kernel(parameters, blocks, 32 * _WARPS, target, body, together=2)

    def adding(self, others: TensorSpec | None, target: Target) -> PrimFunc:
        """The kernel that adds parts.

        Parameters: `given`, signs of the other side if these are there, `weights`, then `CLASH`
        if they are, else `signs`.
        """
        functions = self._functions(JUDGES=others is not None)
        behind = CLASH if others else self.signs
        there = [*self.given, *([others] if others else []), self.weights, behind]

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            parts, signs, *rest = pointers
            other = rest.pop(0) if others else 0
            weights, last = rest
            both = (0, last) if others else (last, 0)
            call(functions.function("add_parts"), parts, signs, other, weights, *both,
                 block * _THREADS + thread)  # fmt: skip

        return thread_kernel(there, blocks_for(16 * self.vectors, _THREADS), _THREADS, target, body)
