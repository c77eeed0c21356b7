"""NHWC to NHWCnc and back, 16 bytes of channels at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.layout import BLOCK_IMAGES, LAYOUTS, NHWC, ROW_BYTES, block_channels
from autoq.templates.arrays.storage import stored, stored_bytes
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template, pack_nothing, packed_nothing
from autoq.templates.cuda.device.launch.thread_kernel import (
    ThreadConfig,
    blocks_for,
    call,
    indexable,
    thread_default,
    thread_kernel,
    thread_space,
)
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.operators.relayout import Relayout
from autoq.templates.target import Target

_SOURCE = r"""
__device__ __forceinline__ void move(const T* x, T* y, int from, int to) {
  store<T, 16>(y + to, load<T, 16>(x + from));
}
"""

# Most loads under way in a thread, and blocks a multiprocessor should have before there are more
# than one: 8 x 7x7x512 bytes take 1.8 us in two blocks of an H200.
_MOST_UNITS = 4
_BLOCKS_EACH = 2


def matches(workload: object, target: Target) -> bool:
    """Every re-layout on CUDA whose elements have int32 indices."""
    return isinstance(workload, Relayout) and target.kind == "cuda" and indexable(workload.x_shape)


def nhwc_unit(workload: Relayout, unit: Any) -> Any:
    """Index in NHWC of a 16-byte unit, given that in NHWCnc; integers and expressions alike."""
    channels = workload.c // block_channels(workload.in_dtype)
    area = workload.h * workload.w
    image, rest = unit % BLOCK_IMAGES, unit // BLOCK_IMAGES
    channel, pixel = rest % channels, rest // channels
    block, pixel = pixel // area, pixel % area
    return ((block * BLOCK_IMAGES + image) * area + pixel) * channels + channel


def build(workload: Relayout, config: ThreadConfig, target: Target) -> PrimFunc:
    """The kernel; parameters x, y.

    Threads follow NHWCnc in both directions: a warp then moves 512 consecutive bytes of it, and
    64 consecutive bytes of each of 8 images in NHWC. Following NHWC instead, it would meet 16
    bytes in every block of 128.
    """
    units = stored_bytes(workload.x_shape, workload.in_dtype) // ROW_BYTES
    functions = DeviceNamespace(
        "relayout", _SOURCE, {"T": stored(workload.x_shape, workload.in_dtype)[1]}, {}
    )
    parameters = [
        TensorSpec("x", workload.x_shape, workload.in_dtype),
        TensorSpec("y", workload.y_shape, workload.in_dtype),
    ]
    enough = units // (config.threads * _BLOCKS_EACH * target.units)
    each = max(1, min(_MOST_UNITS, enough))

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        with builder.unroll(each) as step:
            unit = (block * each + step) * config.threads + thread
            with builder.If(unit < units), builder.Then():
                blocked = unit * ROW_BYTES
                plain = nhwc_unit(workload, unit) * ROW_BYTES
                ends = (plain, blocked) if workload.in_layout == NHWC else (blocked, plain)
                call(functions.function("move"), *pointers, *ends)

    blocks = blocks_for(units, config.threads * each)
    return thread_kernel(parameters, blocks, config.threads, target, body)


TEMPLATE = Template(
    "relayout_cuda", 1, matches, thread_space, thread_default, build, pack_nothing,
    packed_nothing, tunable=False, layouts=frozenset(LAYOUTS),
)  # fmt: skip
"""Changes of layout between convolutions, on every CUDA target."""
