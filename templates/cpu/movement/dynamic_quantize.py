"""Quantisation by the range of a whole array on the CPU: its range by tasks, then its bytes."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template, pack_nothing, packed_nothing
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.movement.template import MovementConfig
from autoq.templates.cpu.tasks import LANES, span, task_count
from autoq.templates.cpu.vector import for_chunks, load, loop, splat, store
from autoq.templates.epilogue.cpu import requantised
from autoq.templates.operators.dynamic_quantize import LARGE, LEVELS, DynamicQuantize
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target

_SUMS = 4
"""Vectors of values so far, so that a comparison does not wait for the one before it."""


def matches(workload: Any, target: Target) -> bool:
    """Every array."""
    return target.kind == "cpu" and isinstance(workload, DynamicQuantize)


def default(workload: DynamicQuantize, target: Target) -> MovementConfig:
    """As many tasks as there is work for."""
    return MovementConfig(task_count(workload.bytes, target))


def space(workload: DynamicQuantize, target: Target) -> Space[MovementConfig]:
    """That one choice."""
    return Space(MovementConfig, {"tasks": (default(workload, target).tasks,)})


def build(workload: DynamicQuantize, config: MovementConfig, target: Target) -> Program:
    """Two stages: the ranges of tasks' shares, and the bytes, the scale and the zero point."""
    tasks, (x,) = config.tasks, workload.inputs
    parts = TensorSpec("parts", (2, tasks), "float32")

    def measure(views: dict[str, Buffer], task: Expr) -> None:
        first, share = span(task, workload.size, tasks)
        _emit_range(views["x"], views["parts"], first, share, (task, tasks))

    def quantise(views: dict[str, Buffer], task: Expr) -> None:
        scale, zero_point = _scheme(views["parts"], tasks)
        with T.If(task == 0), T.Then():
            T.buffer_store(views["scale"], scale, [0])
            T.buffer_store(views["zero_point"], zero_point, [0])
        first, share = span(task, workload.size, tasks)

        def chunk(at: Expr | int, lanes: int) -> None:
            steps = load(views["x"], first + at, lanes) / splat(scale, lanes)
            low, high = T.float32(0) - zero_point, T.float32(LEVELS) - zero_point
            whole = requantised(steps, low, high, zero_point, "uint8", lanes)
            store(views["y"], first + at, whole, lanes)

        for_chunks(share, LANES, chunk)

    stages = (
        Stage(task_kernel([x, parts], tasks, measure, "measure"), ("x",), ("parts",)),
        Stage(
            task_kernel([x, parts, *workload.outputs], tasks, quantise, "quantise"),
            ("x", "parts"),
            tuple(spec.name for spec in workload.outputs),
        ),
    )
    return Program(stages, (Workspace(parts),))


def _emit_range(x: Buffer, parts: Buffer, first: Expr, share: int, place: tuple[Expr, int]) -> None:
    """The least and the largest of a task's values and 0, to `parts`."""
    task, tasks = place
    least, most = (T.alloc_buffer((_SUMS * LANES,), "float32") for _ in range(2))
    for kept in (least, most):
        for number in range(_SUMS):
            store(kept, number * LANES, splat(T.float32(0), LANES), LANES)

    def meet(at: Expr | int, number: int, lanes: int) -> None:
        value, offset = load(x, first + at, lanes), number * LANES
        for kept, better in ((least, value < load(least, offset, lanes)),
                             (most, value > load(most, offset, lanes))):  # fmt: skip
            store(kept, offset, T.Select(better, value, load(kept, offset, lanes)), lanes)

    whole = share // (_SUMS * LANES)
    with loop(whole) as turn:
        for number in range(_SUMS):
            meet((turn * _SUMS + number) * LANES, number, LANES)
    done = whole * _SUMS * LANES
    for_chunks(share - done, LANES, lambda at, lanes: meet(done + at, 0, lanes))
    for row, kept in enumerate((least, most)):
        with loop(_SUMS * LANES) as lane:
            best = T.min(kept[0], kept[lane]) if row == 0 else T.max(kept[0], kept[lane])
            T.buffer_store(kept, best, [0])
        T.buffer_store(parts, kept[0], [row * tasks + task])


def _scheme(parts: Buffer, tasks: int) -> tuple[Expr, Expr]:
    """Scale and zero point of the range of all tasks."""
    least, most = parts[0], parts[tasks]
    for task in range(1, tasks):
        least = T.min(least, parts[task])
        most = T.max(most, parts[tasks + task])
    one = T.float32(1)
    plain = T.bind((most - least) / T.float32(LEVELS))
    scale = T.bind(plain + (one - T.min(plain * T.float32(LARGE), one)))
    exact = T.float32(0) - least / scale
    bounded = T.min(T.max(exact, T.float32(0)), T.float32(LEVELS))
    return scale, T.bind(T.nearbyint(bounded))


TEMPLATE = Template(
    "dynamic_quantize_cpu", 1, matches, space, default, build, pack_nothing, packed_nothing,
    tunable=False,
)  # fmt: skip
"""Dynamic quantisation on a CPU."""
