"""Elementwise addition with requantisation on the CPU."""

from __future__ import annotations

import math

from tvm.tirx import Expr, PrimFunc

from autoq.templates.base import Template
from autoq.templates.cpu.frame import bind_scalars, kernel_frame
from autoq.templates.cpu.movement.template import MovementConfig, movement_template
from autoq.templates.cpu.tasks import LANES, span
from autoq.templates.cpu.vector import cast, for_chunks, load, splat, store, tasks_loop, unfused
from autoq.templates.epilogue.cpu import clamped, requantised
from autoq.templates.operators.add import Add


def build(workload: Add, config: MovementConfig) -> PrimFunc:
    """The kernel: a, b, scalars [7], y."""
    count = math.prod(workload.shape)
    with (
        kernel_frame(
            a=(workload.shape, workload.a_dtype),
            b=(workload.shape, workload.b_dtype),
            scalars=((len(Add.SCALARS),), "float32"),
            y=(workload.shape, workload.out_dtype),
        ) as frame,
        tasks_loop(config.tasks) as task,
    ):
        a, b, y = (frame[name] for name in "aby")
        scalars = bind_scalars(frame["scalars"], Add.SCALARS)
        first, share = span(task, count, config.tasks, LANES)

        def chunk(at: Expr | int, lanes: int) -> None:
            value = _sum(workload, load(a, first + at, lanes), load(b, first + at, lanes),
                         scalars, lanes)  # fmt: skip
            store(y, first + at, value, lanes)

        for_chunks(share, LANES, chunk)
    return frame.result


def _sum(workload: Add, a: Expr, b: Expr, scalars: dict[str, Expr], lanes: int) -> Expr:
    a, b = cast(a, "float32", lanes), cast(b, "float32", lanes)
    low, high = scalars["low"], scalars["high"]
    if workload.out_dtype == "float32":
        return clamped(a + b, low, high, lanes)
    total = unfused((a - splat(scalars["a_zero_point"], lanes)) * splat(scalars["a_scale"], lanes),
                    lanes)  # fmt: skip
    total += unfused((b - splat(scalars["b_zero_point"], lanes)) * splat(scalars["b_scale"], lanes),
                     lanes)  # fmt: skip
    return requantised(total, low, high, scalars["zero_point"], workload.out_dtype, lanes)


TEMPLATE: Template = movement_template("add_cpu", Add, build)
