"""Products with single weights on a CPU, alone or added to the sums of another kernel.

A task has some rows of y. It copies these rows of x turned, so that what a weight multiplies is a
vector of them, and goes through the weights of one output after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import bind_scalars, task_kernel
from autoq.templates.cpu.row_epilogue import finish_row
from autoq.templates.cpu.vector import cast, load, loop, splat, store
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_LANES = 16
_VECTORS = (1, 2, 4, 8)


@dataclass(frozen=True)
class ElementsCpuConfig:
    """Configuration of a product with single weights on a CPU.

    lanes_of_rows: rows of y of a task, in vectors of 16.
    """

    lanes_of_rows: int


@dataclass(frozen=True)
class ElementsCpuTiling:
    """A product with single weights, of the class `structure`, cut by a configuration."""

    workload: Gemm
    structure: Structure
    config: ElementsCpuConfig

    @property
    def accumulator(self) -> str:
        return "float32" if self.workload.in_dtype == "float32" else "int32"

    @property
    def width(self) -> int:
        """Rows of y of a task, up to whole vectors."""
        return _LANES * self.config.lanes_of_rows

    @property
    def rows(self) -> int:
        """Rows of y of a task."""
        return min(self.width, self.workload.m)

    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of `pack`."""
        work, columns = self.workload, (self.workload.n,)
        weights = (max(1, self.structure.blocks),)
        specs = [
            TensorSpec("values", weights, self.accumulator),
            TensorSpec("places", weights, "int32"),
            TensorSpec("starts", (work.n + 1,), "int32"),
            TensorSpec("bias", columns, self.accumulator),
        ]
        if work.in_dtype != "float32" and work.epilogue.out_dtype != "int32":
            specs.append(TensorSpec("scale", columns, "float32"))
        if work.epilogue.float_bias:
            specs.append(TensorSpec("float_bias", columns, "float32"))
        return (*specs, TensorSpec("scalars", (len(SCALAR_NAMES),), "float32"))

    def pack(self, constants: Constants) -> tuple[np.ndarray, ...]:
        """The weights of each output, their places in a task's copy of x, and the epilogue's."""
        weight, bias = np.asarray(constants["weight"]), np.asarray(constants["bias"])
        outputs, inputs = np.nonzero(weight)
        values, places, starts = (np.zeros(s.shape, s.dtype) for s in self.specs()[:3])
        values[: len(inputs)] = weight[outputs, inputs]
        places[: len(inputs)] = inputs * self.width
        starts[1:] = np.cumsum(np.count_nonzero(weight, axis=1))
        if self.accumulator == "int32":
            zero_point = int(constants.get("x_zero_point", 0))
            bias = bias - zero_point * weight.astype(np.int64).sum(axis=1)
        given = {**constants, "values": values, "places": places, "starts": starts, "bias": bias}
        return tuple(np.ascontiguousarray(given[spec.name], spec.dtype) for spec in self.specs())


def elements_cpu_space(workload: Gemm, target: Target) -> Space[ElementsCpuConfig]:
    """Tasks with no more rows than there are."""
    knobs = {"lanes_of_rows": tuple(v for v in _VECTORS if v == 1 or _LANES * v <= workload.m)}
    return Space(ElementsCpuConfig, knobs)


def elements_cpu_default(workload: Gemm, target: Target) -> ElementsCpuConfig:
    """The most rows that leave a task for each core."""
    share = -(-workload.m // target.units)
    legal = [config.lanes_of_rows for config in elements_cpu_space(workload, target).enumerate()]
    return ElementsCpuConfig(max((v for v in legal if _LANES * v <= share), default=legal[0]))


def elements_cpu_kernel(tiling: ElementsCpuTiling, adds: bool = False) -> PrimFunc:
    """The product; parameters x, sums?, further inputs, those of `ElementsCpuTiling.specs`, y.

    adds: whether there are sums [m, n] of other weights that those of these weights are added to.
    """
    work, kind, width = tiling.workload, tiling.accumulator, tiling.width
    x, *others = work.inputs
    before = [TensorSpec("before", (work.m, work.n), kind)] if adds else []
    specs = (x, *before, *others, *tiling.specs(), *work.outputs)
    pitch = work.n + 1

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        first = T.bind(T.min(task * tiling.rows, work.m - tiling.rows))
        scalars = bind_scalars(buffers["scalars"], SCALAR_NAMES)
        turned = T.alloc_buffer((work.k * width,), work.in_dtype)
        sums = T.alloc_buffer((width * pitch,), kind)
        with loop(work.k) as k:
            for row in range(width):
                own = T.cast(0, work.in_dtype)
                if row < tiling.rows:
                    own = buffers["x"][(first + row) * work.k + k]
                T.buffer_store(turned, own, [k * width + row])
        with loop(work.n) as column:
            registers = _multiply(tiling, buffers, turned, column)
            for v, register in enumerate(registers):
                with loop(_LANES) as lane:
                    at = (v * _LANES + lane) * pitch + column
                    T.buffer_store(sums, register[lane], [at])
        with loop(tiling.rows) as row:
            finish_row(work, buffers, (sums, row * pitch), T.bind(first + row), scalars, _LANES)

    return task_kernel(specs, -(-work.m // tiling.rows), emit, name="add_elements")


def _multiply(
    tiling: ElementsCpuTiling, buffers: Mapping[str, Buffer], turned: Buffer, column: Expr
) -> list[Buffer]:
    """The sums of an output, by vectors of rows of y."""
    kind = tiling.accumulator
    sums = [T.alloc_buffer((_LANES,), kind) for _ in range(tiling.config.lanes_of_rows)]
    for register in sums:
        store(register, 0, splat(T.cast(0, kind), _LANES), _LANES)
    begin = T.bind(buffers["starts"][column])
    with T.serial(0, buffers["starts"][column + 1] - begin) as index:
        at = T.bind(begin + index)
        place, value = T.bind(buffers["places"][at]), T.bind(splat(buffers["values"][at], _LANES))
        for v, register in enumerate(sums):
            factor = cast(load(turned, place + v * _LANES, _LANES), kind, _LANES)
            store(register, 0, load(register, 0, _LANES) + factor * value, _LANES)
    return sums
