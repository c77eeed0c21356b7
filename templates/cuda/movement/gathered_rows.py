"""Rows of a table that indices choose, in one element-wise pass with what is computed of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.broadcasting import dense_strides
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import call, items_kernel
from autoq.templates.cuda.movement.elementwise import VECTOR, ElementFormula
from autoq.templates.cuda.movement.written_values import WRITE, bounds
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.target import Target

INDICES = {"int32": "int", "int64": "long long"}
"""Types of indices, which count from the table's end where they are below 0."""
_THREADS = 256


def gathered_kernel(
    shape: tuple[int, ...],
    operands: Sequence[TensorSpec],
    indices: int,
    table: int,
    formula: ElementFormula,
    target: Target,
) -> PrimFunc:
    """The kernel of a formula over rows of a table, and operands that broadcast to `shape`.

    Parameters are the operands, then y. Operand `indices` has an index, of `INDICES`, for each row
    of `shape`, and operand `table` is [places, *row]. The formula's first element is the table's,
    the others are those of the other operands in their order. An index outside the table is the
    nearest one. Arrays hold fewer than 2^31 elements, and at least one.
    """
    others = [k for k in range(len(operands)) if k not in (indices, table)]
    read = [operands[k] for k in (table, *others)]
    rank = len(operands[indices].shape)
    row = math.prod(shape[rank:])
    floats = "float32" in (formula.out_dtype, *(spec.dtype for spec in read))
    values = math.gcd(row, 4 if floats else 16)
    index = INDICES[operands[indices].dtype]
    entry = _entry([operands[k].shape for k in others], shape, rank, index, formula)
    types = {f"T{k}": spec.dtype for k, spec in enumerate(read)}
    functions = NumberNamespace(
        "gathered",
        bounds(formula) + WRITE + VECTOR + formula.source + entry,
        {**types, "OUT": formula.out_dtype},
        {"V": values, "ROW": row, "PLACES": operands[table].shape[0]},
    )
    arrays = [TensorSpec(spec.name, (math.prod(spec.shape),), spec.dtype) for spec in operands]
    arrays.append(TensorSpec("y", (math.prod(shape),), formula.out_dtype))
    items = math.prod(shape) // values

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        of = [pointers[k] for k in (indices, table, *others)]
        item = block * _THREADS + thread
        with builder.If(item < items), builder.Then():
            call(functions.function("compute"), *of, pointers[-1], item)

    return items_kernel(arrays, items, _THREADS, target, body)


def _entry(
    others: Sequence[tuple[int, ...]], shape: tuple[int, ...], rank: int, index: str,
    formula: ElementFormula,
) -> str:  # fmt: skip
    """`compute`(indices, x0, ..., y, item), which reads a row of the table x0 and the others."""
    # The last axes that all other operands have as the rows have them, or not at all.
    wholes = [_row_of(other, shape, rank) for other in others]
    operands = range(len(others) + 1)
    lines = [
        "__device__ __forceinline__ void compute(const void* indices, "
        + "".join(f"From<T{k}> x{k}, " for k in operands)
        + "To<OUT> y, int item) {",
        "  const int column = item % (ROW / V) * V, row = item / (ROW / V);",
        f"  int place = (int)static_cast<const {index}*>(indices)[row];",
        "  place = min(max(place < 0 ? place + PLACES : place, 0), PLACES - 1);",
        "  Vector<T0, V, true> v0;",
        "  v0.read(x0, place * ROW + column);",
    ]
    for number, (other, whole) in enumerate(zip(others, wholes, strict=True), 1):
        at = _offset(other, shape, rank) + (" + column" if whole else "")
        lines.append(f"  Vector<T{number}, V, {str(whole).lower()}> v{number};")
        lines.append(f"  v{number}.read(x{number}, {at});")
    arguments = ", ".join(
        f"v{k}.value(i, {float(formula.zero_points[k]).hex()}f)" for k in operands
    )
    lines += [
        "  float value[V];",
        "  #pragma unroll",
        f"  for (int i = 0; i < V; ++i) value[i] = element({arguments});",
        "  write<V>(y, row * ROW + column, value);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _row_of(operand: tuple[int, ...], shape: tuple[int, ...], rank: int) -> bool | None:
    """Whether an operand has all of a row's elements; None where it has some of them."""
    inner = tuple(operand)[-(len(shape) - rank) :]
    padded = (1,) * (len(shape) - rank - len(inner)) + inner
    if padded == tuple(shape[rank:]):
        return math.prod(padded) > 1 or math.prod(shape[rank:]) == 1
    return False if math.prod(padded) == 1 else None


def rows_are_whole(operand: tuple[int, ...], shape: tuple[int, ...], rank: int) -> bool:
    """Whether an operand has all elements of the rows behind the first `rank` axes, or one."""
    return len(operand) <= len(shape) and _row_of(operand, shape, rank) is not None


def _offset(operand: tuple[int, ...], shape: tuple[int, ...], rank: int) -> str:
    """Where the operand's part of a row begins."""
    strides = dense_strides(operand, len(shape))[:rank]
    terms = []
    for axis, stride in enumerate(strides):
        after = math.prod(shape[axis + 1 : rank])
        if stride:
            terms.append(f"row / {after} % {shape[axis]} * {stride}")
    return " + ".join(terms) or "0"
