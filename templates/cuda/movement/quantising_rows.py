"""Kernels of formulas over rows that quantise what they write, by the range of all of it.

Blocks hold their rows in registers until they know the range of all rows (`grid_range.py`): nothing
is read again, and nothing else is launched.
"""

from __future__ import annotations

import math

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.dynamic_bytes import DYNAMIC_BYTES
from autoq.templates.cuda.device.launch.grid_range import grid_range_source, range_words
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for
from autoq.templates.cuda.movement.row_entry import Further
from autoq.templates.cuda.movement.row_formula import RowFormula
from autoq.templates.cuda.movement.rows import row_kernel
from autoq.templates.cuda.movement.rows_plan import RowArrays, RowPlan
from autoq.templates.operators.dynamic_quantize import DynamicQuantize
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target

_OTHER_REGISTERS = 48
"""Registers of a thread beside the values that it holds of its elements."""
_NOMINAL_THREADS = 1024
"""Threads of a multiprocessor, half of those that there is room for."""
_LEAST_COMPUTE_CAPABILITY = 70
_BODY = r"""
  Range range = {0.f, 0.f};
  #pragma unroll
  for (int t = 0; t < TOGETHER; ++t)
    #pragma unroll
    for (int k = 0; k < COUNT; ++k) range = join(range, {VALUE, VALUE});
  unsigned left;
  const Steps steps = steps_of(
      of_grid<THREADS, BLOCKS>(range, words, SHARED, block, thread, left));
  #pragma unroll
  for (int t = 0; t < TOGETHER; ++t) {
    if (first + t * GROUPS >= ROWS) continue;
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      float value[V];
      #pragma unroll
      for (int i = 0; i < V; ++i) {
        const int k = c * V + i;
        value[i] = VALUE;
      }
      const Raw<unsigned char, V> four = {bytes_of<V>(value, steps)};
      if (inside(c, lane))
        store<unsigned char, V>(bytes + (row[t] * ROW + column_of(c, lane)), four);
    }
  }
  if (block == 0 && thread == 0) {
    *scale_to = steps.scale;
    *zero_to = steps.zero;
  }
  clear_words<BLOCKS>(words, thread, left);"""


def quantising_fits(arrays: RowArrays, formula: RowFormula, target: Target) -> bool:
    """Whether floats are written for every element of rows that all run at once."""
    if formula.out_dtype != "float32" or not formula.values[-1].spans:
        return False
    if target.compute_capability < _LEAST_COMPUTE_CAPABILITY:
        return False
    plan = RowPlan.of(arrays, formula.out_dtype, target)
    threads = blocks_for(plan.blocks(arrays), target.units) * plan.threads
    held = plan.elements(arrays) * plan.together * (arrays.held + 1) + _OTHER_REGISTERS
    return threads <= _NOMINAL_THREADS and threads * held <= target.register_file


def quantising_rows(
    arrays: RowArrays, formula: RowFormula, target: Target
) -> tuple[Program, tuple[TensorSpec, ...]]:
    """The program of a formula whose output is quantised too, and the arrays that it takes.

    These are x0, x1, ..., y, and `bytes`, `scale_to` and `zero_to` as of `DynamicQuantize`.
    """
    size = math.prod(arrays.shape)
    plan = RowPlan.of(arrays, formula.out_dtype, target)
    words = range_words(plan.blocks(arrays), "words")
    names = ("bytes", "scale_to", "zero_to")
    results = tuple(
        TensorSpec(name, spec.shape, spec.dtype)
        for name, spec in zip(names, DynamicQuantize(size).outputs, strict=True)
    )
    further = Further(
        grid_range_source() + DYNAMIC_BYTES, (*results, words.spec),
        "To<unsigned char> bytes, float* scale_to, float* zero_to, void* words, ", _BODY,
        shared=2, meets=True,
    )  # fmt: skip
    kernel = row_kernel(arrays, formula, target, further)
    y = TensorSpec("y", (size,), formula.out_dtype)
    flat = tuple(
        TensorSpec(item.name, (math.prod(item.shape),), item.dtype) for item in arrays.operands
    )
    given = (*flat, y, *results)
    reads = tuple(item.name for item in flat)
    stage = Stage(kernel, reads, ("y", *names, words.spec.name))
    return Program((stage,), (words,)), given
