"""The kernel of formulas over the rows of arrays.

The lanes of a row hold it in registers from the first load to the last store, so that sums, maxima
and what follows from them cost no second pass over memory. Lanes join their values by shuffles,
warps by shared memory, always in the same order: results are the same to the bit in every run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.cuda.device.launch.thread_kernel import (
    Start,
    blocks_for,
    call,
    thread_kernel,
)
from autoq.templates.cuda.movement.elementwise import WRITE, bounds, float_literal
from autoq.templates.cuda.movement.load_here import LOAD_HERE
from autoq.templates.cuda.movement.row_byte_sums import SOURCE as _BYTE_SUMS
from autoq.templates.cuda.movement.row_formula import BYTE_SUMS, RowFormula, RowValue
from autoq.templates.cuda.movement.rows_plan import RowArrays, RowPlan
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec


@dataclass(frozen=True)
class Further:
    """What a kernel over rows makes of its output besides writing it.

    source: CUDA functions; parameters: their arrays, which `declared` declares in front of others;
    body: statements that call them, of VALUE, element k of the lane's row t, and SHARED, `shared`
    floats a warp; meets: whether all blocks wait for one another.
    """

    source: str = ""
    parameters: tuple[TensorSpec, ...] = ()
    declared: str = ""
    body: str = ""
    shared: int = 0
    meets: bool = False

    def words(self, threads: int) -> int:
        """Floats in shared memory of so many threads."""
        return self.shared * threads // 32

    def statements(self, value: str, shared: str) -> str:
        """The body over a value and a place in shared memory."""
        return self.body.replace("VALUE", value).replace("SHARED", shared)


_WAIT = """  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");"""
"""See `dependent_launch.py`: constants are on their way before it."""

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
    output, whose parameters follow.
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
        + WRITE
        + LOAD_HERE
        + _SOURCE
        + _sums_of(formula)
        + formula.source
        + further.source
        + _entry(arrays, formula, early, further),
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
    parameters += [TensorSpec("y", (size,), formula.out_dtype), *further.parameters]
    joined = reductions * plan.together * warps if warps > 1 else 0
    words = joined + further.words(plan.threads)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        shared = builder.alloc_buffer((words,), "float32", scope="shared").data if words else 0
        call(functions.function("compute"), *pointers, shared, block, thread)

    start = Start.AT_ONCE if early else Start.WAITS_AND_LETS_GO
    blocks, threads = plan.blocks(arrays), plan.threads
    together = blocks_for(blocks, target.units) if further.meets else 1
    return thread_kernel(
        parameters, blocks, threads, target, body,
        start=start, together=together, cooperative=further.meets,
    )  # fmt: skip


def _sums_of(formula: RowFormula) -> str:
    """CUDA of sums of bytes, where there are any."""
    return _BYTE_SUMS if any(v.expression in BYTE_SUMS for v in formula.values) else ""


def _entry(arrays: RowArrays, formula: RowFormula, early: bool, further: Further) -> str:
    """compute(x0, x1, ..., y, further parameters, shared, block, thread): the rows of one lane.

    early: constants are asked for before it waits for the kernels before this one.
    """
    count = len(arrays.operands)
    parameters = "".join(f"From<T{k}> x{k}, " for k in range(count))
    lines = [
        "__device__ __forceinline__ void compute(",
        f"    {parameters}To<OUT> y, {further.declared}float* shared, int block, int thread) {{",
        "  const int lane = (unsigned)thread % LANES;",
        "  const int first = block * (GROUPS * TOGETHER) + (unsigned)thread / LANES;",
        "  int row[TOGETHER];",
        "  #pragma unroll",
        "  for (int t = 0; t < TOGETHER; ++t) row[t] = min(first + t * GROUPS, ROWS - 1);",
    ]
    for k in sorted(range(count), key=arrays.stays, reverse=True):
        lines += [_WAIT] if early and k == 0 else []
        lines += _load(arrays, k)
    for k in range(count):
        lines += _number(arrays, k, formula.zero_points[k])
    names = [_reading(arrays, k) for k in range(count)]
    slot = 0
    for number, value in enumerate(formula.values, count):
        lines += _value(value, number, names, slot)
        slot += value.reduces
        names.append(f"v{number}[t][k]" if value.spans else f"v{number}[t]")
    ends = further.statements(names[-1], "shared + JOINED")
    joined = sum(value.reduces for value in formula.values)
    ends = ends.replace("JOINED", f"{joined} * (WARPS > 1 ? TOGETHER * WARPS : 0)")
    return "\n".join([*lines, *_store(formula, names[-1]), ends, "}"]) + "\n"


def _load(arrays: RowArrays, k: int) -> list[str]:
    """All vectors of an operand, asked for before anything is computed."""
    rows = "TOGETHER" if arrays.varies(k) else "1"
    base = arrays.base(k, "row[t]")
    load = "load_here" if arrays.stays(k) else "load"
    if not arrays.spans(k):
        return [
            f"  Raw<T{k}, 1> a{k}[{rows}];",
            "  #pragma unroll",
            f"  for (int t = 0; t < {rows}; ++t) a{k}[t] = {load}<T{k}, 1>(x{k} + ({base}));",
        ]
    return [
        f"  Raw<T{k}, V> a{k}[{rows}][CHUNKS];",
        "  #pragma unroll",
        f"  for (int t = 0; t < {rows}; ++t)",
        "    #pragma unroll",
        "    for (int c = 0; c < CHUNKS; ++c)",
        f"      a{k}[t][c] = {load}<T{k}, V>(x{k} + ({base} + lane * V) + ahead(c, lane));",
    ]


def _number(arrays: RowArrays, k: int, zero_point: float) -> list[str]:
    """The operand's elements as float32, less its zero point."""
    rows = "TOGETHER" if arrays.varies(k) else "1"
    zero = f"zero<T{k}>({float_literal(zero_point)})"
    if not arrays.spans(k):
        return [
            f"  float v{k}[{rows}];",
            "  #pragma unroll",
            f"  for (int t = 0; t < {rows}; ++t) v{k}[t] = number<T{k}, 1>(a{k}[t], 0, {zero});",
        ]
    return [
        f"  float v{k}[{rows}][COUNT];",
        *_over_elements(f"v{k}[t][k] = number<T{k}, V>(a{k}[t][k / V], k % V, {zero});", rows),
    ]


def _reading(arrays: RowArrays, k: int) -> str:
    """How operand k is read for element k of the lane's row t."""
    row = "t" if arrays.varies(k) else "0"
    return f"v{k}[{row}][k]" if arrays.spans(k) else f"v{k}[{row}]"


def _value(value: RowValue, number: int, names: Sequence[str], slot: int) -> list[str]:
    arguments = [names[index] for index in value.arguments]
    if value.reduces:
        place = f"shared + {slot} * (TOGETHER * WARPS)"
        if value.expression in BYTE_SUMS:
            bytes_of_row, *total = value.arguments
            given = "".join(f"v{index}, " for index in total)
            return [
                f"  float v{number}[TOGETHER];",
                f"  over_bytes<T{bytes_of_row}>(a{bytes_of_row}, {given}v{number}, {place}, "
                "lane, thread);",
            ]
        # A reduction reads what spans and varies: operands that do not are computed with first.
        array = arguments[0].removesuffix("[t][k]")
        return [
            f"  float v{number}[TOGETHER];",
            f"  over_rows<{value.expression}>({array}, v{number}, {place}, lane, thread);",
        ]
    expression = value.expression.format(*arguments)
    if value.spans:
        return [
            f"  float v{number}[TOGETHER][COUNT];",
            *_over_elements(f"v{number}[t][k] = {expression};"),
        ]
    return [
        f"  float v{number}[TOGETHER];",
        "  #pragma unroll",
        f"  for (int t = 0; t < TOGETHER; ++t) v{number}[t] = {expression};",
    ]


def _over_elements(statement: str, rows: str = "TOGETHER") -> list[str]:
    return [
        "  #pragma unroll",
        f"  for (int t = 0; t < {rows}; ++t)",
        "    #pragma unroll",
        f"    for (int k = 0; k < COUNT; ++k) {statement}",
    ]


def _store(formula: RowFormula, name: str) -> list[str]:
    write = "write_rounded" if formula.rounded else "write"
    lines = [
        "  #pragma unroll",
        "  for (int t = 0; t < TOGETHER; ++t) {",
        "    if (first + t * GROUPS >= ROWS) continue;",
    ]
    if not formula.values[-1].spans:
        return [
            *lines,
            f"    const float result[1] = {{{name}}};",
            f"    if (lane == 0) {write}<1>(y, row[t], result);",
            "  }",
        ]
    return [
        *lines,
        "    #pragma unroll",
        "    for (int c = 0; c < CHUNKS; ++c) {",
        "      float result[V];",
        "      #pragma unroll",
        "      for (int i = 0; i < V; ++i) {",
        "        const int k = c * V + i;",
        f"        result[i] = {name};",
        "      }",
        f"      if (inside(c, lane)) {write}<V>(y, row[t] * ROW + column_of(c, lane), result);",
        "    }",
        "  }",
    ]
