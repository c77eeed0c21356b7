"""Integers to float32: element by element, or through shared memory where NHWC becomes NCHW."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.script import tirx as T
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import (
    ThreadConfig,
    blocks_for,
    call,
    indexable,
    items_kernel,
    scalars_parameter,
    scalars_template,
    thread_kernel,
    whole_bytes,
)
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.target import Target

_SOURCE = r"""
template <int N> __device__ __forceinline__ void dequantise(
    const Raw<T, N>& raw, const float* scalars, float* y, int to) {
  const Zero<T> origin = zero<T>(__ldg(scalars));
  Raw<float, N> out;
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    const float value = __fmul_rn(number<T, N>(raw, i, origin), __ldg(scalars + 1));
    out.word[i] = __float_as_uint(value);
  }
  store<float, N>(y + to, out);
}
__device__ __forceinline__ void dequantise_vector(
    From<T> x, const float* scalars, float* y, int at) {
  dequantise<4>(load<T, 4>(x + at), scalars, y, at);
}
__device__ __forceinline__ void dequantise_one(
    From<T> x, const float* scalars, float* y, int from, int to) {
  dequantise<1>(load_one<T>(x, from), scalars, y, to);
}
__device__ __forceinline__ void stage(From<T> x, unsigned* shared, int from, int to) {
  if constexpr (BITS<T> == 4) {
    #pragma unroll
    for (int i = 0; i < V; ++i)
      reinterpret_cast<unsigned char*>(shared)[to + i] = load_one<T>(x, from + i).word[0];
  } else {
    store<T, V>(reinterpret_cast<T*>(shared) + to, load<T, V>(x + from));
  }
}
__device__ __forceinline__ void synchronise() { __syncthreads(); }
__device__ __forceinline__ void emit(
    const unsigned* shared, const float* scalars, float* y, int from, int to) {
  Raw<T, 1> raw;
  raw.word[0] = reinterpret_cast<const unsigned char*>(shared)[from];
  const float value = number<T, 1>(raw, 0, zero<T>(__ldg(scalars)));
  y[to] = __fmul_rn(value, __ldg(scalars + 1));
}
"""

# Channels of a transposed tile and the bytes that its two sides hold together.
_TILE_CHANNELS = 64
_TILE_BYTES = 2048
# A row of 64 + 4 bytes is 17 banks: a warp that walks down a column meets every bank once.
_PAD_BYTES = 4


def matches(workload: object, target: Target) -> bool:
    """Any integers of 4 or 8 bits."""
    return (
        isinstance(workload, Dequantize)
        and target.kind == "cuda"
        and workload.in_dtype in INTEGER_RANGE
        and indexable(workload.x_shape)
    )


def build(workload: Dequantize, config: ThreadConfig, target: Target) -> PrimFunc:
    """The dequantisation kernel; parameters x, scalars, y."""
    vector = math.gcd(workload.c, 4)
    functions = NumberNamespace("dequantize", _SOURCE, {"T": workload.in_dtype}, {"V": vector})
    parameters = [
        TensorSpec("x", workload.x_shape, workload.in_dtype),
        scalars_parameter(workload),
        TensorSpec("y", workload.y_shape, "float32"),
    ]
    if workload.layout == "NCHW" and workload.h * workload.w > 1:
        return _transposed(workload, config.threads, vector, functions, parameters, target)
    if not whole_bytes(workload.c, workload.in_dtype):
        return _value_by_value(workload, config.threads, functions, parameters, target)
    return _elementwise(workload, config.threads, functions, parameters, target)


def _elementwise(
    workload: Dequantize,
    threads: int,
    functions: NumberNamespace,
    parameters: list[TensorSpec],
    target: Target,
) -> PrimFunc:
    """Four elements a thread, the last ones that fill no vector one."""
    elements = math.prod(workload.x_shape)
    vectors = elements // 4
    items = vectors + elements % 4

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block * threads + thread
        with builder.If(item < vectors):
            with builder.Then():
                call(functions.function("dequantise_vector"), *pointers, item * 4)
            with builder.Else(), builder.If(item < items), builder.Then():
                at = item + vectors * 3
                call(functions.function("dequantise_one"), *pointers, at, at)

    return items_kernel(parameters, items, threads, target, body)


def _value_by_value(
    workload: Dequantize,
    threads: int,
    functions: NumberNamespace,
    parameters: list[TensorSpec],
    target: Target,
) -> PrimFunc:
    """A thread for each value, where rows of an odd number of 4-bit values end within a byte."""
    items = math.prod(workload.x_shape)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block * threads + thread
        source = item // workload.c * (workload.c + 1) + item % workload.c
        with builder.If(item < items), builder.Then():
            call(functions.function("dequantise_one"), *pointers, source, item)

    return items_kernel(parameters, items, threads, target, body)


def _transposed(
    workload: Dequantize,
    threads: int,
    vector: int,
    functions: NumberNamespace,
    parameters: list[TensorSpec],
    target: Target,
) -> PrimFunc:
    """Tiles of channels by pixels: channels run fastest on the way in, pixels on the way out."""
    area = workload.h * workload.w
    pixel_values = workload.c + (0 if whole_bytes(workload.c, workload.in_dtype) else 1)
    channels = min(-(-workload.c // 4) * 4, _TILE_CHANNELS)
    pixels = max(32, _TILE_BYTES // channels // 32 * 32)
    pitch = channels + _PAD_BYTES
    across, down = blocks_for(area, pixels), blocks_for(workload.c, channels)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        x, scalars, y = pointers
        shared = builder.alloc_buffer((pixels * pitch // 4,), "uint32", scope="shared").data
        image = block // (across * down)
        first_channel = block // across % down * channels
        first_pixel = block % across * pixels
        with builder.unroll(blocks_for(pixels * channels // vector, threads)) as step:
            item = step * threads + thread
            row, column = item // (channels // vector), item % (channels // vector) * vector
            pixel, channel = first_pixel + row, first_channel + column
            inside = T.And(T.And(row < pixels, pixel < area), channel < workload.c)
            with builder.If(inside), builder.Then():
                source = (image * area + pixel) * pixel_values + channel
                call(functions.function("stage"), x, shared, source, row * pitch + column)
        call(functions.function("synchronise"))
        with builder.unroll(blocks_for(pixels * channels, threads)) as step:
            item = step * threads + thread
            row, column = item % pixels, item // pixels
            pixel, channel = first_pixel + row, first_channel + column
            inside = T.And(T.And(column < channels, pixel < area), channel < workload.c)
            with builder.If(inside), builder.Then():
                to = (image * workload.c + channel) * area + pixel
                call(functions.function("emit"), shared, scalars, y, row * pitch + column, to)

    return thread_kernel(parameters, workload.n * across * down, threads, target, body)


TEMPLATE = scalars_template("dequantize_cuda", 1, matches, build)
"""Float32 outputs of a quantised network on every CUDA target."""
