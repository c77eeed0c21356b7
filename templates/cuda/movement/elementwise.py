"""One pass over arrays that broadcast to a common shape: 16 bytes at a time, several in flight.

The caller says in CUDA what becomes of one element; here threads are given vectors of them.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.cuda.device.launch.thread_kernel import (
    Start,
    blocks_for,
    call,
    thread_kernel,
)
from autoq.templates.cuda.movement.elementwise_walk import Walk
from autoq.templates.cuda.movement.written_values import WRITE, bounds, float_literal
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.target import Target


class Successor(enum.Enum):
    """When the next kernel's blocks may start: at once, behind a thread's loads, or its stores."""

    FIRST = "first"
    LOADED = "loaded"
    STORED = "stored"


@dataclass(frozen=True)
class Plan:
    """How the output's vectors are shared out.

    threads: of a block; together: vectors of each operand that a thread asks for before it
    computes; successor: when the next kernel may start.
    """

    threads: int
    together: int
    successor: Successor = Successor.FIRST


_PLANS = (
    (2560, 0, Plan(256, 4)),
    (512, 20_000, Plan(128, 2, Successor.LOADED)),
    (512, 0, Plan(128, 2)),
    (0, 0, Plan(256, 1)),
)
"""Plans, and the vectors and the values of the output a multiprocessor from which on they are for:
the fastest on an H200, among those that are fast for every size (docs/notes/movement.md)."""

_START_SUCCESSOR = 'asm volatile("griddepcontrol.launch_dependents;" : : : "memory");'


@dataclass(frozen=True)
class Parts:
    """Where operands begin along the rows of the output, of which some have a part only.

    begins and extents: an operand's first row and its rows; whole: rows of the output, 0 where no
    operand is a part; axis: of the output, which has them.
    """

    begins: tuple[int, ...]
    extents: tuple[int, ...]
    whole: int = 0
    axis: int = 0

    @classmethod
    def of_none(cls, operands: int) -> Parts:
        """The parts of a formula whose operands broadcast to the output."""
        return cls((0,) * operands, (1,) * operands)

    def walk(self, shape: tuple[int, ...], operands: Sequence[tuple[int, ...]], lanes: int) -> Walk:
        """`Walk.over`, of which the rows are those of the output where some operands are parts."""
        if not self.whole:
            return Walk.over(shape, operands, lanes)
        rows = tuple(size if axis == self.axis else 1 for axis, size in enumerate(shape))
        found = Walk.over(shape, [*operands, rows], lanes)
        return dataclasses.replace(found, strides=found.strides[:-1])

    def row(self, operand: int, row: str) -> str:
        """The row of an operand that is read for one of the output, the next one beside a part."""
        begin, extent = self.begins[operand], self.extents[operand]
        if not self.whole or extent in (1, self.whole):
            return row
        return f"min(max({row} - {begin}, 0), {extent - 1})"


@dataclass(frozen=True)
class ElementFormula:
    """What is computed for one element.

    source: CUDA functions, among them `float element(float x0, float x1, ...)` of one operand
    each, less that operand's entry in zero_points, and the output's row last where some operands
    are `parts` of it. An integer output is `clamp(rint(element), low, high) + zero_point` with
    whole bounds, an output of float32 or float16 the element itself.
    """

    source: str
    zero_points: tuple[float, ...]
    out_dtype: str
    low: float = 0.0
    high: float = 0.0
    zero_point: float = 0.0
    parts: Parts | None = None


VECTOR = r"""
// N values of an operand, or one that stands for all of them.
template <class X, int N, bool WHOLE> struct Vector {
  static constexpr int COUNT = WHOLE ? N : 1;
  Raw<X, COUNT> raw;
  __device__ __forceinline__ void read(From<X> x, int at) { raw = load<X, COUNT>(x + at); }
  __device__ __forceinline__ float value(int i, float zero_point) const {
    return number<X, COUNT>(raw, WHOLE ? i : 0, zero<X>(zero_point));
  }
};
"""


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
    plan = plan or _plan(math.prod(shape), values, target)
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
        rest = len(operands) - given
        for copy in range(copies):
            own = [
                *pointers[copy * given : (copy + 1) * given],
                *pointers[copies * given + copy * rest : copies * given + (copy + 1) * rest],
                pointers[copies * len(operands) + copy],
            ]
            mine = item < items
            if copies > 1:
                mine = T.And(block // blocks == copy, mine)
            with builder.If(mine), builder.Then():
                call(functions.function("compute"), *own, item)

    first = plan.successor is Successor.FIRST
    start = Start.WAITS_AND_LETS_GO if first else Start.WAITS
    return thread_kernel(arrays, copies * blocks, plan.threads, target, body, start=start)


def _plan(total: int, values: int, target: Target) -> Plan:
    """How so many values in vectors of some are shared out on a target."""
    share, vectors = total / target.units, total // values / target.units
    return next(
        plan for at_least, of_values, plan in _PLANS if vectors >= at_least and share >= of_values
    )


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
