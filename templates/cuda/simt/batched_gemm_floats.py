"""Batched products of two float32 activations on every GPU: fused multiply-adds, tiles of both
factors in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import call, indexable, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.epilogue.scale_and_scalars import pack, packed
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

_SOURCE = r"""
constexpr int ACROSS = BLOCK_N / 4, THREADS = ACROSS * (BLOCK_M / ROWS);
constexpr int X_LINE = BLOCK_M + 4, OTHER_LINE = BLOCK_N + 4;
constexpr bool WHOLE_COLUMNS = N % 4 == 0;

// DEPTH summands of COUNT rows or columns, a line each: `apart` is between neighbours, `along`
// between summands. Zeros beyond the last.
template <int COUNT, int MOST, int APART, int ALONG> __device__ __forceinline__ void load_tile(
    float* to, const float* from, int first, int k, int thread) {
  constexpr int LINE = COUNT + 4;
  #pragma unroll
  for (int start = 0; start < COUNT * DEPTH; start += THREADS) {
    const int index = start + thread;
    const int i = ALONG == 1 ? index / DEPTH : index % COUNT;
    const int j = ALONG == 1 ? index % DEPTH : index / COUNT;
    const bool inside = first + i < MOST && k + j < K;
    if (COUNT * DEPTH % THREADS == 0 || index < COUNT * DEPTH)
      to[j * LINE + i] = inside ? __ldg(from + (first + i) * APART + (k + j) * ALONG) : 0.f;
  }
}
__device__ __forceinline__ float bounded(float v, const float* scalars) {
  const float within = fminf(fmaxf(v, __ldg(scalars + LOW)), __ldg(scalars + HIGH));
  return v != v ? v : within;
}
__device__ __forceinline__ void multiply(
    float* shared, const float* x, const float* other, const float* scale, const float* scalars,
    float* y, int x_at, int other_at, int y_at, int row, int column, int thread) {
  float* of_other = shared + DEPTH * X_LINE;
  float sums[ROWS][4] = {};
  const int own_row = thread / ACROSS * ROWS, own_column = thread % ACROSS * 4;
  for (int k = 0; k < K; k += DEPTH) {
    load_tile<BLOCK_M, M, X_STEP, 1>(shared, x + x_at, row, k, thread);
    load_tile<BLOCK_N, N, OTHER_APART, OTHER_ALONG>(of_other, other + other_at, column, k, thread);
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < DEPTH; ++j) {
      float left[ROWS];
      #pragma unroll
      for (int r = 0; r < ROWS; r += 4)
        *reinterpret_cast<float4*>(left + r) =
            *reinterpret_cast<const float4*>(shared + j * X_LINE + own_row + r);
      const float4 right =
          *reinterpret_cast<const float4*>(of_other + j * OTHER_LINE + own_column);
      #pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        sums[r][0] = __fmaf_rn(left[r], right.x, sums[r][0]);
        sums[r][1] = __fmaf_rn(left[r], right.y, sums[r][1]);
        sums[r][2] = __fmaf_rn(left[r], right.z, sums[r][2]);
        sums[r][3] = __fmaf_rn(left[r], right.w, sums[r][3]);
      }
    }
    __syncthreads();
  }
  const float factor = __ldg(scale);
  #pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (row + own_row + r >= M) break;
    float v[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = bounded(sums[r][i] * factor, scalars);
    const int at = column + own_column;
    float* to = y + y_at + (row + own_row + r) * Y_STEP + at;
    if constexpr (WHOLE_COLUMNS) {
      if (at < N) *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
      #pragma unroll
      for (int i = 0; i < 4; ++i)
        if (at + i < N) to[i] = v[i];
    }
  }
}
"""
_DEPTH = 16
"""Summands of a tile in shared memory."""
_SIZES = (32, 64, 128)
_LEAST_THREADS, _MOST_THREADS = 64, 512


@dataclass(frozen=True)
class BatchedFloatsConfig:
    """Configuration of the kernel.

    block_m: rows of y of a block.
    block_n: columns of y of a block.
    rows: rows of y of a thread, each of four columns.
    """

    block_m: int
    block_n: int
    rows: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block_m // self.rows * (self.block_n // 4)


def matches(workload: object, target: Target) -> bool:
    """Batches of products of float32 that end in float32, whose arrays have int32 indices."""
    return (
        isinstance(workload, BatchedGemm)
        and target.kind == "cuda"
        and workload.in_dtype == workload.epilogue.out_dtype == "float32"
        and indexable(workload.x_shape, workload.other_shape, workload.y_shape)
    )


def space(workload: BatchedGemm, target: Target) -> Space[BatchedFloatsConfig]:
    """Blocks of 64 to 512 threads."""

    def threads_fit(config: BatchedFloatsConfig) -> bool:
        """a block has 64 to 512 threads"""
        return _LEAST_THREADS <= config.threads <= _MOST_THREADS

    knobs = {"block_m": _SIZES, "block_n": _SIZES, "rows": (4, 8)}
    return Space(BatchedFloatsConfig, knobs, (threads_fit,))


def _blocks(workload: BatchedGemm, config: BatchedFloatsConfig) -> int:
    across = ceil_div(workload.n, config.block_n)
    return workload.products * ceil_div(workload.m, config.block_m) * across


def default(workload: BatchedGemm, target: Target) -> BatchedFloatsConfig:
    """The largest of square tiles that leave two blocks for every multiprocessor."""
    tiles = [BatchedFloatsConfig(size, size, 8 if size == _SIZES[-1] else 4) for size in _SIZES]
    many = [tile for tile in tiles if _blocks(workload, tile) >= 2 * target.units]
    return many[-1] if many else tiles[0]


def build(workload: BatchedGemm, config: BatchedFloatsConfig, target: Target) -> PrimFunc:
    """The products; parameters x, other, scale [1], scalars, y."""
    x_step, other_step, y_step = (
        workload.row_places(order, 0)[1]
        for order in (workload.x_order, workload.other_order, workload.y_order)
    )
    last = workload.other_order.endswith("k")
    functions = DeviceNamespace("batched_gemm_floats", _SOURCE, {}, {
        "M": workload.m, "N": workload.n, "K": workload.k, "DEPTH": _DEPTH,
        "BLOCK_M": config.block_m, "BLOCK_N": config.block_n, "ROWS": config.rows,
        "X_STEP": x_step, "Y_STEP": y_step, "OTHER_APART": other_step if last else 1,
        "OTHER_ALONG": 1 if last else other_step,
        "LOW": SCALAR_NAMES.index("low"), "HIGH": SCALAR_NAMES.index("high"),
    })  # fmt: skip
    across, down = ceil_div(workload.n, config.block_n), ceil_div(workload.m, config.block_m)
    floats = _DEPTH * (config.block_m + config.block_n + 8)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        shared = builder.alloc_buffer((floats,), "float32", scope="shared", align=16)
        pair, row = block // (across * down), block // across % down * config.block_m
        orders = (workload.x_order, workload.other_order, workload.y_order)
        places = (workload.row_places(order, pair)[0] for order in orders)
        column = block % across * config.block_n
        call(functions.function("multiply"), shared.data, *pointers, *places, row, column, thread)

    parameters = [*workload.inputs, *packed(workload, config), *workload.outputs]
    return thread_kernel(parameters, _blocks(workload, config), config.threads, target, body)


TEMPLATE = Template("batched_gemm_floats", 1, matches, space, default, build, pack, packed)
"""Products of two float32 activations in batches."""
