"""Kernels of formulas over rows that write some columns of their result once more, side by side.

A product whose weight is zero for all other columns reads those alone. Lanes leave the bytes of a
row in shared memory and take four of the columns from there at a time.
"""

from __future__ import annotations

import math

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for
from autoq.templates.cuda.movement.row_entry import Further
from autoq.templates.cuda.movement.row_formula import RowFormula
from autoq.templates.cuda.movement.rows import row_kernel
from autoq.templates.cuda.movement.rows_plan import RowArrays, RowPlan
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target

COLUMN_DTYPE = "uint16"
"""Of the numbers of columns; rows are shorter than 2^16."""
_WORD = 4
"""Columns that a lane takes at once."""
_MOST_WORDS = 16
"""What a lane takes of a row at most, as it has the columns of them in registers."""
_SHARED_BYTES = 32 << 10
"""Of the rows that a block holds, so that several blocks have room in a multiprocessor."""

_EARLY = r"""
  Raw<unsigned short, 4> places[WORDS];
  #pragma unroll
  for (int i = 0; i < WORDS; ++i)
    places[i] = load_here<unsigned short, 4>(columns + min(lane + i * LANES, PICKED / 4 - 1) * 4);
"""
_BESIDE = r"""unsigned char* to = reinterpret_cast<unsigned char*>(SHARED)
            + ((unsigned)thread / LANES * TOGETHER + t) * ROW + column;
        #pragma unroll
        for (int i = 0; i < V / 4; ++i) reinterpret_cast<unsigned*>(to)[i] = raw.word[i];"""
_BODY = r"""
  if constexpr (LANES > 32) __syncthreads();
  else __syncwarp();
  #pragma unroll
  for (int t = 0; t < TOGETHER; ++t) {
    if (first + t * GROUPS >= ROWS) continue;
    const unsigned char* of = reinterpret_cast<const unsigned char*>(SHARED)
        + ((unsigned)thread / LANES * TOGETHER + t) * ROW;
    #pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      const int word = lane + i * LANES;
      if ((i + 1) * LANES > PICKED / 4 && word >= PICKED / 4) continue;
      const Raw<OUT, 4> four = {four_of(of, places[i])};
      store<OUT, 4>(picked + (row[t] * PICKED + word * 4), four);
    }
  }"""
_SOURCE = r"""
__device__ __forceinline__ unsigned four_of(
    const unsigned char* row, const Raw<unsigned short, 4>& at) {
  const unsigned a = row[at.word[0] & 0xffffu], b = row[at.word[0] >> 16];
  const unsigned c = row[at.word[1] & 0xffffu], d = row[at.word[1] >> 16];
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}
"""


def picking_fits(arrays: RowArrays, formula: RowFormula, picked: int, target: Target) -> bool:
    """Whether bytes are written for every element of rows, of which `picked` are written again.

    Both are a multiple of four.
    """
    spans = formula.values[-1].spans
    if formula.out_dtype not in ("int8", "uint8") or not spans or formula.rounded:
        return False
    if arrays.row % _WORD or picked % _WORD or not 0 < picked <= arrays.row:
        return False
    plan = RowPlan.of(arrays, formula.out_dtype, target)
    held = plan.threads // plan.lanes * plan.together * arrays.row
    words = blocks_for(picked // _WORD, plan.lanes)
    return plan.vector % _WORD == 0 and held <= _SHARED_BYTES and words <= _MOST_WORDS


def picking_rows(
    arrays: RowArrays, formula: RowFormula, picked: int, target: Target
) -> tuple[Program, tuple[TensorSpec, ...]]:
    """The program of a formula whose output is written twice, and the arrays that it takes.

    These are x0, x1, ..., `columns` [picked] of COLUMN_DTYPE, y, and `picked` [rows * picked], the
    columns of each row of y in their order. The program is one of those that `picking_fits` says.
    """
    plan = RowPlan.of(arrays, formula.out_dtype, target)
    size = math.prod(arrays.shape)
    columns = TensorSpec("columns", (picked,), COLUMN_DTYPE)
    result = TensorSpec("picked", (arrays.rows * picked,), formula.out_dtype)
    words = blocks_for(picked // _WORD, plan.lanes)
    held = plan.threads // plan.lanes * plan.together * arrays.row // 4
    numbers = f"constexpr int PICKED = {picked}, WORDS = {words};\n"
    further = Further(
        numbers + _SOURCE, (result,), "To<OUT> picked, ", _BODY, (columns,),
        "From<unsigned short> columns, ", blocks_for(held * 32, plan.threads), _EARLY, _BESIDE,
    )  # fmt: skip
    kernel = row_kernel(arrays, formula, target, further)
    y = TensorSpec("y", (size,), formula.out_dtype)
    flat = tuple(
        TensorSpec(item.name, (math.prod(item.shape),), item.dtype) for item in arrays.operands
    )
    reads = (*(item.name for item in flat), "columns")
    stage = Stage(kernel, reads, ("y", "picked"))
    return Program((stage,), ()), (*flat, columns, y, result)
