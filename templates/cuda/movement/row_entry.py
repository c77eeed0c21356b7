"""CUDA source of the lanes of a kernel over rows: what one loads, computes, joins and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.movement.row_formula import BYTE_SHARE, BYTE_SUMS, RowFormula, RowValue
from autoq.templates.cuda.movement.rows_plan import RowArrays
from autoq.templates.cuda.movement.written_values import float_literal


@dataclass(frozen=True)
class Further:
    """What a kernel over rows makes of its output besides writing it.

    source: CUDA functions; parameters: their arrays, which `declared` declares in front of others;
    constants: arrays in front of the output, which `takes` declares;
    body: statements that call them, of VALUE, element k of the lane's row t, and SHARED, `shared`
    floats a warp; early: statements of constants, in front of those that wait; beside: what follows
    the store of V integers `raw`, those of column `column` on of row t; meets: whether all blocks
    wait for one another.
    """

    source: str = ""
    parameters: tuple[TensorSpec, ...] = ()
    declared: str = ""
    body: str = ""
    constants: tuple[TensorSpec, ...] = ()
    takes: str = ""
    shared: int = 0
    early: str = ""
    beside: str = ""
    meets: bool = False

    def words(self, threads: int) -> int:
        """Floats in shared memory of so many threads."""
        return self.shared * threads // 32

    def at(self, value: str, shared: str) -> Further:
        """The same over a value and a place in shared memory."""
        body, beside = (
            text.replace("VALUE", value).replace("SHARED", shared)
            for text in (self.body, self.beside)
        )
        return replace(self, body=body, beside=beside)


_WAIT = """  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");"""
"""See `dependent_launch.py`: constants are on their way before it."""


def entry(arrays: RowArrays, formula: RowFormula, early: bool, further: Further) -> str:
    """compute(x0, x1, ..., y, further parameters, shared, block, thread): the rows of one lane.

    early: constants are asked for before it waits for the kernels before this one.
    """
    count = len(arrays.operands)
    parameters = "".join(f"From<T{k}> x{k}, " for k in range(count))
    lines = [
        "__device__ __forceinline__ void compute(",
        f"    {parameters}{further.takes}To<OUT> y, {further.declared}"
        "float* shared, int block, int thread) {",
        "  const int lane = (unsigned)thread % LANES;",
        "  const int first = block * (GROUPS * TOGETHER) + (unsigned)thread / LANES;",
        "  int row[TOGETHER];",
        "  #pragma unroll",
        "  for (int t = 0; t < TOGETHER; ++t) row[t] = min(first + t * GROUPS, ROWS - 1);",
    ]
    lines += [further.early] if further.early else []
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
    joined = sum(value.reduces for value in formula.values)
    shared = f"shared + {joined} * (WARPS > 1 ? TOGETHER * WARPS : 0)"
    further = further.at(names[-1], shared)
    stores = _store(formula, names[-1], further.beside)
    return "\n".join([*lines, *stores, further.body, "}"]) + "\n"


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
    if value.expression == BYTE_SHARE:
        (k,) = value.arguments
        expression = f"share_of<T{k}, V>(a{k}[t][k / V], k % V)"
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


def _store(formula: RowFormula, name: str, beside: str) -> list[str]:
    write = "write_rounded" if formula.rounded else "write"
    place = "y, row[t] * ROW + column_of(c, lane)"
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
        *(
            _kept(beside)
            if beside
            else [f"      if (inside(c, lane)) {write}<V>({place}, result);"]
        ),
        "    }",
        "  }",
    ]


def _kept(beside: str) -> list[str]:
    """The store of V integers, and what else is done with them."""
    return [
        "      if (inside(c, lane)) {",
        "        const int column = column_of(c, lane);",
        "        const Raw<OUT, V> raw = integers<V>(result);",
        "        store<OUT, V>(y + (row[t] * ROW + column), raw);",
        f"        {beside}",
        "      }",
    ]
