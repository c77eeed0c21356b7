"""Pooling limited by memory: a patch of outputs per block, or blocks that share a window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import (
    blocks_for,
    call,
    indexable,
    local_words,
    pack_scalars_operand,
    packed_scalars_operand,
    scalars_parameter,
    thread_kernel,
    whole_bytes,
)
from autoq.templates.cuda.device.memory.packed_values import vector_values
from autoq.templates.cuda.movement.pool_whole import whole_window_kernel
from autoq.templates.cuda.movement.pool_window import PoolWindow
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.target import Target

# Pixels of a single window from which blocks share it.
_SHARED_PIXELS = 16
# Pixels of a single window from which its blocks are large.
_LARGE_IMAGE = 784
# Taps of a window up to which all its loads are issued without a loop.
_UNROLLED_TAPS = 64


@dataclass(frozen=True)
class PoolConfig:
    """Configuration of a pooling kernel.

    threads: most threads of a block.
    tile_w: most output columns of a block's patch.
    """

    threads: int = 256
    tile_w: int = 8


def matches(workload: object, target: Target) -> bool:
    """Any pooling whose windows all touch the image, float32 or integers throughout.

    Of 4-bit values the channels fill whole bytes.
    """
    if not isinstance(workload, Pool2d) or target.kind != "cuda":
        return False
    pair = (workload.in_dtype, workload.out_dtype)
    integers = all(name in INTEGER_RANGE for name in pair)
    if not integers and pair != ("float32", "float32"):
        return False
    if workload.kind == "max" and not workload.requantize and pair[0] != pair[1]:
        return False
    return (
        _touches(workload)
        and whole_bytes(workload.c, *pair)
        and indexable(workload.x_shape, workload.y_shape)
    )


def _touches(workload: Pool2d) -> bool:
    """Whether no window lies outside the image altogether."""
    (top, left, _, _), (stride_h, stride_w) = workload.padding, workload.stride
    return (
        top < workload.r
        and left < workload.s
        and (workload.p - 1) * stride_h - top < workload.h
        and (workload.q - 1) * stride_w - left < workload.w
    )


def space(workload: Pool2d, target: Target) -> Space[PoolConfig]:
    """Block sizes and patch widths."""
    return Space(PoolConfig, {"threads": (64, 128, 256, 512), "tile_w": (1, 2, 4, 8, 16, 32)})


def default(workload: Pool2d, target: Target) -> PoolConfig:
    """Patches of eight columns, whose windows share rows in L1, in enough blocks for the device."""
    if _is_shared(workload):
        return PoolConfig(threads=256 if workload.r * workload.s < _LARGE_IMAGE else 512)
    threads = 256
    vectors = math.prod(workload.y_shape) // vector_values(workload.c, workload.in_dtype)
    while threads > 64 and vectors < 2 * target.units * threads:
        threads //= 2
    return PoolConfig(threads=threads)


def build(workload: Pool2d, config: PoolConfig, target: Target) -> PrimFunc:
    """The pooling kernel; parameters x, scalars, y."""
    if _is_shared(workload):
        return whole_window_kernel(workload, _parameters(workload), config.threads, target)
    return _patches(workload, config, target)


def _is_shared(workload: Pool2d) -> bool:
    """Whether the threads of several blocks share the window, the only one of an image."""
    return workload.p * workload.q == 1 and workload.r * workload.s >= _SHARED_PIXELS


def _parameters(workload: Pool2d) -> list[TensorSpec]:
    return [
        TensorSpec("x", workload.x_shape, workload.in_dtype),
        scalars_parameter(workload),
        TensorSpec("y", workload.y_shape, workload.out_dtype),
    ]


def _patches(workload: Pool2d, config: PoolConfig, target: Target) -> PrimFunc:
    """One thread for one output vector; blocks take patches of rows and columns of outputs.

    Rows are counted through all images, so that small images fill a block too.
    """
    values = vector_values(workload.c, workload.in_dtype)
    vectors = workload.c // values
    lanes = min(vectors, config.threads)
    tile_w = min(workload.q, config.tile_w, config.threads // lanes)
    tile_h = min(workload.n * workload.p, config.threads // (lanes * tile_w))
    grid = (
        blocks_for(workload.n * workload.p, tile_h),
        blocks_for(workload.q, tile_w),
        blocks_for(vectors, lanes),
    )
    window = PoolWindow(workload, values)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        row = block // (grid[2] * grid[1]) * tile_h + thread // (lanes * tile_w)
        q = block // grid[2] % grid[1] * tile_w + thread // lanes % tile_w
        vector = block % grid[2] * lanes + thread % lanes
        acc = local_words(window.words)
        inside = (row < workload.n * workload.p, q < workload.q, vector < vectors)
        with builder.If(T.And(T.And(*inside[:2]), inside[2])), builder.Then():
            _one_window(workload, window, acc, pointers, row, q, vector * values)

    threads = lanes * tile_w * tile_h
    return thread_kernel(_parameters(workload), math.prod(grid), threads, target, body)


def _one_window(
    workload: Pool2d, window: PoolWindow, acc: Any, pointers: Sequence[Any], row: Any, q: Any,
    channel: Any,
) -> None:  # fmt: skip
    """Emit the whole window of output column q of `row`, counted through all images."""
    x, scalars, y = pointers
    image, p = row // workload.p, row % workload.p
    first_h = p * workload.stride[0] - workload.padding[0]
    first_w = q * workload.stride[1] - workload.padding[1]
    call(window.start, acc)
    loop = builder.unroll if workload.r * workload.s <= _UNROLLED_TAPS else builder.serial
    with loop(workload.r) as tap_h, loop(workload.s) as tap_w:
        h, w = first_h + tap_h, first_w + tap_w
        # A maximum may count a pixel of its window twice, so outside pixels move to the edge.
        near_h, near_w = _clamp(h, workload.h), _clamp(w, workload.w)
        within = T.And(h == near_h, w == near_w)
        offset = ((image * workload.h + near_h) * workload.w + near_w) * workload.c + channel
        call(window.accumulate, acc, x, offset, T.Cast("int32", within))
    rows = _overlap(first_h, workload.r, workload.h)
    columns = _overlap(first_w, workload.s, workload.w)
    divisor = workload.r * workload.s if workload.count_include_pad else rows * columns
    place = (row * workload.q + q) * workload.c + channel
    call(window.finish, acc, rows * columns, divisor, scalars, y, place)


def _clamp(position: Any, size: int) -> Any:
    return T.max(T.min(position, size - 1), 0)


def _overlap(first: Any, length: int, size: int) -> Any:
    """Positions of `[first, first + length)` inside `[0, size)`."""
    return T.min(first + length, size) - T.max(first, 0)


TEMPLATE = Template(
    "pool2d_cuda",
    1,
    matches,
    space,
    default,
    build,
    pack_scalars_operand,
    packed_scalars_operand,
    tunable=False,
)
"""Max and average pooling on every CUDA target."""
