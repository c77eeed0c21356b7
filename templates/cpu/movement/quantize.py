"""Float32 images to integers on the CPU: layout, space-to-depth and channel padding in one pass."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.base import Template
from autoq.templates.cpu.frame import bind_scalars, kernel_frame
from autoq.templates.cpu.movement.template import MovementConfig, movement_template
from autoq.templates.cpu.tasks import LANES, span
from autoq.templates.cpu.vector import for_chunks, load, loop, splat, store, tasks_loop
from autoq.templates.epilogue.cpu import requantised
from autoq.templates.operators.quantize import Quantize


def build(workload: Quantize, config: MovementConfig) -> PrimFunc:
    """The kernel: x, scalars [4], y. Tasks share the output rows.

    A task quantises the `block` input rows of an output row into a line buffer by vectors, then
    interleaves the line.
    """
    _, rows, columns, channels = workload.y_shape
    line_elements = workload.block * workload.c * workload.w
    with (
        kernel_frame(
            x=(workload.x_shape, "float32"),
            scalars=((len(Quantize.SCALARS),), "float32"),
            y=(workload.y_shape, workload.out_dtype),
        ) as frame,
        tasks_loop(config.tasks) as task,
    ):
        x, y = frame["x"], frame["y"]
        scalars = bind_scalars(frame["scalars"], Quantize.SCALARS)
        line = T.alloc_buffer((line_elements,), workload.out_dtype)
        first, share = span(task, workload.n * rows, config.tasks)
        with loop(share) as index:
            row = T.bind(first + index)
            _emit_line(workload, x, line, row // rows, row % rows, scalars)
            _interleave(workload, line, y, row * (columns * channels), scalars["zero_point"])
    return frame.result


def _emit_line(
    workload: Quantize, x: Buffer, line: Buffer, image: Expr, row: Expr, scalars: dict[str, Expr]
) -> None:
    """Quantises input rows `row * block ...` into `line`, in the order of x: [block, c, w] for
    NCHW, [block, w, c] for NHWC."""
    planes, extent = (workload.c, workload.w), workload.w
    if workload.layout == "NHWC":
        planes, extent = (1, 0), workload.w * workload.c
    with T.grid(workload.block, planes[0]) as (block_row, channel):
        source_row = row * workload.block + block_row
        plane = image * planes[0] + channel
        source = (plane * workload.h + source_row) * extent
        target = (block_row * planes[0] + channel) * extent

        def chunk(at: Expr | int, lanes: int) -> None:
            value = load(x, source + at, lanes) / splat(scalars["scale"], lanes)
            quantised = requantised(
                value, scalars["low"], scalars["high"], scalars["zero_point"],
                workload.out_dtype, lanes,
            )  # fmt: skip
            store(line, target + at, quantised, lanes)

        for_chunks(extent, LANES, chunk)


def _interleave(workload: Quantize, line: Buffer, y: Buffer, start: Expr, zero_point: Expr) -> None:
    """Writes one output row [w / block, channels] from the line buffer."""
    block, c, channels = workload.block, workload.c, workload.channels
    column_step, channel_step = (1, workload.w) if workload.layout == "NCHW" else (c, 1)
    with loop(workload.w // block) as column:
        target = start + column * channels
        with T.grid(block, block, c) as (block_row, block_column, channel):
            source = block_row * (c * workload.w) + channel * channel_step
            source = source + (column * block + block_column) * column_step
            at = (block_row * block + block_column) * c + channel
            if workload.planes:
                at = (channel * block + block_row) * block + block_column
            store(y, target + at, line[source], 1)
        padding = channels - block * block * c
        if padding:
            with loop(padding) as channel:
                value = T.cast(T.cast(zero_point, "int32"), workload.out_dtype)
                store(y, target + block * block * c + channel, value, 1)


TEMPLATE: Template = movement_template("quantize_cpu", Quantize, build)
