"""Keys, values and queries of attention on a CPU as integers, which float32 holds."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.floats import widened
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.vector import load, loop, splat, store
from autoq.templates.operators.sparse_attention import SparseAttention

LANES = 8
"""Lanes of all vectors, of which heads are whole multiples."""


def quantise_kernel(workload: SparseAttention, specs: tuple[TensorSpec, ...]) -> PrimFunc:
    """Keys and values of a pair a task."""

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        size = workload.keys * workload.depth
        for number, name in enumerate("kv"):
            place = T.bind(number * workload.pairs + task)
            start, pitch = (
                start_of(workload, task, workload.keys),
                workload.row_step * workload.depth,
            )
            whole = Rows(buffers[name], start, size, workload.depth, pitch)
            to = (buffers["values"], T.bind(place * size))
            store(buffers["steps"], place, quantise(workload, whole, to), 1)

    return task_kernel(specs, workload.pairs, emit, "quantise")


@dataclass(frozen=True)
class Rows:
    """`count` values from `start` on, in rows of `depth` that begin `pitch` values apart."""

    values: Buffer
    start: Expr
    count: int
    depth: int
    pitch: int

    def vector(self, index: Expr) -> Expr:
        """The vector of a number."""
        if self.depth in (self.pitch, self.count):
            return load(self.values, self.start + index * LANES, LANES)
        chunks = self.depth // LANES
        at = self.start + index // chunks * self.pitch + index % chunks * LANES
        return load(self.values, at, LANES)


def start_of(workload: SparseAttention, pair: Expr, rows: int) -> Expr:
    """Where the first row of a pair lies in an array of `rows` rows a pair."""
    step = workload.row_step
    return T.bind((pair // step * (rows * step) + pair % step) * workload.depth)


def quantise(workload: SparseAttention, source: Rows, to: tuple[Buffer, Expr]) -> Expr:
    """Write the integers of some values, whose step this gives."""
    count = source.count
    target, at = to
    most = 2 ** (workload.qkv_bits - 1) - 1

    def read(index: Expr) -> Expr:
        return widened(source.vector(index), workload.dtype, LANES)

    largest = T.alloc_buffer((LANES,), "float32")
    store(largest, 0, splat(T.float32(0), LANES), LANES)
    with loop(count // LANES) as index:
        value = T.bind(read(index))
        magnitude = T.max(value, splat(T.float32(0), LANES) - value)
        store(largest, 0, T.max(load(largest, 0, LANES), magnitude), LANES)
    whole = T.alloc_buffer((1,), "float32")
    store(whole, 0, T.float32(0), 1)
    with loop(LANES) as lane:
        store(whole, 0, T.max(load(whole, 0, 1), load(largest, lane, 1)), 1)
    found = T.bind(load(whole, 0, 1))
    some = T.bind(found > T.float32(0))
    inverse = T.Select(some, T.float32(most) / T.max(found, T.float32(1e-30)), T.float32(0))
    factor = T.bind(inverse)
    with loop(count // LANES) as index:
        scaled = T.nearbyint(read(index) * splat(factor, LANES))
        bound = splat(T.float32(most), LANES)
        inside = T.min(T.max(scaled, splat(T.float32(-most), LANES)), bound)
        store(target, at + index * LANES, inside, LANES)
    return T.bind(T.Select(some, found / T.float32(most), T.float32(1)))
