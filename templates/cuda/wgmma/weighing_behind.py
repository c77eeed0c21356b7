"""Warps of the producer weigh the tiles that consumers have stored, which the L2 still holds.

Consumers that share a tile all wait while its epilogue runs; the producer's warps have nothing else
to do. They lag behind by two tiles at most, which the slots' barriers see to: consumers fill a slot
by storing a tile, and the weighing warps empty it.
"""

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.dependent_launch import wait_for_predecessors
from autoq.templates.cuda.device.memory.ring import RingPosition
from autoq.templates.cuda.wgmma.pieces import walk_of

FIRST_WARP, WARPS = 2, 2
"""Of the producer's warpgroup; the ones before load."""
COLUMNS = 128
"""Of a warp at a time, four for each lane."""
PRODUCER_REGISTERS = 72
"""Of a thread: four rows that are on their way, and what is summed."""

SOURCE = r"""
namespace weighing_@ {
__device__ __forceinline__ double magnitude(int x) {
  const int size = x < 0 ? (int)(0u - (unsigned)x) : x;
  return __dadd_rn(__hiloint2double(0x43300000, size), -0x1p52);
}
__device__ __forceinline__ double longer(float x) {
  const unsigned bits = __float_as_uint(x);
  return x == 0.f ? 0. : __hiloint2double((int)((bits >> 3) + 0x38000000u), (int)(bits << 29));
}
__device__ __forceinline__ double exchanged(double kept, double sent, int apart) {
  return kept + __shfl_xor_sync(0xffffffffu, sent, apart);
}
// Of four rows' sums of each lane the warp's: which one is said by the lane's eighth.
__device__ __forceinline__ double over_columns(const double (&x)[4], int lane) {
  const bool upper = lane & 16, odd = lane & 8;
  const double left = exchanged(upper ? x[2] : x[0], upper ? x[0] : x[2], 16);
  const double right = exchanged(upper ? x[3] : x[1], upper ? x[1] : x[3], 16);
  double one = exchanged(odd ? right : left, odd ? left : right, 8);
  one = exchanged(one, one, 4), one = exchanged(one, one, 2);
  return exchanged(one, one, 1);
}
// Of a warp's columns of a tile; x beyond the last is 0, and so is a scale.
__device__ __forceinline__ void weigh_columns(
    const int* y, const float* rows, const float* columns, double* row_parts,
    double* column_parts, int top, int column, int lane, bool there) {
  float4 scale = make_float4(0.f, 0.f, 0.f, 0.f);
  if (there) scale = __ldg(reinterpret_cast<const float4*>(columns + column));
  double weighed[4] = {};
  #pragma unroll 1
  for (int i = 0; i < BLOCK_M && (WHOLE_M || top + i < M); i += 4) {
    int4 p[4];
    double sums[4];
    #pragma unroll
    for (int t = 0; t < 4; ++t) {
      p[t] = make_int4(0, 0, 0, 0);
      if (there && (WHOLE_M || top + i + t < M))
        p[t] = __ldcg(reinterpret_cast<const int4*>(y + (size_t)(top + i + t) * N + column));
    }
    #pragma unroll
    for (int t = 0; t < 4; ++t) {
      const double a = WHOLE_M || top + i + t < M ? longer(__ldg(rows + top + i + t)) : 0.;
      double x = magnitude(p[t].x);
      weighed[0] = __fma_rn(x, a, weighed[0]), sums[t] = x * longer(scale.x);
      x = magnitude(p[t].y);
      weighed[1] = __fma_rn(x, a, weighed[1]), sums[t] = __fma_rn(x, longer(scale.y), sums[t]);
      x = magnitude(p[t].z);
      weighed[2] = __fma_rn(x, a, weighed[2]), sums[t] = __fma_rn(x, longer(scale.z), sums[t]);
      x = magnitude(p[t].w);
      weighed[3] = __fma_rn(x, a, weighed[3]), sums[t] = __fma_rn(x, longer(scale.w), sums[t]);
    }
    const double sum = over_columns(sums, lane);
    const int row = top + i + lane / 8;
    if (lane % 8 == 0 && (WHOLE_M || row < M)) row_parts[row] = sum;
  }
  if (there) {
    #pragma unroll
    for (int c = 0; c < 4; ++c) column_parts[column + c] = weighed[c];
  }
}
}
// A tile in memory, by all weighing warps together.
__device__ __forceinline__ void weigh_@(
    const int* y, const float* rows, const float* columns, double* row_parts,
    double* column_parts, int m_tile, int n_tile) {
  using namespace weighing_@;
  const int warp = (int)threadIdx.x / 32 - FIRST_WARP, lane = (int)threadIdx.x % 32;
  #pragma unroll 1
  for (int turn = warp; turn < TURNS; turn += WARPS) {
    const int within = turn * COLUMNS + 4 * lane, column = n_tile * BLOCK_N + within;
    weigh_columns(
        y, rows, columns, row_parts + (size_t)(n_tile * TURNS + turn) * M,
        column_parts + (size_t)m_tile * N, m_tile * BLOCK_M, column, lane,
        within < BLOCK_N && (WHOLE_N || column < N));
  }
}
"""


@T.inline
def hand_over(plan, slots, slot, lane):
    """Consumer warp: a tile of which it has stored its part may be weighed."""
    T.cuda.warp_sync()
    if lane == 0:
        T.cuda.mbarrier_wait(slots.full(slot.stage), slot.phase ^ 1)
        slots.release(slot.stage)
    slot.advance()


@T.inline
def weigh_behind(plan, weighed, y, slots, warp, lane, cta, rank):
    """Producer's warps that do nothing else: all tiles of the block, as they are stored."""
    if warp >= FIRST_WARP:
        slot = T.meta_var(RingPosition(plan.config.slots))
        slot.start(0)
        walk = T.meta_var(walk_of(plan))
        walk.start(cta)
        wait_for_predecessors()
        while walk.more:
            m, n = plan.tile(walk.tile, rank)
            T.cuda.mbarrier_wait(slots.empty(slot.stage), slot.phase)
            T.cuda.func_call(
                plan.weighing.function.name,
                y.ptr_to([0]),
                weighed[0].ptr_to([0]),
                weighed[1].ptr_to([0]),
                weighed[2].ptr_to([0, 0]),
                weighed[3].ptr_to([0, 0]),
                m,
                n,
                source_code=plan.weighing.function.source,
            )
            T.cuda.warp_sync()
            if lane == 0:
                T.ptx.mbarrier.arrive.shared.b64(slots.full(slot.stage), T.uint32(1))
            slot.advance()
            walk.advance()
