"""Integers to float32 on the CPU, from NHWC to either layout."""

from __future__ import annotations

import math

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr, PrimFunc

from autoq.templates.base import Template
from autoq.templates.cpu.frame import bind_scalars, kernel_frame
from autoq.templates.cpu.movement.template import MovementConfig, movement_template
from autoq.templates.cpu.tasks import LANES, span
from autoq.templates.cpu.vector import cast, for_chunks, loop, splat, store, tasks_loop
from autoq.templates.operators.dequantize import Dequantize


def build(workload: Dequantize, config: MovementConfig) -> PrimFunc:
    """The kernel: x, scalars [2], y. Tasks share rows of one output plane, or elements."""
    pixels = workload.h * workload.w
    transposed = workload.layout == "NCHW" and pixels > 1 and workload.c > 1
    with (
        kernel_frame(
            x=(workload.x_shape, workload.in_dtype),
            scalars=((len(Dequantize.SCALARS),), "float32"),
            y=(workload.y_shape, "float32"),
        ) as frame,
        tasks_loop(config.tasks) as task,
    ):
        x, y = frame["x"], frame["y"]
        scalars = bind_scalars(frame["scalars"], Dequantize.SCALARS)

        def dequantised(start: Expr, stride: int, lanes: int) -> Expr:
            value = x[T.ramp(start, stride, lanes)] if lanes > 1 else x[start]
            centred = cast(value, "float32", lanes) - splat(scalars["zero_point"], lanes)
            return centred * splat(scalars["scale"], lanes)

        if not transposed:
            first, share = span(task, math.prod(workload.x_shape), config.tasks, LANES)
            for_chunks(
                share,
                LANES,
                lambda at, lanes: store(y, first + at, dequantised(first + at, 1, lanes), lanes),
            )
        else:
            first, share = span(task, workload.n * workload.c, config.tasks)
            with loop(share) as index:
                plane = T.bind(first + index)
                image, channel = plane // workload.c, plane % workload.c
                source = image * (pixels * workload.c) + channel

                def chunk(at: Expr | int, lanes: int) -> None:
                    value = dequantised(source + at * workload.c, workload.c, lanes)
                    store(y, plane * pixels + at, value, lanes)

                for_chunks(pixels, LANES, chunk)
    return frame.result


TEMPLATE: Template = movement_template("dequantize_cpu", Dequantize, build)
