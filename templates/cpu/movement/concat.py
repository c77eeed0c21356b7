"""Channel concatenation with requantisation on the CPU."""

from __future__ import annotations

import dataclasses
from typing import Any

from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.element import element
from autoq.templates.base import Template
from autoq.templates.cpu import vector
from autoq.templates.cpu.frame import bind_scalars, kernel_frame
from autoq.templates.cpu.movement.template import MovementConfig, movement_template
from autoq.templates.cpu.tasks import LANES, span
from autoq.templates.epilogue.cpu import requantised
from autoq.templates.operators.concat import Concat
from autoq.templates.target import Target


def build(workload: Concat, config: MovementConfig) -> PrimFunc:
    """The kernel: x0, x1, ..., scalars [parts, 5], y."""
    parameters = {x.name: (x.shape, x.dtype) for x in workload.inputs}
    with (
        kernel_frame(
            **parameters,
            scalars=((len(workload.parts), len(Concat.SCALARS)), "float32"),
            y=(workload.y_shape, workload.out_dtype),
        ) as frame,
        vector.tasks_loop(config.tasks) as task,
    ):
        y, scalars = frame["y"], frame["scalars"]
        first, share = span(task, workload.outer, config.tasks)
        offset = 0
        for i, part in enumerate(workload.parts):
            x = frame[f"x{part.source}"]
            row_scalars = bind_scalars(scalars, Concat.SCALARS, i)
            with vector.loop(share) as row:
                source = (first + row) * part.width + part.begin
                target = (first + row) * workload.y_shape[1] + offset
                _emit_row(workload, i, x, source, y, target, row_scalars)
            offset += part.channels
    return frame.result


def _emit_row(
    workload: Concat,
    index: int,
    x: Buffer,
    source: Expr,
    y: Buffer,
    target: Expr,
    scalars: dict[str, Expr],
) -> None:
    requantize, out_dtype = workload.requantize[index], workload.out_dtype

    def chunk(at: Expr | int, lanes: int) -> None:
        value = vector.load(x, source + at, lanes)
        if requantize:
            centred = vector.cast(value, "float32", lanes) - vector.splat(
                scalars["x_zero_point"], lanes
            )
            value = requantised(
                centred * vector.splat(scalars["scale"], lanes), scalars["low"], scalars["high"],
                scalars["zero_point"], out_dtype, lanes,
            )  # fmt: skip
        else:
            value = vector.cast(value, out_dtype, lanes)
        vector.store(y, target + at, value, lanes)

    vector.for_chunks(
        workload.channels[index],
        LANES if requantize else vector.WIDEST_BYTES // element(out_dtype).bytes,
        chunk,
    )


_ANY = movement_template("concat_cpu", Concat, build)


def matches(workload: Any, target: Target) -> bool:
    """A concatenation with one output."""
    return _ANY.computes(workload, target) and not workload.scaled_dtype


TEMPLATE: Template = dataclasses.replace(_ANY, computes=matches)
