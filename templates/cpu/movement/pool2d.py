"""Maximum and average pooling, global average included, on the CPU."""

from __future__ import annotations

import math

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.element import element
from autoq.templates.base import Template
from autoq.templates.cpu import vector
from autoq.templates.cpu.frame import bind_scalars, kernel_frame
from autoq.templates.cpu.movement.template import MovementConfig, movement_template
from autoq.templates.cpu.tasks import LANES, span
from autoq.templates.epilogue.cpu import clamped, requantised
from autoq.templates.operators.pool2d import Pool2d


def build(workload: Pool2d, config: MovementConfig) -> PrimFunc:
    """The kernel: x, scalars [5], y. Tasks share the output pixels."""
    pixels = workload.n * workload.p * workload.q
    with (
        kernel_frame(
            x=(workload.x_shape, workload.in_dtype),
            scalars=((len(Pool2d.SCALARS),), "float32"),
            y=(workload.y_shape, workload.out_dtype),
        ) as frame,
        vector.tasks_loop(config.tasks) as task,
    ):
        x, y = frame["x"], frame["y"]
        scalars = bind_scalars(frame["scalars"], Pool2d.SCALARS)
        first, share = span(task, pixels, config.tasks)
        with vector.loop(share) as index:
            pixel = T.bind(first + index)
            window = _Window(workload, pixel)

            def chunk(at: Expr | int, lanes: int) -> None:
                total = window.reduce(x, at, lanes)
                value = _finish(workload, total, window.inside, scalars, lanes)
                vector.store(y, pixel * workload.c + at, value, lanes)

            vector.for_chunks(workload.c, _lanes(workload), chunk)
    return frame.result


def _lanes(workload: Pool2d) -> int:
    """A maximum of bytes stays in bytes; everything else works on 4-byte lanes."""
    if workload.kind == "max" and not workload.requantize:
        return vector.WIDEST_BYTES // element(workload.in_dtype).bytes
    return LANES


class _Window:
    """The part of an output pixel's window that lies inside the image."""

    def __init__(self, workload: Pool2d, pixel: Expr) -> None:
        self.workload = workload
        image = pixel // (workload.p * workload.q)
        row = pixel // workload.q % workload.p * workload.stride[0] - workload.padding[0]
        column = pixel % workload.q * workload.stride[1] - workload.padding[1]
        self.top, self.bottom = self._bounds(row, workload.r, workload.h)
        self.left, self.right = self._bounds(column, workload.s, workload.w)
        self.first_row = image * workload.h

    @staticmethod
    def _bounds(first: Expr, taps: int, extent: int) -> tuple[Expr, Expr]:
        return T.bind(T.max(first, 0)), T.bind(T.min(first + taps, extent))

    @property
    def inside(self) -> Expr:
        """Pixels of the window inside the image, int32."""
        return (self.bottom - self.top) * (self.right - self.left)

    def reduce(self, x: Buffer, channel: Expr | int, lanes: int) -> Expr:
        """Maximum or sum over the window of `lanes` channels."""
        maximum, in_dtype = self.workload.kind == "max", self.workload.in_dtype
        integer_sum = not maximum and in_dtype != "float32"
        dtype = "int32" if integer_sum else in_dtype
        total = T.alloc_buffer((lanes,), dtype, scope="local")
        start = _least(dtype) if maximum else T.cast(0, dtype)
        vector.store(total, 0, vector.splat(start, lanes), lanes)
        with (
            T.serial(self.top, self.bottom) as row,
            T.serial(self.left, self.right) as column,
        ):
            pixel = (self.first_row + row) * self.workload.w + column
            value = vector.cast(
                vector.load(x, pixel * self.workload.c + channel, lanes), dtype, lanes
            )
            so_far = vector.load(total, 0, lanes)
            vector.store(
                total, 0, _larger(so_far, value, dtype, lanes) if maximum else so_far + value, lanes
            )
        return vector.load(total, 0, lanes)


def _least(dtype: str) -> Expr:
    return T.float32(-math.inf) if dtype == "float32" else T.min_value(dtype)


def _larger(so_far: Expr, value: Expr, dtype: str, lanes: int) -> Expr:
    """The larger one of each lane; of float32, NaN if either is."""
    if dtype != "float32":
        return T.max(so_far, value)
    larger = T.Select(so_far > value, so_far, value)  # one instruction, `value` where it is NaN
    return T.Select(so_far <= vector.splat(T.float32(math.inf), lanes), larger, so_far)


def _finish(
    workload: Pool2d, total: Expr, inside: Expr, scalars: dict[str, Expr], lanes: int
) -> Expr:
    """Output lanes from the maximum or sum of a window with `inside` pixels in the image."""
    low, high, scale = scalars["low"], scalars["high"], scalars["scale"]
    maximum = workload.kind == "max"
    count = T.int32(workload.r * workload.s) if workload.count_include_pad else inside
    count = T.cast(count, "float32")
    if workload.in_dtype == "float32":
        value = total if maximum else total / vector.splat(count, lanes)
        return clamped(value, low, high, lanes)
    if maximum and not workload.requantize:
        return vector.cast(total, workload.out_dtype, lanes)
    zero_point = T.cast(scalars["x_zero_point"], "int32")
    zeros = zero_point if maximum else zero_point * inside
    centred = vector.cast(total, "int32", lanes) - vector.splat(zeros, lanes)
    factor = scale if maximum else scale / count
    value = vector.cast(centred, "float32", lanes) * vector.splat(factor, lanes)
    return requantised(value, low, high, scalars["zero_point"], workload.out_dtype, lanes)


TEMPLATE: Template = movement_template("pool2d_cpu", Pool2d, build)
