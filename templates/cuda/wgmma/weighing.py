"""How large rows and columns of a wgmma product are, weighed by scales, found in its epilogue.

Parts of sums of magnitudes are written that whoever reads them adds in a fixed order: of rows one
for each n tile, of columns one for each consumer's rows. They are of double precision where another
consumer's products hide the work, and where not of single precision, as near as `parts_of_sums.py`
says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm.script import tirx as T

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.device.launch.occupancy import shared_memory_fits
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

_FIRST_BARRIER = 8
"""The first named barrier, of one for each consumer, behind those of the pipeline."""
LONGEST_ROUGH = 256
"""Columns of a tile: a thread adds a quarter of a row's magnitudes one behind the other, so that a
part in single precision is within 80 roundings of its sum, less than `ROUGH_ROW`."""
_MOST_BLOCKS = 4
"""Times 64 rows of a consumer: the part of a column is within 6 + 2 * 4 roundings of its sum, less
than `ROUGH_COLUMN`: of a conversion, of two additions for each 64 rows and of five over threads."""
_SPARE_REGISTERS = 72
"""What a thread needs beside its accumulators."""

# Conversions to doubles run at a quarter of the rate of additions: a magnitude becomes one by its
# bits behind those of 2^52, a scale, which is 0 or normal, by a longer exponent.
_EXACT = r"""
typedef double Sum;
__device__ __forceinline__ Sum magnitude(unsigned x) {
  const int size = (int)x < 0 ? (int)(0u - x) : (int)x;
  return __dadd_rn(__hiloint2double(0x43300000, size), -0x1p52);
}
__device__ __forceinline__ Sum longer(float x) {
  const unsigned bits = __float_as_uint(x);
  return x == 0.f ? 0. : __hiloint2double((int)((bits >> 3) + 0x38000000u), (int)(bits << 29));
}
__device__ __forceinline__ Sum fused(Sum x, Sum y, Sum z) { return __fma_rn(x, y, z); }
__device__ __forceinline__ unsigned sign_of(Sum x) { return (unsigned)__double2hiint(x) >> 31; }
"""
_ROUGH = r"""
typedef float Sum;
__device__ __forceinline__ Sum magnitude(unsigned x) { return fabsf(__int2float_rn((int)x)); }
__device__ __forceinline__ Sum longer(float x) { return x; }
__device__ __forceinline__ Sum fused(Sum x, Sum y, Sum z) { return __fmaf_rn(x, y, z); }
__device__ __forceinline__ unsigned sign_of(Sum x) { return __float_as_uint(x) >> 31; }
"""
_SOURCE = r"""
namespace weighing_@ {
// Scales of four columns, 0 beyond the last.
__device__ __forceinline__ float4 read_columns(const float* columns, int at) {
  if constexpr (N % 4 == 0) {
    const float4 none = make_float4(0.f, 0.f, 0.f, 0.f);
    return WHOLE_N || at < N ? __ldg(reinterpret_cast<const float4*>(columns + at)) : none;
  } else {
    return make_float4(at < N ? __ldg(columns + at) : 0.f,
                       at + 1 < N ? __ldg(columns + at + 1) : 0.f,
                       at + 2 < N ? __ldg(columns + at + 2) : 0.f,
                       at + 3 < N ? __ldg(columns + at + 3) : 0.f);
  }
}
__device__ __forceinline__ void meet(int consumer) {
  asm volatile("bar.sync %0, 128;" : : "r"(FIRST_BARRIER + consumer) : "memory");
}
__device__ __forceinline__ Sum exchanged(Sum kept, Sum sent, int apart) {
  return kept + __shfl_xor_sync(0xffffffffu, sent, apart);
}
// The sum of one of four columns over a warp's lanes: which one is said by the lane's eighth.
__device__ __forceinline__ Sum over_rows(const Sum (&x)[4], int lane) {
  const bool upper = lane & 16, odd = lane & 8;
  const Sum left = exchanged(upper ? x[2] : x[0], upper ? x[0] : x[2], 16);
  const Sum right = exchanged(upper ? x[3] : x[1], upper ? x[1] : x[3], 16);
  const Sum one = exchanged(odd ? right : left, odd ? left : right, 8);
  return exchanged(one, one, 4);
}
}
// The rows of a tile that a warpgroup has, and all its columns.
__device__ __forceinline__ void weigh_@(
    const unsigned* acc, const float* rows, const float* columns, weighing_@::Sum* row_parts,
    weighing_@::Sum* column_parts, void* shared, int m_tile, int n_tile) {
  using namespace weighing_@;
  int thread;  // read anew for each tile, which costs no register while it is multiplied
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  const int consumer = thread / 128 - 1, warp = thread / 32 % 4, lane = thread % 32;
  const int part = m_tile * TEAM + consumer % TEAM, top = part * (64 * BLOCKS);
  const int left = n_tile * BLOCK_N;
  Sum* own = static_cast<Sum*>(shared) + consumer * (4 * BLOCK_N);
  meet(consumer);  // others may still read sums of the tile before
  Sum scale[BLOCKS][2], sums[BLOCKS][2] = {};
  const int row = top + warp * 16 + lane / 4;
  #pragma unroll
  for (int i = 0; i < 2 * BLOCKS; ++i) {
    const int at = row + i / 2 * 64 + i % 2 * 8;
    scale[i / 2][i % 2] = WHOLE_M || at < M ? longer(__ldg(rows + at)) : (Sum)0;
  }
  constexpr int AHEAD = 3;
  Sum found[AHEAD];
  #pragma unroll
  for (int g = 0; g < BLOCK_N / 16; ++g) {
    const int group = g * 4 / CHANNELS, four = g % (CHANNELS / 4);
    const int column = (group * 4 + lane % 4) * CHANNELS + four * 4;
    Sum weighed[4] = {};
    // No sum is negative, which only we know: scales are not all read at once, which spills.
    const unsigned none = g < AHEAD ? 0 : sign_of(found[(g + 1) % AHEAD]);
    const float4 of_four = read_columns(columns, left + column + none);
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      const Sum weight = longer(c == 0 ? of_four.x : c == 1 ? of_four.y : c == 2 ? of_four.z
                                                                         : of_four.w);
      #pragma unroll
      for (int i = 0; i < 2 * BLOCKS; ++i) {
        const int unit = i / 2 * (BLOCK_N / (4 * CHANNELS)) + group;
        const int at = unit * 2 * CHANNELS + four * 8 + c / 2 * 4 + i % 2 * 2 + c % 2;
        const Sum x = magnitude(acc[at]);
        weighed[c] = fused(x, scale[i / 2][i % 2], weighed[c]);
        sums[i / 2][i % 2] = fused(x, weight, sums[i / 2][i % 2]);
      }
    }
    const Sum sum = found[g % AHEAD] = over_rows(weighed, lane);
    if (lane % 8 < 4) own[warp * BLOCK_N + column + lane / 8] = sum;
  }
  #pragma unroll
  for (int i = 0; i < 2 * BLOCKS; ++i) {
    Sum sum = sums[i / 2][i % 2];
    sum = exchanged(sum, sum, 1), sum = exchanged(sum, sum, 2);
    const int at = row + i / 2 * 64 + i % 2 * 8;
    if (lane % 4 == 0 && (WHOLE_M || at < M)) row_parts[(size_t)n_tile * M + at] = sum;
  }
  meet(consumer);
  for (int i = warp * 32 + lane; i < BLOCK_N && (WHOLE_N || left + i < N); i += 128)
    column_parts[(size_t)part * N + left + i] =
        own[i] + own[BLOCK_N + i] + (own[2 * BLOCK_N + i] + own[3 * BLOCK_N + i]);
}
"""


@dataclass(frozen=True)
class Weighing:
    """What the epilogue of a product int32 [m, n] finds besides it, exactly or roughly."""

    m: int
    n: int
    config: PipelineConfig
    rough: bool

    @property
    def row_parts(self) -> int:
        """Sums of a row."""
        return ceil_div(self.n, self.config.block_n)

    @property
    def column_parts(self) -> int:
        """Sums of a column."""
        return ceil_div(self.m, self.config.block_m) * self.config.row_team

    @property
    def dtype(self) -> str:
        """The dtype of the sums."""
        return "float32" if self.rough else "float64"

    @property
    def smem_bytes(self) -> int:
        """Sums of the columns of each warp."""
        return (16 if self.rough else 32) * self.config.block_n * self.config.consumers

    def parts(self) -> tuple[TensorSpec, TensorSpec]:
        """What is written: the sums of rows, and those of columns."""
        return (
            TensorSpec("row_parts", (self.row_parts, self.m), self.dtype),
            TensorSpec("column_parts", (self.column_parts, self.n), self.dtype),
        )

    @cached_property
    def function(self) -> DeviceFunction:
        """Weighs a thread's accumulators of a tile."""
        config = self.config
        numbers = {
            "WHOLE_M": self.m % config.block_m == 0, "WHOLE_N": self.n % config.block_n == 0,
            "M": self.m, "N": self.n, "BLOCKS": config.m_blocks, "BLOCK_N": config.block_n,
            "CHANNELS": config.channels,  "FIRST_BARRIER": _FIRST_BARRIER,
            "TEAM": config.row_team,
        }  # fmt: skip
        constants = "".join(f"constexpr int {name} = {int(n)};\n" for name, n in numbers.items())
        opened = "namespace weighing_@ {\n"
        kind = _ROUGH if self.rough else _EXACT
        return device_function("weigh", _SOURCE.replace(opened, opened + constants + kind, 1))


def weighing_of(
    product: Gemm, config: PipelineConfig, target: Target, rough: bool = False
) -> Weighing | None:
    """What the product's epilogue finds where consumers take whole tiles in turn; else None.

    There it hides behind the products of another consumer. On an H100, during development, it took
    17 us less than a pass over a product [4096, 4096]; where two consumers share the tiles of
    [8192, 8192] all took 42 us more. rough: those find it too, in single precision. None also where
    registers or shared memory do not suffice.
    """
    alone = config.teams > 1
    found = Weighing(product.m, product.n, config, not alone)
    whole = config.parts == 1 and not config.stream_k and not config.tail_stages
    few = config.block_n <= LONGEST_ROUGH and config.m_blocks <= _MOST_BLOCKS
    whole &= (alone or (rough and few)) and not config.last_columns
    registers = config.registers.consumer - config.accumulators
    work = product.as_conv2d()
    smem = config.smem_bytes(config.layout(work)) + found.smem_bytes
    fits = shared_memory_fits(smem, config.blocks_per_unit, target)
    enough = registers >= _SPARE_REGISTERS and config.channels % 4 == 0
    return found if whole and enough and fits else None


def matched(weighing: Weighing | None, handles: Sequence[Any]) -> list[Any]:
    """Buffers of the scales of rows and columns, and of the parts of both; none without handles."""
    if weighing is None:
        return []
    shapes = [((weighing.m,), "float32"), ((weighing.n,), "float32")]
    shapes += [(spec.shape, spec.dtype) for spec in weighing.parts()]
    pairs = zip(handles, shapes, strict=True)
    return [T.match_buffer(handle, *shape, align=16) for handle, shape in pairs]


@T.inline
def weigh_tile(plan, accumulator, weighed, smem, share):
    """Consumer warpgroup: weigh its rows of a tile, whose sums its threads hold."""
    T.cuda.func_call(
        plan.weighing.function.name,
        accumulator.ptr_to([0]),
        weighed[0].ptr_to([0]),
        weighed[1].ptr_to([0]),
        weighed[2].ptr_to([0, 0]),
        weighed[3].ptr_to([0, 0]),
        smem.ptr_to([plan.weigh_offset]),
        share.place.m,
        share.place.n,
        source_code=plan.weighing.function.source,
    )
