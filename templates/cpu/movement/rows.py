"""Formulas over the rows of arrays on a CPU: element-wise primitives, and what is joined of a row.

A row is walked as often as one of its reductions needs it, in vectors; what a later walk reads of
an earlier one lies in a line of float32 meanwhile, which fits a cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import KernelFrame, kernel_frame
from autoq.templates.cpu.movement.row_walks import Walk, walks_of
from autoq.templates.cpu.permute import emit_permutation
from autoq.templates.cpu.tasks import LANES, span
from autoq.templates.cpu.vector import cast, held, load, loop, splat, store, tasks_loop
from autoq.templates.target import Target

LONGEST_ROW_BYTES = 256 << 10
LONGEST_ROW = LONGEST_ROW_BYTES // 4
"""Elements of a row with reductions, as float32."""
_SEGMENT = 4096
"""Elements of a row without reductions that are taken at a time."""
_TASK_OPERATIONS = 1 << 18
"""Vector lanes times values that are worth a second thread."""
_TOGETHER = 4
"""Vectors that a short walk takes at a time: as many sums hide the latency of an addition."""
_SHORT_WALK = 6
"""Values of a walk whose reductions wait for each other, not for what comes before them."""


@dataclass(frozen=True)
class RowValue:
    """A float32 value that a formula computes, for each element of a row or once a row.

    compute: vectors of its arguments and their lanes to the value's vector. arguments: the
    operands in order, then earlier values. For a value that reduces rows compute joins two
    elements of its only argument, and neutral is what joins without effect.
    """

    compute: Callable[..., Expr]
    arguments: tuple[int, ...]
    spans: bool
    reduces: bool = False
    neutral: float = 0.0


@dataclass(frozen=True)
class RowArrays:
    """Arrays as rows of `row` elements, `outer` of them.

    strides: for each operand the elements between neighbours along every axis of `outer`. spans:
    whether it has an element for each of a row's, next to each other, or one for all of them.
    """

    outer: tuple[int, ...]
    row: int
    operands: tuple[TensorSpec, ...]
    strides: tuple[tuple[int, ...], ...]
    spans: tuple[bool, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return math.prod(self.outer)

    def base(self, operand: int, row: Expr) -> Expr:
        """The first element of a row in an operand."""
        total: Expr | int = 0
        for axis, stride in enumerate(self.strides[operand]):
            after = math.prod(self.outer[axis + 1 :])
            if stride:
                index = row // after if after > 1 else row
                total = total + (index % self.outer[axis] if axis else index) * stride
        return T.bind(T.int32(0) + total)


@dataclass(frozen=True)
class RowFormula:
    """What is computed for one row of at least LANES elements; the last value is the output.

    A row's output is of the last value's span. An integer output is a float32 value that is whole
    and in the range of the dtype.
    """

    arrays: RowArrays
    values: tuple[RowValue, ...]
    output: TensorSpec


@dataclass(frozen=True)
class Turned:
    """An operand of a formula whose array has other axes: it is transposed first.

    shape is the array's; axis i of the operand is its axis perm[i].
    """

    operand: int
    shape: tuple[int, ...]
    perm: tuple[int, ...]


def row_kernel(formula: RowFormula, turned: Turned | None, target: Target) -> PrimFunc:
    """The kernel: operands, then the output. Tasks share rows, or segments of rows."""
    arrays = formula.arrays
    walks = walks_of([value.arguments for value in formula.values], len(arrays.operands),
                     [value.reduces for value in formula.values],
                     [*arrays.spans, *(value.spans for value in formula.values)])  # fmt: skip
    reduces = any(value.reduces for value in formula.values)
    segment = arrays.row if reduces else min(arrays.row, _SEGMENT)
    segments = -(-arrays.row // segment)
    units = arrays.rows * segments
    work = arrays.rows * arrays.row * len(formula.values)
    tasks = max(1, min(target.units, units, work // _TASK_OPERATIONS))
    parameters = {spec.name: (spec.shape, spec.dtype) for spec in arrays.operands}
    names = [spec.name for spec in arrays.operands]
    if turned is not None:
        parameters[names[turned.operand]] = turned.shape, arrays.operands[turned.operand].dtype
    with kernel_frame(**parameters, y=(formula.output.shape, formula.output.dtype)) as frame:
        scratch = {} if turned is None else _turned(frame, arrays.operands, turned, target)
        with tasks_loop(tasks) as task:
            operands = [scratch[k] if k in scratch else frame[name] for k, name in enumerate(names)]
            row = _Row(formula, operands, frame["y"], segment)
            row.lines = {
                value: T.alloc_buffer((segment,), "float32")
                for walk in walks
                for value in walk.kept
            }
            first, share = span(task, units, tasks)
            with loop(share) as index:
                unit = T.bind(first + index)
                start = T.int32(0)
                if segments > 1:
                    start = T.bind(T.min(unit % segments * segment, arrays.row - segment))
                row.emit(T.bind(unit // segments if segments > 1 else unit), start, walks)
    return frame.result


def _turned(
    frame: KernelFrame, operands: Sequence[TensorSpec], turned: Turned, target: Target
) -> dict[int, Buffer]:
    """The operand with its axes in order, by its number."""
    spec = operands[turned.operand]
    scratch = T.alloc_buffer((math.prod(turned.shape),), spec.dtype)
    emit_permutation(
        lambda: (frame[spec.name], scratch), turned.shape, turned.perm, spec.dtype, target
    )
    return {turned.operand: scratch}


class _Row:
    """One row, or a segment of one, as it is computed."""

    def __init__(
        self, formula: RowFormula, operands: Sequence[Buffer], y: Buffer, length: int
    ) -> None:
        self.formula, self.operands, self.y, self.length = formula, operands, y, length
        self.lines: dict[int, Buffer] = {}
        self.count = len(operands)

    def emit(self, row: Expr, start: Expr, walks: Sequence[Walk]) -> None:
        """Everything that is computed of a row."""
        arrays = self.formula.arrays
        self.bases = [arrays.base(k, row) + start for k in range(self.count)]
        self.y_at = row * arrays.row + start if self.formula.values[-1].spans else row
        self.row_values: dict[int, Expr] = {
            k: held(cast(buffer[arrays.base(k, row)], "float32", 1), 1)
            for k, buffer in enumerate(self.operands)
            if not arrays.spans[k]
        }
        for walk in walks:
            self._walk(walk)
            for place in walk.behind:
                value = self._value(place)
                arguments = [self.row_values[a] for a in value.arguments]
                self.row_values[place] = held(value.compute(*arguments, 1), 1)
        if not self.formula.values[-1].spans:
            last = self.row_values[self.count + len(self.formula.values) - 1]
            store(self.y, self.y_at, _stored(last, self.y.dtype, 1), 1)

    def _value(self, place: int) -> RowValue:
        return self.formula.values[place - self.count]

    def _walk(self, walk: Walk) -> None:
        if not walk.values and not walk.reductions:
            return
        short = walk.reductions and len(walk.values) <= _SHORT_WALK
        together = min(_TOGETHER if short else 1, self.length // LANES)
        parts = {
            place: [T.alloc_buffer((LANES,), "float32") for _ in range(together)]
            for place in walk.reductions
        }
        for place, buffers in parts.items():
            for buffer in buffers:
                store(buffer, 0, splat(T.float32(self._value(place).neutral), LANES), LANES)
        vectors = self.length // LANES
        with loop(vectors // together) as group:
            for turn in range(together):
                self._vector(walk, (group * together + turn) * LANES, turn, parts, 0)
        done = vectors // together * together
        if vectors > done:
            with loop(vectors - done) as index:
                self._vector(walk, (done + index) * LANES, 0, parts, 0)
        if self.length % LANES:
            again = LANES - self.length % LANES
            self._vector(walk, self.length - LANES, 0, parts, again)
        for place, buffers in parts.items():
            self.row_values[place] = self._joined(self._value(place), buffers)

    def _vector(
        self, walk: Walk, at: Expr | int, turn: int, parts: dict[int, list[Buffer]], again: int
    ) -> None:
        """One vector of a walk; its first `again` elements were in the one before."""
        vectors: dict[int, Expr] = {}

        def argument(place: int) -> Expr:
            if place in self.row_values:
                return splat(self.row_values[place], LANES)
            if place not in vectors and place in self.lines:
                vectors[place] = held(load(self.lines[place], at, LANES), LANES)
            elif place not in vectors and place < self.count:
                value = load(self.operands[place], self.bases[place] + at, LANES)
                vectors[place] = held(cast(value, "float32", LANES), LANES)
            return vectors[place]

        for place in walk.values:
            value = self._value(place)
            vectors[place] = held(value.compute(*map(argument, value.arguments), LANES), LANES)
            if place in walk.kept:
                store(self.lines[place], at, vectors[place], LANES)
            if place == self.count + len(self.formula.values) - 1:
                store(self.y, self.y_at + at, _stored(vectors[place], self.y.dtype, LANES), LANES)
        for place in walk.reductions:
            value, buffer = self._value(place), parts[place][turn]
            element = argument(value.arguments[0])
            if again:
                fresh = T.ramp(T.int32(0), 1, LANES) >= splat(T.int32(again), LANES)
                element = T.Select(fresh, element, splat(T.float32(value.neutral), LANES))
            joined = value.compute(load(buffer, 0, LANES), element, LANES)
            store(buffer, 0, joined, LANES)

    def _joined(self, value: RowValue, buffers: Sequence[Buffer]) -> Expr:
        """One number of all vectors' lanes."""
        total = buffers[0]
        for buffer in buffers[1:]:
            joined = value.compute(load(total, 0, LANES), load(buffer, 0, LANES), LANES)
            store(total, 0, joined, LANES)
        lanes = LANES // 2
        while lanes:
            joined = value.compute(load(total, 0, lanes), load(total, lanes, lanes), lanes)
            store(total, 0, joined, lanes)
            lanes //= 2
        return T.bind(total[0])


def _stored(value: Expr, dtype: str, lanes: int) -> Expr:
    if dtype == "float32":
        return value
    return cast(cast(value, "int32", lanes), dtype, lanes)
