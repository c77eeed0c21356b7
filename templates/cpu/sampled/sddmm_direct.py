"""Sampled products on any CPU: each named row of b times the rows of a of one vector row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.storage import is_four_bit, stored
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.vector import cast, load, loop, splat, store, unfused, vector_lanes
from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_MOST_ELEMENTS = 1 << 31
_TASKS_A_UNIT = 8


@dataclass(frozen=True)
class SampledCpuConfig:
    """Configuration of the sampled product.

    rows: vector rows of a task.
    """

    rows: int


def matches(workload: object, target: Target) -> bool:
    """Every sampled product whose arrays have int32 indices."""
    if not isinstance(workload, Sddmm) or target.kind != "cpu":
        return False
    extents = (workload.m * workload.k, workload.n * workload.k, workload.places * workload.vector)
    return max(extents) < _MOST_ELEMENTS


def space(workload: Sddmm, target: Target) -> Space[SampledCpuConfig]:
    """Tasks of a few rows up to all of them."""
    shares = {-(-workload.vector_rows // (1 << i)) for i in range(8)}
    shares.add(default(workload, target).rows)
    return Space(SampledCpuConfig, {"rows": tuple(sorted(shares))})


def default(workload: Sddmm, target: Target) -> SampledCpuConfig:
    """Eight tasks a core, where there are so many rows: rows may be uneven."""
    tasks = min(workload.vector_rows, _TASKS_A_UNIT * target.units)
    return SampledCpuConfig(-(-workload.vector_rows // tasks))


def build(workload: Sddmm, config: SampledCpuConfig, target: Target) -> PrimFunc:
    """The product; parameters a, b, columns, starts, ends, row_scale?, column_scale?, y."""
    inputs = (TensorSpec(spec.name, *spec.stored) for spec in workload.inputs)
    specs = (*inputs, *packed(workload, config), *workload.outputs)
    tasks = -(-workload.vector_rows // config.rows)

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        emitter = _Emitter(workload, buffers, vector_lanes(target))
        with loop(config.rows) as index:
            row = T.bind(task * config.rows + index)
            with T.If(row < workload.vector_rows), T.Then():
                emitter.vector_row(row)
        with T.If(task == tasks - 1), T.Then():
            last = T.bind(buffers["starts"][workload.vector_rows])
            with T.serial(0, workload.places - last) as place:
                emitter.nothing(T.bind(last + place))

    return task_kernel(specs, tasks, emit)


@dataclass(frozen=True)
class _Emitter:
    """Writes the vectors of a row; lanes: of a sum of 32 bits, and of 64 half as many."""

    workload: Sddmm
    buffers: dict[str, Buffer]
    lanes: int

    @property
    def kind(self) -> str:
        """The dtype of sums."""
        if self.workload.floating:
            return "float32"
        return "int64" if self.workload.wide else "int32"

    @property
    def row(self) -> int:
        """Elements of a row as it is stored."""
        shape, _ = stored((self.workload.k,), self.workload.a_dtype)
        return shape[0]

    def vector_row(self, row: Expr) -> None:
        """All places of a vector row."""
        buffers = self.buffers
        start, end = T.bind(buffers["starts"][row]), T.bind(buffers["ends"][row])
        with T.serial(0, end - start) as index:
            self._vector(row, T.bind(start + index))
        with T.serial(0, buffers["starts"][row + 1] - end) as index:
            self.nothing(T.bind(end + index))

    def nothing(self, place: Expr) -> None:
        """A place that no vector takes."""
        (y,) = self.workload.outputs
        with loop(self.workload.vector) as r:
            store(self.buffers["y"], self._at(place, r), cast(T.int32(0), y.dtype, 1), 1)

    def _at(self, place: Expr, r: Expr) -> Expr:
        stride, vector = self.workload.stride, self.workload.vector
        if not stride:
            return place * vector + r
        return (place // stride * vector + r) * stride + place % stride

    def _vector(self, row: Expr, place: Expr) -> None:
        workload, buffers, vector = self.workload, self.buffers, self.workload.vector
        lanes = max(1, self.lanes // (2 if self.kind == "int64" else 1))
        column = T.bind(buffers["columns"][place])
        first = T.bind(row * vector)
        own = [T.bind(T.min(first + r, workload.m - 1)) for r in range(vector)]
        sums = T.alloc_buffer((vector * lanes,), self.kind)
        for r in range(vector):
            store(sums, r * lanes, splat(T.cast(T.int32(0), self.kind), lanes), lanes)
        whole = self.row // lanes
        with loop(whole) as chunk:
            self._add(sums, own, column, (T.bind(chunk * lanes), lanes), lanes)
        with loop(self.row - whole * lanes) as rest:
            self._add(sums, own, column, (T.bind(whole * lanes + rest), 1), lanes)
        total = T.alloc_buffer((1,), self.kind)
        with loop(vector) as r:
            store(total, 0, T.cast(T.int32(0), self.kind), 1)
            with loop(lanes) as lane:
                store(total, 0, load(total, 0, 1) + load(sums, r * lanes + lane, 1), 1)
            inside = T.bind(first + r < workload.m)
            value = self._finished(load(total, 0, 1), T.bind(T.min(first + r, workload.m - 1)),
                                   column)  # fmt: skip
            zero = cast(T.int32(0), workload.out_dtype, 1)
            store(buffers["y"], self._at(place, r), T.Select(inside, value, zero), 1)

    def _add(
        self,
        sums: Buffer,
        rows: list[Expr],
        column: Expr,
        piece: tuple[Expr, int],
        pitch: int,
    ) -> None:
        """Adds the products of some elements along k to the sums of each row."""
        start, lanes = piece
        gathered = [
            T.bind(each) for each in self._values("b", T.bind(column * self.row + start), lanes)
        ]
        for r, row in enumerate(rows):
            own = self._values("a", T.bind(row * self.row + start), lanes)
            total = load(sums, r * pitch, lanes)
            for left, right in zip(own, gathered, strict=True):
                total = total + left * right
            store(sums, r * pitch, total, lanes)

    def _values(self, name: str, at: Expr, lanes: int) -> list[Expr]:
        """Elements of a or b as sums have them; of 4 bits low nibbles, then high ones."""
        dtype = self.workload.a_dtype if name == "a" else self.workload.b_dtype
        stored_values = load(self.buffers[name], at, lanes)
        if not is_four_bit(dtype):
            return [cast(stored_values, self.kind, lanes)]
        pairs = cast(stored_values, "int32", lanes)
        if dtype == "uint4":
            return [pairs & splat(T.int32(15), lanes), pairs >> splat(T.int32(4), lanes)]
        places = (splat(T.int32(28), lanes), splat(T.int32(24), lanes))
        return [(pairs << place) >> splat(T.int32(28), lanes) for place in places]

    def _finished(self, total: Expr, row: Expr, column: Expr) -> Expr:
        """An output of its sum."""
        if self.workload.out_dtype == "int32":
            return total
        scaled = unfused(T.cast(total, "float32") * self.buffers["row_scale"][row], 1)
        return T.cast(scaled * self.buffers["column_scale"][column], self.workload.out_dtype)


def pack(workload: Sddmm, config: SampledCpuConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The column of each place, where the places of rows start and end, and the scales."""
    mask = workload.mask(constants)
    starts, ends = workload.places_of(mask)
    columns = np.zeros(workload.places, np.int32)
    shift = (starts[:-1] - mask.pointers[:-1])[mask.vector_row_of]
    columns[np.arange(len(mask.indices)) + shift] = mask.indices
    given = {**constants, "columns": columns, "starts": starts, "ends": ends}
    specs = packed(workload, config)
    return tuple(np.ascontiguousarray(given[spec.name], spec.dtype) for spec in specs)


def packed(workload: Sddmm, config: SampledCpuConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    scales = (TensorSpec("row_scale", (workload.m,), "float32"),
              TensorSpec("column_scale", (workload.n,), "float32"))  # fmt: skip
    return (
        TensorSpec("columns", (workload.places,), "int32"),
        TensorSpec("starts", (workload.vector_rows + 1,), "int32"),
        TensorSpec("ends", (workload.vector_rows,), "int32"),
        *(scales if workload.out_dtype != "int32" else ()),
    )


TEMPLATE = Template("sddmm_direct_cpu", 1, matches, space, default, build, pack, packed)
