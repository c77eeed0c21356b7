"""Depthwise convolution: a thread computes four channels of a few pixels of a row.

The columns that neighbouring pixels share are loaded once. dp4a with a weight word of which one
byte is kept multiplies and adds one channel, so that a product costs one instruction and the
mask, made once, serves every pixel.
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
from autoq.templates.cuda.device.byte_products import BYTE_PRODUCTS
from autoq.templates.cuda.device.launch.thread_kernel import (
    blocks_for,
    call,
    indexable,
    items_kernel,
)
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue, split_pointers
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_SOURCE = r"""
__device__ __forceinline__ int multiply_byte(unsigned a, unsigned b, int e, int c) {
  return multiply_bytes<X, WEIGHT>(a, b & 0xffu << (8 * e), c);
}
__device__ __forceinline__ void clear(ACC* acc) {
  #pragma unroll
  for (int i = 0; i < PIXELS * V; ++i) acc[i] = 0;
}
__device__ __forceinline__ void accumulate_row(
    ACC* acc, const X* x, const WEIGHT* weight, int at, int first_w, int tap, int channel) {
  Raw<X, V> column[COLUMNS];
  #pragma unroll
  for (int i = 0; i < COLUMNS; ++i) {
    column[i] = {};
    const int w = first_w + i;
    if (w >= 0 && w < WIDTH) column[i] = load<X, V>(x + at + w * CHANNELS);
  }
  #pragma unroll
  for (int s = 0; s < TAPS; ++s) {
    const Raw<WEIGHT, V> filter = load<WEIGHT, V>(weight + (tap + s) * CHANNELS + channel);
    #pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
      const Raw<X, V>& in = column[p * STRIDE + s * DILATION];
      #pragma unroll
      for (int i = 0; i < V; ++i) {
        ACC& sum = acc[p * V + i];
        if constexpr (FLOATING) {
          sum = fmaf(__uint_as_float(in.word[i]), __uint_as_float(filter.word[i]), sum);
        } else {
          sum = multiply_byte(in.word[i / 4], filter.word[i / 4], i % 4, sum);
        }
      }
    }
  }
}
"""


@dataclass(frozen=True)
class DepthwiseConfig:
    """Configuration of the depthwise kernel.

    threads: threads of a block.
    pixels: neighbouring pixels of a row that one thread computes.
    """

    threads: int = 128
    pixels: int = 4


def matches(workload: object, target: Target) -> bool:
    """Convolutions with one input and one output channel a group."""
    if not isinstance(workload, Conv2d) or target.kind != "cuda":
        return False
    floating = workload.in_dtype == "float32"
    return (
        workload.groups == workload.c == workload.k
        and workload.in_dtype in ("int8", "uint8", "float32")
        and workload.weight_dtype == ("float32" if floating else "int8")
        and workload.epilogue.of_convolutions
        and ThreadEpilogue(workload, 1).supported
        and indexable(workload.x_shape, workload.weight_shape, workload.y_shape)
    )


def space(workload: Conv2d, target: Target) -> Space[DepthwiseConfig]:
    """Block sizes and pixels a thread."""
    return Space(DepthwiseConfig, {"threads": (64, 128, 256), "pixels": (1, 2, 4, 8)})


def default(workload: Conv2d, target: Target) -> DepthwiseConfig:
    """Four pixels, fewer where the image is narrower or too small to fill the device."""
    threads = workload.n * workload.p * workload.q * workload.c // _channels(workload)
    pixels = 4
    while pixels > 1 and (pixels > workload.q or threads < pixels * 1024 * target.units):
        pixels //= 2
    return DepthwiseConfig(pixels=pixels)


def _channels(workload: Conv2d) -> int:
    """Channels of one thread."""
    return math.gcd(workload.c, 4)


def build(workload: Conv2d, config: DepthwiseConfig, target: Target) -> PrimFunc:
    """The convolution; parameters x, residual?, weight, bias, scale?, scalars?, y.

    weight is [r, s, c]; see `ThreadEpilogue` for the rest.
    """
    epilogue = ThreadEpilogue(workload, _channels(workload))
    functions = _functions(workload, config, epilogue)
    parameters = [
        TensorSpec("x", workload.x_shape, workload.in_dtype),
        *epilogue.more_inputs(),
        *packed(workload, config),
        TensorSpec("y", workload.y_shape, workload.epilogue.out_dtype),
    ]
    vectors = workload.c // epilogue.values
    spans = blocks_for(workload.q, config.pixels)
    items = workload.n * workload.p * spans * vectors

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block * config.threads + thread
        acc_count = config.pixels * epilogue.values
        acc = builder.alloc_buffer((acc_count,), epilogue.accumulator_dtype, scope="local")
        with builder.If(item < items), builder.Then():
            channel = item % vectors * epilogue.values
            row, q = item // vectors // spans, item // vectors % spans * config.pixels
            _span(epilogue, functions, config.pixels, pointers, acc, row, q, channel)

    return items_kernel(parameters, items, config.threads, target, body)


def _functions(
    workload: Conv2d, config: DepthwiseConfig, epilogue: ThreadEpilogue
) -> DeviceNamespace:
    reach = workload.dilation[1] * (workload.s - 1) + 1
    return epilogue.namespace(
        "conv2d_depthwise",
        BYTE_PRODUCTS + _SOURCE,
        {"X": workload.in_dtype, "WEIGHT": workload.weight_dtype},
        {
            "WIDTH": workload.w,
            "CHANNELS": workload.c,
            "TAPS": workload.s,
            "STRIDE": workload.stride[1],
            "DILATION": workload.dilation[1],
            "PIXELS": config.pixels,
            "COLUMNS": (config.pixels - 1) * workload.stride[1] + reach,
        },
    )


def _span(
    epilogue: ThreadEpilogue, functions: DeviceNamespace, pixels: int, pointers: Sequence[Any],
    acc: Any, row: Any, first_q: Any, channel: Any,
) -> None:  # fmt: skip
    """Emit `pixels` pixels from column first_q of `row`, counted through all images."""
    workload = epilogue.workload
    x, weight, constants, y = split_pointers(epilogue, pointers)
    image, p = row // workload.p, row % workload.p
    first_w = first_q * workload.stride[1] - workload.padding[1]
    call(functions.function("clear"), acc.data)
    loop = builder.unroll if workload.r <= 7 else builder.serial
    with loop(workload.r) as tap:
        h = p * workload.stride[0] - workload.padding[0] + tap * workload.dilation[0]
        with builder.If(T.And(h >= 0, h < workload.h)), builder.Then():
            at = (image * workload.h + h) * workload.w * workload.c + channel
            place = (at, first_w, tap * workload.s, channel)
            call(functions.function("accumulate_row"), acc.data, x, weight, *place)
    for pixel in range(pixels):
        q = first_q + pixel
        with builder.If(q < workload.q), builder.Then():
            at = (row * workload.q + q) * workload.c + channel
            place = (epilogue.bias_row(p, q), channel, at)
            accumulators = acc.ptr_to([pixel * epilogue.values])
            call(functions.function("finish"), accumulators, *constants, y, *place)


def pack(workload: Conv2d, config: DepthwiseConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The weight [r, s, c], then the epilogue's constants."""
    weight = np.asarray(constants["weight"]).reshape(workload.weight_shape)
    filters = np.ascontiguousarray(weight[..., 0].transpose(1, 2, 0))
    epilogue = ThreadEpilogue(workload, _channels(workload))
    return (filters, *epilogue.pack(weight, constants))


def packed(workload: Conv2d, config: DepthwiseConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    shape = (workload.r, workload.s, workload.c)
    constants = ThreadEpilogue(workload, _channels(workload)).constant_parameters()
    return (TensorSpec("weight", shape, workload.weight_dtype), *constants)


TEMPLATE = Template(
    "conv2d_depthwise", 1, matches, space, default, build, pack, packed,
    tunable=False, preference=10,
)  # fmt: skip
"""Depthwise convolution on every CUDA target."""
