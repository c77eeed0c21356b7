"""Attention under a sparse mask on any CPU: a group of eight queries goes along its keys.

Integers are held as float32, which sums of products of both hold exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.floats import narrowed
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.sparse_attention.quantise import (
    LANES,
    Rows,
    quantise,
    quantise_kernel,
    start_of,
)
from autoq.templates.cpu.vector import load, loop, splat, store, unfused
from autoq.templates.cpu.vector_functions import exp
from autoq.templates.operators.sparse_attention import GROUP, SparseAttention
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_LEAST, _UNSEEN = -1e30, -2e30
"""Below the scores of quantised floats, and the score of a key that a query does not see.

Compilers of floats may take it that nothing is infinite.
"""

_MOST_ELEMENTS = 1 << 31


@dataclass(frozen=True)
class SparseAttentionCpuConfig:
    """Configuration of the kernel.

    groups: groups of eight queries of a task.
    """

    groups: int


def matches(workload: object, target: Target) -> bool:
    """Every sparse attention whose arrays have int32 indices."""
    if not isinstance(workload, SparseAttention) or target.kind != "cpu":
        return False
    return 2 * max(math.prod(spec.shape) for spec in workload.inputs) < _MOST_ELEMENTS


def space(workload: SparseAttention, target: Target) -> Space[SparseAttentionCpuConfig]:
    """Tasks of a group up to all of a pair."""
    shares = {-(-workload.groups // (1 << i)) for i in range(6)} | {1}
    return Space(SparseAttentionCpuConfig, {"groups": tuple(sorted(shares))})


def default(workload: SparseAttention, target: Target) -> SparseAttentionCpuConfig:
    """A group a task: rows may be uneven."""
    return SparseAttentionCpuConfig(1)


def _workspaces(workload: SparseAttention) -> tuple[TensorSpec, TensorSpec]:
    """Integers of k and v, and the steps of both, by pairs."""
    shape = (2, workload.pairs, workload.keys, workload.depth)
    return TensorSpec("values", shape, "float32"), TensorSpec(
        "steps", (2, workload.pairs), "float32"
    )


def build(workload: SparseAttention, config: SparseAttentionCpuConfig, target: Target) -> Program:
    """Two stages: integers of keys and values, then attention."""
    workspaces = _workspaces(workload)
    q, k, v = workload.inputs
    (y,) = workload.outputs
    constants = packed(workload, config)
    quantise = quantise_kernel(workload, (k, v, *workspaces))
    attend = _attend_kernel(workload, config, (q, *workspaces, *constants, y))
    names = [spec.name for spec in constants]
    return Program(
        (
            Stage(quantise, ("k", "v"), ("values", "steps")),
            Stage(attend, ("q", "values", "steps", *names), ("y",)),
        ),
        tuple(map(Workspace, workspaces)),
    )


def _attend_kernel(
    workload: SparseAttention, config: SparseAttentionCpuConfig, specs: tuple[TensorSpec, ...]
) -> PrimFunc:
    """Some groups of a pair a task."""
    parts = -(-workload.groups // config.groups)

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        pair, part = T.bind(task // parts), T.bind(task % parts)
        emitter = _Emitter(workload, buffers, pair)
        with loop(config.groups) as index:
            group = T.bind(part * config.groups + index)
            with T.If(group < workload.groups), T.Then():
                emitter.group(group)

    return task_kernel(specs, workload.pairs * parts, emit, "attend")


@dataclass(frozen=True)
class _Emitter:
    """Writes the attention of one group."""

    workload: SparseAttention
    buffers: dict[str, Buffer]
    pair: Expr

    @property
    def pitch(self) -> int:
        """Scores of a query: whole vectors."""
        longest = max(1, min(self.workload.structure.longest_row, self.workload.keys))
        return -(-longest // LANES) * LANES

    def group(self, group: Expr) -> None:
        work, buffers, depth = self.workload, self.buffers, self.workload.depth
        start = T.bind(buffers["pointers"][group])
        count = T.bind(buffers["pointers"][group + 1] - start)
        q, factors = T.alloc_buffer((GROUP * depth,), "float32"), []
        key_step = T.bind(buffers["steps"][self.pair] * buffers["scale"][0])
        for r in range(GROUP):
            row = T.min(group * GROUP + r, work.queries - 1)
            first = start_of(work, self.pair, work.queries)
            own = Rows(
                buffers["q"], T.bind(first + row * (work.row_step * depth)), depth, depth, depth
            )
            step = quantise(work, own, (q, T.int32(r * depth)))
            factors.append(T.bind(unfused(step * key_step, 1)))
        scores = T.alloc_buffer((GROUP * self.pitch,), "float32")
        nothing = splat(T.float32(_UNSEEN), LANES)
        for r in range(GROUP):
            with T.serial(0, (count + LANES - 1) // LANES) as chunk:
                store(scores, r * self.pitch + chunk * LANES, nothing, LANES)
        with T.serial(0, count) as index:
            self._scores(T.bind(start + index), index, (q, scores), factors)
        totals = T.alloc_buffer((GROUP,), "float32")
        with loop(GROUP) as r:
            store(totals, r, self._shares(scores, T.bind(r * self.pitch), count), 1)
        self._values(group, (start, count), scores, totals)

    def _scores(
        self, place: Expr, index: Expr, arrays: tuple[Buffer, Buffer], factors: list[Expr]
    ) -> None:
        """Of one key with the eight queries."""
        q, scores = arrays
        depth = self.workload.depth
        column = T.bind(self.buffers["columns"][place])
        key = T.bind((self.pair * self.workload.keys + column) * depth)
        seen = T.bind(T.cast(self.buffers["kept"][place], "int32"))
        for r in range(GROUP):
            sums = T.alloc_buffer((LANES,), "float32")
            store(sums, 0, splat(T.float32(0), LANES), LANES)
            with loop(depth // LANES) as chunk:
                own = load(q, r * depth + chunk * LANES, LANES)
                other = load(self.buffers["values"], key + chunk * LANES, LANES)
                store(sums, 0, load(sums, 0, LANES) + own * other, LANES)
            total = T.alloc_buffer((1,), "float32")
            store(total, 0, T.float32(0), 1)
            with loop(LANES) as lane:
                store(total, 0, load(total, 0, 1) + load(sums, lane, 1), 1)
            kept = (seen >> r & 1) > 0
            score = T.Select(kept, load(total, 0, 1) * factors[r], T.float32(_UNSEEN))
            store(scores, r * self.pitch + index, score, 1)

    def _shares(self, scores: Buffer, at: Expr, count: Expr) -> Expr:
        """Turn a query's scores into its shares, whose sum this gives."""
        chunks = T.bind((count + LANES - 1) // LANES)
        most = T.alloc_buffer((LANES,), "float32")
        # A query that sees no key has shares of 0.
        store(most, 0, splat(T.float32(_LEAST), LANES), LANES)
        with T.serial(0, chunks) as chunk:
            value = load(scores, at + chunk * LANES, LANES)
            store(most, 0, T.max(load(most, 0, LANES), value), LANES)
        whole = T.alloc_buffer((2,), "float32")
        store(whole, 0, T.float32(_LEAST), 1)
        with loop(LANES) as lane:
            store(whole, 0, T.max(load(whole, 0, 1), load(most, lane, 1)), 1)
        largest = T.bind(load(whole, 0, 1))
        sums = T.alloc_buffer((LANES,), "float32")
        store(sums, 0, splat(T.float32(0), LANES), LANES)
        steps = splat(T.float32(2**self.workload.softmax_bits - 1), LANES)
        with T.serial(0, chunks) as chunk:
            value = load(scores, at + chunk * LANES, LANES) - splat(largest, LANES)
            share = T.nearbyint(exp(value, LANES) * steps)
            store(scores, at + chunk * LANES, share, LANES)
            store(sums, 0, load(sums, 0, LANES) + load(scores, at + chunk * LANES, LANES),
                  LANES)  # fmt: skip
        store(whole, 1, T.float32(0), 1)
        with loop(LANES) as lane:
            store(whole, 1, load(whole, 1, 1) + load(sums, lane, 1), 1)
        return load(whole, 1, 1)

    def _values(self, group: Expr, keys: tuple[Expr, Expr], scores: Buffer, totals: Buffer) -> None:
        """Sums of values by shares, and the outputs."""
        work, depth, (start, count) = self.workload, self.workload.depth, keys
        sums = T.alloc_buffer((GROUP * depth,), "float32")
        with loop(GROUP * depth // LANES) as chunk:
            store(sums, chunk * LANES, splat(T.float32(0), LANES), LANES)
        with T.serial(0, count) as index:
            column = T.bind(self.buffers["columns"][start + index])
            value = T.bind(((work.pairs + self.pair) * work.keys + column) * depth)
            for r in range(GROUP):
                share = splat(T.bind(load(scores, r * self.pitch + index, 1)), LANES)
                with loop(depth // LANES) as chunk:
                    at = r * depth + chunk * LANES
                    own = load(self.buffers["values"], value + chunk * LANES, LANES)
                    store(sums, at, load(sums, at, LANES) + share * own, LANES)
        step = T.bind(self.buffers["steps"][work.pairs + self.pair])
        first = start_of(work, self.pair, work.queries)
        with loop(GROUP) as r:
            row = T.bind(group * GROUP + r)
            with T.If(row < work.queries), T.Then():
                factor = T.bind(step / T.max(load(totals, r, 1), T.float32(1)))
                with loop(depth // LANES) as chunk:
                    total = load(sums, r * depth + chunk * LANES, LANES)
                    scaled = narrowed(total * splat(factor, LANES), work.dtype, LANES)
                    at = first + row * (work.row_step * depth) + chunk * LANES
                    store(self.buffers["y"], at, scaled, LANES)


def pack(
    workload: SparseAttention, config: SparseAttentionCpuConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The mask and the factor of scores; keys behind the last one are 0."""
    room = max(1, workload.structure.blocks)
    columns, kept = np.zeros(room, np.int32), np.zeros(room, np.uint8)
    columns[: len(constants["columns"])] = constants["columns"]
    kept[: len(constants["kept"])] = constants["kept"]
    pointers = np.ascontiguousarray(constants["pointers"], np.int32)
    return columns, pointers, kept, np.ascontiguousarray(constants["scale"], np.float32)


def packed(workload: SparseAttention, config: SparseAttentionCpuConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    room = max(1, workload.structure.blocks)
    return (
        TensorSpec("columns", (room,), "int32"),
        TensorSpec("pointers", (workload.groups + 1,), "int32"),
        TensorSpec("kept", (room,), "uint8"),
        TensorSpec("scale", (1,), "float32"),
    )


TEMPLATE = Template("sparse_attention_direct_cpu", 1, matches, space, default, build, pack, packed)
