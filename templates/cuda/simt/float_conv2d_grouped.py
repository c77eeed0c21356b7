"""Depthwise and grouped convolution of 16-bit floats on CUDA cores.

A thread computes some neighbouring channels of a few pixels of a row, in float32. Where groups have
one channel, each value of x is widened once and added to every pixel that it reaches; otherwise a
weight is read once for all pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script import tirx as T
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import (
    blocks_for,
    call,
    indexable,
    items_kernel,
)
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.simt.float_channels import FLOAT_CHANNELS
from autoq.templates.epilogue.cuda.values.activations import activation_source
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

_MOST_CHANNELS = 8
"""16 bytes of 16-bit floats."""
_MOST_SUMS = 64
"""Float32 sums of a thread, beside which its weights need registers too."""
_CHANNELS, _ENOUGH_THREADS = 4, 512
"""Channels of a thread at most, and threads of a multiprocessor at least, of the default.

With them 22 recorded spaces take 1.05 times their best on average and 1.26 at most (H200).
"""


@dataclass(frozen=True)
class FloatGroupedConfig:
    """Configuration of the kernel.

    threads: threads of a block.
    pixels: neighbouring pixels of a row that one thread computes.
    channels: neighbouring output channels that it computes of each pixel.
    """

    threads: int = 128
    pixels: int = 4
    channels: int = 8


def matches(workload: Workload, target: Target) -> bool:
    """Convolutions in groups; bfloat16 from sm_80 on, where the instruction set has it."""
    if not isinstance(workload, FloatConv2d) or target.kind != "cuda":
        return False
    dtypes = {workload.in_dtype, workload.out_dtype}
    return (
        workload.groups > 1
        and (target.compute_capability >= 80 or "bfloat16" not in dtypes)
        and indexable(*(spec.shape for spec in (*workload.inputs, *workload.outputs)))
        and indexable(workload.constants[0].shape)
    )


def space(workload: FloatConv2d, target: Target) -> Space[FloatGroupedConfig]:
    """Block sizes, pixels and channels a thread."""
    most = _most_channels(workload)
    return Space(
        FloatGroupedConfig,
        {
            "threads": (64, 128, 256),
            "pixels": (1, 2, 4, 8),
            "channels": tuple(n for n in (1, 2, 4, 8) if most % n == 0),
        },
        constraints=(sums_fit,),
    )


def sums_fit(config: FloatGroupedConfig) -> bool:
    """A thread has at most 64 sums, beside which its weights lie in registers too."""
    return config.pixels * config.channels <= _MOST_SUMS


def default(workload: FloatConv2d, target: Target) -> FloatGroupedConfig:
    """Four pixels of four channels, fewer where too few threads would be left to fill the device.

    Two pixels share what they read of x, so that channels become fewer before the last pixel.
    """
    pixels = 4
    while pixels > workload.q:
        pixels //= 2
    channels = math.gcd(_most_channels(workload), _CHANNELS)
    rows = workload.n * workload.p

    def threads() -> int:
        return rows * blocks_for(workload.q, pixels) * (workload.k // channels)

    while threads() < _ENOUGH_THREADS * target.units and (pixels > 2 or channels > 1):
        if pixels > 2:
            pixels //= 2
        else:
            channels //= 2
    return FloatGroupedConfig(pixels=pixels, channels=channels)


def _depthwise(workload: FloatConv2d) -> bool:
    """Whether each output channel reads the input channel of its own number."""
    return workload.groups == workload.c == workload.k


def _most_channels(workload: FloatConv2d) -> int:
    """Channels that a thread's vectors may have: of one group, unless groups have one each."""
    alike = workload.k if _depthwise(workload) else workload.k // workload.groups
    return math.gcd(alike, _MOST_CHANNELS)


def build(workload: FloatConv2d, config: FloatGroupedConfig, target: Target) -> PrimFunc:
    """The convolution; parameters x, residual?, weight [r, s, c / groups, k], bias and y."""
    functions = _functions(workload, config)
    parameters = [*workload.inputs, *packed(workload, config), *workload.outputs]
    vectors = workload.k // config.channels
    spans = blocks_for(workload.q, config.pixels)
    items = workload.n * workload.p * spans * vectors

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block * config.threads + thread
        acc = builder.alloc_buffer((config.pixels * config.channels,), "float32", scope="local")
        with builder.If(item < items), builder.Then():
            channel = item % vectors * config.channels
            row, q = item // vectors // spans, item // vectors % spans * config.pixels
            _span(workload, config, functions, pointers, acc, (row, q, channel))

    return items_kernel(parameters, items, config.threads, target, body)


def _span(
    workload: FloatConv2d, config: FloatGroupedConfig, functions: DeviceNamespace,
    pointers: Sequence[Any], acc: Any, place: tuple[Any, Any, Any],
) -> None:  # fmt: skip
    """Emit a thread's pixels, from column `first_q` of `row`, counted through all images."""
    row, first_q, channel = place
    x, *residual, weight, bias, y = pointers
    image, p = row // workload.p, row % workload.p
    first_w = first_q * workload.stride[1] - workload.padding[1]
    of_group = workload.c // workload.groups
    from_channel = channel // (workload.k // workload.groups) * of_group
    call(functions.function("clear"), acc.data)
    loop = builder.unroll if workload.r <= 7 else builder.serial
    with loop(workload.r) as tap:
        h = p * workload.stride[0] - workload.padding[0] + tap * workload.dilation[0]
        with builder.If(T.And(h >= 0, h < workload.h)), builder.Then():
            at = (image * workload.h + h) * workload.w * workload.c + from_channel
            where = (at, first_w, tap * (workload.s * of_group) * workload.k + channel)
            call(functions.function("accumulate_row"), acc.data, x, weight, *where)
    for pixel in range(config.pixels):
        q = first_q + pixel
        with builder.If(q < workload.q), builder.Then():
            at = (row * workload.q + q) * workload.k + channel
            sums = acc.ptr_to([pixel * config.channels])
            call(functions.function("finish"), sums, *(residual or (y,)), bias, y, channel, at)


def _functions(workload: FloatConv2d, config: FloatGroupedConfig) -> DeviceNamespace:
    reach = workload.dilation[1] * (workload.s - 1) + 1
    of_group = workload.c // workload.groups
    source = activation_source(workload.activation).replace("_@", "") + FLOAT_CHANNELS
    return DeviceNamespace(
        "float_conv2d_grouped",
        source,
        {"X": workload.in_dtype, "OUT": workload.out_dtype},
        {
            "WIDTH": workload.w,
            "CHANNELS": workload.c,
            "FILTERS": workload.k,
            "GROUP": of_group,
            "DEPTHWISE": _depthwise(workload),
            "TAPS": workload.s,
            "STRIDE": workload.stride[1],
            "DILATION": workload.dilation[1],
            "PIXELS": config.pixels,
            "V": config.channels,
            "I": math.gcd(of_group, _MOST_CHANNELS),
            "COLUMNS": (config.pixels - 1) * workload.stride[1] + reach,
            "RESIDUAL": workload.residual,
            "RESIDUAL_FIRST": workload.residual_first,
        },
    )


def pack(
    workload: FloatConv2d, config: FloatGroupedConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The weight [r, s, c / groups, k] and the bias, zeros where there is none, both float32."""
    weight = np.asarray(constants["weight"]).astype(np.float32).transpose(1, 2, 3, 0)
    bias = constants.get("bias", np.zeros(workload.k))
    return np.ascontiguousarray(weight), np.ascontiguousarray(bias, np.float32)


def packed(workload: FloatConv2d, config: FloatGroupedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    shape = (workload.r, workload.s, workload.c // workload.groups, workload.k)
    return TensorSpec("weight", shape, "float32"), TensorSpec("bias", (workload.k,), "float32")


TEMPLATE = Template(
    "float_conv2d_grouped", 1, matches, space, default, build, pack, packed, preference=10
)
"""Grouped convolution of 16-bit floats on every CUDA target."""
