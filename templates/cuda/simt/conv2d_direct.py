"""Convolution and matrix product without tensor cores: correct for every workload and target.

A thread computes up to four output channels of a few pixels; neighbouring threads take
neighbouring channels, so that weights, packed with their output channels innermost, are read in
whole lines and an activation is broadcast to the warp. Bytes are multiplied four at a time with
dp4a where a group has a multiple of four input channels.
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
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

# `at` holds a pixel's first channel, or -1 where the filter tap falls outside the image.
_SOURCE = r"""
__device__ __forceinline__ void place(int* at, int offset) { *at = offset; }
__device__ __forceinline__ void clear(ACC* acc) {
  #pragma unroll
  for (int i = 0; i < PIXELS * V; ++i) acc[i] = 0;
}
__device__ __forceinline__ void accumulate(
    ACC* acc, const X* x, const WEIGHT* weight, const int* at, int tap, int k) {
  for (int c = 0; c < GROUP_C; c += STEP) {
    Raw<X, STEP> in[PIXELS];
    #pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
      in[p] = {};
      if (at[p] >= 0) in[p] = load<X, STEP>(x + at[p] + c);
    }
    #pragma unroll
    for (int j = 0; j < STEP; j += PACK) {
      const int row = (tap * GROUP_C + c + j) / PACK;
      const Raw<WEIGHT, V * PACK> filter = load<WEIGHT, V * PACK>(weight + (row * K + k) * PACK);
      #pragma unroll
      for (int p = 0; p < PIXELS; ++p) {
        #pragma unroll
        for (int i = 0; i < V; ++i) {
          ACC& sum = acc[p * V + i];
          if constexpr (FLOATING) {
            sum = fmaf(__uint_as_float(in[p].word[j]), __uint_as_float(filter.word[i]), sum);
          } else if constexpr (PACK == 4) {
            sum = multiply_bytes<X, WEIGHT>(in[p].word[j / 4], filter.word[i], sum);
          } else {
            const int value = (X)(in[p].word[j / 4] >> (8 * (j % 4)));
            sum += value * (WEIGHT)(filter.word[i / 4] >> (8 * (i % 4)));
          }
        }
      }
    }
  }
}
"""


@dataclass(frozen=True)
class DirectConfig:
    """Configuration of the direct kernel.

    threads: threads of a block.
    pixels: pixels that one thread computes.
    """

    threads: int = 128
    pixels: int = 4


def matches(workload: object, target: Target) -> bool:
    """Every convolution and matrix product of bytes or float32 whose arrays have int32 indices."""
    if not isinstance(workload, Conv2d | Gemm) or target.kind != "cuda":
        return False
    if isinstance(workload, Conv2d) and not workload.epilogue.of_convolutions:
        return False
    conv = as_conv2d(workload)
    floating = conv.in_dtype == "float32"
    dtypes = conv.in_dtype in ("int8", "uint8", "float32")
    dtypes = dtypes and conv.weight_dtype == ("float32" if floating else "int8")
    supported = ThreadEpilogue(conv, 1).supported
    return dtypes and supported and indexable(conv.x_shape, conv.weight_shape, conv.y_shape)


def as_conv2d(workload: Conv2d | Gemm) -> Conv2d:
    """The convolution that a workload is."""
    return workload.as_conv2d() if isinstance(workload, Gemm) else workload


def space(workload: Conv2d | Gemm, target: Target) -> Space[DirectConfig]:
    """Block sizes and pixels a thread."""
    return Space(DirectConfig, {"threads": (64, 128, 256), "pixels": (1, 2, 4, 8)})


def default(workload: Conv2d | Gemm, target: Target) -> DirectConfig:
    """As many pixels a thread, at most 4, as leave 1024 threads for every multiprocessor."""
    conv = as_conv2d(workload)
    threads = conv.n * conv.p * conv.q * conv.k // _channels(conv)
    pixels = 4
    while pixels > 1 and threads < pixels * 1024 * target.units:
        pixels //= 2
    return DirectConfig(pixels=pixels)


def _channels(conv: Conv2d) -> int:
    """Output channels of one thread, all of one group."""
    return math.gcd(conv.k // conv.groups, 4)


def _packing(conv: Conv2d) -> int:
    """Input channels that lie together in a packed weight: 4 for dp4a."""
    return 4 if conv.in_dtype != "float32" and conv.c // conv.groups % 4 == 0 else 1


def build(workload: Conv2d | Gemm, config: DirectConfig, target: Target) -> PrimFunc:
    """The convolution; parameters x, residual?, weight, bias, scale?, scalars?, y.

    weight is [r, s, c / groups / packing, k, packing]; see `ThreadEpilogue` for the rest.
    """
    conv = as_conv2d(workload)
    epilogue = ThreadEpilogue(conv, _channels(conv))
    functions = _functions(conv, config, epilogue)
    parameters = [
        workload.inputs[0],
        *workload.inputs[1:],
        *packed(workload, config),
        *workload.outputs,
    ]
    vectors = conv.k // epilogue.values
    items = blocks_for(conv.n * conv.p * conv.q, config.pixels) * vectors

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block * config.threads + thread
        acc_count = config.pixels * epilogue.values
        acc = builder.alloc_buffer((acc_count,), epilogue.accumulator_dtype, scope="local")
        at = builder.alloc_buffer((config.pixels,), "int32", scope="local")
        with builder.If(item < items), builder.Then():
            k = item % vectors * epilogue.values
            first = item // vectors * config.pixels
            _pixels(epilogue, functions, config.pixels, pointers, acc, at, first, k)

    return items_kernel(parameters, items, config.threads, target, body)


def _functions(conv: Conv2d, config: DirectConfig, epilogue: ThreadEpilogue) -> DeviceNamespace:
    group_c = conv.c // conv.groups
    packing = _packing(conv)
    step = math.gcd(group_c, 16 if packing == 4 else 4 if epilogue.floating else 1)
    return epilogue.namespace(
        "conv2d_direct",
        BYTE_PRODUCTS + _SOURCE,
        {"X": conv.in_dtype, "WEIGHT": conv.weight_dtype},
        {
            "GROUP_C": group_c,
            "STEP": step,
            "PACK": packing,
            "K": conv.k,
            "PIXELS": config.pixels,
        },
    )


def _pixels(
    epilogue: ThreadEpilogue, functions: DeviceNamespace, pixels: int, pointers: Sequence[Any],
    acc: Any, at: Any, first: Any, k: Any,
) -> None:  # fmt: skip
    """Emit output channels k.. of `pixels` pixels from `first`, counted through all images."""
    conv = epilogue.workload
    x, weight, constants, y = split_pointers(epilogue, pointers)
    group_k = conv.k // conv.groups
    group = k // group_k * (conv.c // conv.groups)
    call(functions.function("clear"), acc.data)
    with builder.serial(conv.r) as tap_h, builder.serial(conv.s) as tap_w:
        for pixel in range(pixels):
            position = first + pixel
            image, p, q = _split(conv, position)
            h = p * conv.stride[0] - conv.padding[0] + tap_h * conv.dilation[0]
            w = q * conv.stride[1] - conv.padding[1] + tap_w * conv.dilation[1]
            rows = T.And(T.And(h >= 0, h < conv.h), image < conv.n)
            inside = T.And(rows, T.And(w >= 0, w < conv.w))
            offset = ((image * conv.h + h) * conv.w + w) * conv.c + group
            call(functions.function("place"), at.ptr_to([pixel]), T.Select(inside, offset, -1))
        tap = tap_h * conv.s + tap_w
        call(functions.function("accumulate"), acc.data, x, weight, at.data, tap, k)
    for pixel in range(pixels):
        position = first + pixel
        with builder.If(position < conv.n * conv.p * conv.q), builder.Then():
            _, p, q = _split(conv, position)
            place = (epilogue.bias_row(p, q), k, position * conv.k + k)
            accumulators = acc.ptr_to([pixel * epilogue.values])
            call(functions.function("finish"), accumulators, *constants, y, *place)


def _split(conv: Conv2d, position: Any) -> tuple[Any, Any, Any]:
    """Image, row and column of an output pixel counted through all images."""
    area = conv.p * conv.q
    return position // area, position % area // conv.q, position % conv.q


def pack(
    workload: Conv2d | Gemm, config: DirectConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The packed weight, then the epilogue's constants."""
    conv = as_conv2d(workload)
    weight = np.asarray(constants["weight"]).reshape(conv.weight_shape)
    k, r, s, c = conv.weight_shape
    packing = _packing(conv)
    filters = weight.reshape(k, r, s, c // packing, packing).transpose(1, 2, 3, 0, 4)
    epilogue = ThreadEpilogue(conv, _channels(conv))
    return (np.ascontiguousarray(filters), *epilogue.pack(weight, constants))


def packed(workload: Conv2d | Gemm, config: DirectConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    conv = as_conv2d(workload)
    packing = _packing(conv)
    shape = (conv.r, conv.s, conv.c // conv.groups // packing, conv.k, packing)
    constants = ThreadEpilogue(conv, _channels(conv)).constant_parameters()
    return (TensorSpec("weight", shape, conv.weight_dtype), *constants)


TEMPLATE = Template(
    "conv2d_direct", 1, matches, space, default, build, pack, packed, tunable=False, preference=1
)
"""The convolution and matrix product that is there when nothing faster matches."""
