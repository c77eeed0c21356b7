"""One pass over arrays that broadcast to a common shape: 16 bytes at a time, several in flight.

The caller says in CUDA what becomes of one element; here threads are given vectors of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from tvm.script import tirx as T
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.cuda.device.launch.thread_kernel import (
    Start,
    blocks_for,
    call,
    thread_kernel,
)
from autoq.templates.cuda.movement.element_formula import (
    VECTOR,
    WRITE,
    ElementFormula,
    Parts,
    bounds,
    float_literal,
)
from autoq.templates.cuda.movement.elementwise_plan import Plan, Successor, plan_for
from autoq.templates.cuda.movement.elementwise_walk import Walk
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_START_SUCCESSOR = 'asm volatile("griddepcontrol.launch_dependents;" : : : "memory");'


def elementwise_kernel(
    shape: tuple[int, ...],
    operands: Sequence[TensorSpec],
    formula: ElementFormula,
    target: Target,
    plan: Plan | None = None,
    copies: int = 1,
    given: int = 0,
) -> PrimFunc:
    """The kernel of a formula over `operands` of bytes or floats, which broadcast to `shape`.

    Parameters are the operands, then y. Arrays hold fewer than 2^31 elements, and at least one.
    plan: another than the fastest that is known. copies: so many are computed side by side, of
    other arrays; parameters are the first `given` operands of each copy, then the rest of each,
    then each y.
    """
    whole = [operand.dtype for operand in operands if math.prod(operand.shape) > 1]
    lanes = 4 if "float32" in (*whole, formula.out_dtype) else 16
    parts = formula.parts or Parts.of_none(len(operands))
    walk = parts.walk(shape, [operand.shape for operand in operands], lanes)
    values = math.gcd(walk.row, lanes)
    plan = plan or plan_for(math.prod(shape), values, target)
    if not can_overlap(target):
        plan = dataclasses.replace(plan, successor=Successor.FIRST)
    spread = blocks_for(walk.rows, plan.together)
    items = math.prod(walk.outer) * spread * (walk.row // values)
    types = {f"T{index}": operand.dtype for index, operand in enumerate(operands)}
    functions = NumberNamespace(
        "elementwise",
        bounds(formula) + WRITE + VECTOR + formula.source + _entry(walk, formula, plan),
        {**types, "OUT": formula.out_dtype},
        {"V": values, "TOGETHER": plan.together, "SPREAD": spread, "ROWS": walk.rows},
    )
    output = TensorSpec("y", shape, formula.out_dtype)
    arrays = [
        TensorSpec(
            f"{item.name}_{copy}" if copy else item.name, (math.prod(item.shape),), item.dtype
        )
        for part in (operands[:given], operands[given:], [output])
        for copy in range(copies)
        for item in part
    ]
    blocks = blocks_for(items, plan.threads)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block % blocks * plan.threads + thread
        for copy in range(copies):
            own = _of_copy(pointers, copy, copies, given)
            mine = item < items
            if copies > 1:
                mine = T.And(block // blocks == copy, mine)
            with builder.If(mine), builder.Then():
                call(functions.function("compute"), *own, item)

    first = plan.successor is Successor.FIRST
    start = Start.WAITS_AND_LETS_GO if first else Start.WAITS
    return thread_kernel(arrays, copies * blocks, plan.threads, target, body, start=start)


def _of_copy(pointers: Sequence[Any], copy: int, copies: int, given: int) -> list[Any]:
    """The operands of one of several copies, then its y, as `elementwise_kernel` takes them."""
    operands = len(pointers) // copies - 1
    first, rest = copies * given, operands - given
    return [
        *pointers[copy * given : (copy + 1) * given],
        *pointers[first + copy * rest : first + (copy + 1) * rest],
        pointers[copies * operands + copy],
    ]


def _entry(walk: Walk, formula: ElementFormula, plan: Plan) -> str:
    """compute(x0, x1, ..., y, item): the vectors of one thread."""
    count = len(walk.strides)
    parameters = "".join(f"From<T{k}> x{k}, " for k in range(count))
    lines = [
        f"constexpr int ROW = {walk.row};",
        f"__device__ __forceinline__ void compute({parameters}To<OUT> y, int item) {{",
        "  const int column = item % (ROW / V) * V, first = item / (ROW / V) % SPREAD;",
        "  const int outer = item / (ROW / V) / SPREAD;",
    ]
    arguments = []
    parts = formula.parts or Parts.of_none(count)
    for k, strides in enumerate(walk.strides):
        *outer, step, unit = strides
        reads = plan.together if step else 1
        start = _offset(walk, outer, f"column * {unit}")
        row = parts.row(k, "min(first + p * SPREAD, ROWS - 1)")
        lines += [
            f"  Vector<T{k}, V, {str(bool(unit)).lower()}> v{k}[{reads}];",
            "  #pragma unroll",
            f"  for (int p = 0; p < {reads}; ++p)",
            f"    v{k}[p].read(x{k}, {start} + {row} * {step});",
        ]
        which = "p" if reads > 1 else "0"
        zero_point = float_literal(formula.zero_points[k])
        arguments.append(f"v{k}[{which}].value(i, {zero_point})")
    arguments += ["row"] if parts.whole else []
    if plan.successor is Successor.LOADED:
        lines.append(f"  {_START_SUCCESSOR}")
    dense = [walk.rows * walk.row * math.prod(walk.outer[axis + 1 :])
             for axis in range(len(walk.outer))]  # fmt: skip
    lines += [
        "  #pragma unroll",
        "  for (int p = 0; p < TOGETHER; ++p) {",
        "    const int row = first + p * SPREAD;",
        "    if (ROWS % TOGETHER && row >= ROWS) continue;",
        "    float value[V];",
        "    #pragma unroll",
        f"    for (int i = 0; i < V; ++i) value[i] = element({', '.join(arguments)});",
        f"    write<V>(y, {_offset(walk, dense, 'column')} + row * ROW, value);",
        "  }",
    ]
    if plan.successor is Successor.STORED:
        lines.append(f"  {_START_SUCCESSOR}")
    return "\n".join([*lines, "}"]) + "\n"


def _offset(walk: Walk, strides: Sequence[int], start: str) -> str:
    """Expression of the element at the thread's outer index."""
    for axis, stride in enumerate(strides):
        after = math.prod(walk.outer[axis + 1 :])
        if stride:
            start += f" + outer / {after} % {walk.outer[axis]} * {stride}"
    return start
