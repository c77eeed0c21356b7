"""The kernel of formulas over the rows of arrays.

The lanes of a row hold it in registers from the first load to the last store, so that sums, maxima
and what follows from them cost no second pass over memory. Lanes join their values by shuffles,
warps by shared memory, always in the same order: results are the same to the bit in every run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap, cooperating
from autoq.templates.cuda.device.launch.thread_kernel import (
    Start,
    blocks_for,
    call,
    thread_kernel,
)
from autoq.templates.cuda.movement.load_here import LOAD_HERE
from autoq.templates.cuda.movement.row_byte_sums import SOURCE as _BYTE_SUMS
from autoq.templates.cuda.movement.row_entry import Further, entry
from autoq.templates.cuda.movement.row_formula import BYTE_SUMS, RowFormula
from autoq.templates.cuda.movement.rows_plan import RowArrays, RowPlan
from autoq.templates.cuda.movement.written_values import WRITE, WRITE_AT_ONCE, bounds
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.target import Target

_SOURCE = r"""
template <int N> __device__ __forceinline__ void write_rounded(
    To<OUT> y, int at, const float (&value)[N]) {
  unsigned bits[(N + 3) / 4 * 4];
  #pragma unroll
  for (int i = 0; i < (N + 3) / 4 * 4; ++i) bits[i] = __float_as_uint(value[i < N ? i : 0]);
  store<OUT, N>(y + at, pack<OUT, N>(bits, ZERO_POINT));
}
constexpr int COUNT = CHUNKS * V, GROUPS = THREADS / LANES, WARPS = LANES / 32;
__device__ __forceinline__ int column_of(int chunk, int lane) { return (chunk * LANES + lane) * V; }
__device__ __forceinline__ bool inside(int chunk, int lane) {
  return (chunk + 1) * LANES * V <= ROW || column_of(chunk, lane) < ROW;
}
// From a lane's first elements to those of a chunk, or to the row's end if that is before them.
__device__ __forceinline__ int ahead(int chunk, int lane) {
  const int whole = chunk * LANES * V;
  return (chunk + 1) * LANES * V <= ROW ? whole : min(whole, ROW - V - lane * V);
}
struct Sum {
  __device__ static __forceinline__ float none() { return 0.f; }
  __device__ static __forceinline__ float join(float a, float b) { return __fadd_rn(a, b); }
};
// Of two numbers; a NaN is passed over.
struct Largest {
  __device__ static __forceinline__ float none() { return __uint_as_float(0xff800000u); }
  __device__ static __forceinline__ float join(float a, float b) { return fmaxf(a, b); }
};
template <class J, int N> __device__ __forceinline__ float joined(const float* part) {
  if constexpr (N == 1) return part[0];
  else return J::join(joined<J, N / 2>(part), joined<J, N - N / 2>(part + N / 2));
}
// Every lane gets the same bits: lanes that exchange values join the same two.
template <class J> __device__ __forceinline__ void over_rows(
    const float (&x)[TOGETHER][COUNT], float (&result)[TOGETHER], float* shared, int lane,
    int thread) {
  #pragma unroll
  for (int t = 0; t < TOGETHER; ++t) {
    float part[COUNT];
    #pragma unroll
    for (int k = 0; k < COUNT; ++k) part[k] = inside(k / V, lane) ? x[t][k] : J::none();
    result[t] = joined<J, COUNT>(part);
  }
  #pragma unroll
  for (int apart = (LANES < 32 ? LANES : 32) / 2; apart > 0; apart /= 2) {
    #pragma unroll
    for (int t = 0; t < TOGETHER; ++t)
      result[t] = J::join(result[t], __shfl_xor_sync(0xffffffffu, result[t], apart));
  }
  if constexpr (WARPS > 1) {
    #pragma unroll
    for (int t = 0; t < TOGETHER; ++t)
      if (thread % 32 == 0) shared[t * WARPS + thread / 32] = result[t];
    __syncthreads();
    #pragma unroll
    for (int t = 0; t < TOGETHER; ++t) {
      float part[WARPS];
      #pragma unroll
      for (int w = 0; w < WARPS; ++w) part[w] = shared[t * WARPS + w];
      result[t] = joined<J, WARPS>(part);
    }
  }
}
"""


def row_kernel(
    arrays: RowArrays, formula: RowFormula, target: Target, further: Further | None = None
) -> PrimFunc:
    """The kernel of a formula over arrays of bytes or floats; parameters x0, x1, ..., y.

    The output has an element for each of the rows' elements if the last value spans, else one a
    row; rows have 2 elements at least and LONGEST_ROW at most. further: what else is made of the
    output, whose constants come before y and whose parameters follow.
    """
    spans = formula.values[-1].spans
    further = further or Further()
    plan = RowPlan.of(arrays, formula.out_dtype if spans else None, target)
    reductions = sum(value.reduces for value in formula.values)
    warps = plan.lanes // 32
    early = arrays.constants > 0 and can_overlap(target) and plan.has_room(arrays, target)
    arrays = arrays if early else dataclasses.replace(arrays, constants=0)
    types = {f"T{k}": operand.dtype for k, operand in enumerate(arrays.operands)}
    functions = NumberNamespace(
        "rows",
        bounds(formula)
        + (WRITE_AT_ONCE if plan.together == 1 else WRITE)
        + LOAD_HERE
        + _SOURCE
        + _sums_of(formula)
        + formula.source
        + further.source
        + entry(arrays, formula, early, further),
        {**types, "OUT": formula.out_dtype},
        {
            "ROW": arrays.row,
            "ROWS": arrays.rows,
            "V": plan.vector,
            "LANES": plan.lanes,
            "CHUNKS": plan.elements(arrays) // plan.vector,
            "TOGETHER": plan.together,
            "THREADS": plan.threads,
            "BLOCKS": plan.blocks(arrays),
        },
    )
    parameters = [
        TensorSpec(item.name, (math.prod(item.shape),), item.dtype) for item in arrays.operands
    ]
    size = arrays.rows * (arrays.row if spans else 1)
    parameters += further.constants
    parameters += [TensorSpec("y", (size,), formula.out_dtype), *further.parameters]
    joined = reductions * plan.together * warps if warps > 1 else 0
    words = joined + further.words(plan.threads)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        shared = builder.alloc_buffer((words,), "float32", scope="shared").data if words else 0
        call(functions.function("compute"), *pointers, shared, block, thread)

    start = Start.AT_ONCE if early else Start.WAITS_AND_LETS_GO
    blocks, threads = plan.blocks(arrays), plan.threads
    together = blocks_for(blocks, target.units) if further.meets else None
    kernel = thread_kernel(
        parameters, blocks, threads, target, body, start=start, together=together
    )
    return cooperating(kernel) if further.meets else kernel


def _sums_of(formula: RowFormula) -> str:
    """CUDA of sums of bytes, where there are any."""
    return _BYTE_SUMS if any(v.expression in BYTE_SUMS for v in formula.values) else ""
