"""Batched products of two activations of bytes without tensor cores, on every GPU.

A thread computes up to four neighbouring columns of a few rows of one y. Where k lies last in both
factors and is a multiple of four, bytes are multiplied four at a time with dp4a and the zero points
are taken off the sums; else each byte less its zero point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_SOURCE = r"""
template <typename B> __device__ __forceinline__ int add_bytes(unsigned a, int c) {
  return multiply_bytes<B, unsigned char>(a, 0x01010101u, c);
}
__device__ __forceinline__ void multiply_words(
    ACC* acc, const X* x, const OTHER* other, int x_zero, int other_zero) {
  int of_x[ROWS] = {}, of_other[V] = {};
  for (int k = 0; k < K; k += 4) {
    unsigned columns[V];
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      columns[i] = load<OTHER, 4>(other + i * OTHER_STEP + k).word[0];
      of_other[i] = add_bytes<OTHER>(columns[i], of_other[i]);
    }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const unsigned row = load<X, 4>(x + r * X_STEP + k).word[0];
      of_x[r] = add_bytes<X>(row, of_x[r]);
      #pragma unroll
      for (int i = 0; i < V; ++i) {
        acc[r * V + i] = multiply_bytes<X, OTHER>(row, columns[i], acc[r * V + i]);
      }
    }
  }
  #pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      acc[r * V + i] += x_zero * (K * other_zero - of_other[i]) - other_zero * of_x[r];
    }
  }
}
__device__ __forceinline__ void multiply_values(
    ACC* acc, const X* x, const OTHER* other, int x_zero, int other_zero) {
  for (int k = 0; k < K; ++k) {
    int columns[V];
    if constexpr (K_LAST) {
      #pragma unroll
      for (int i = 0; i < V; ++i) columns[i] = (int)other[i * OTHER_STEP + k] - other_zero;
    } else {
      const Raw<OTHER, V> values = load<OTHER, V>(other + k * OTHER_STEP);
      #pragma unroll
      for (int i = 0; i < V; ++i) {
        columns[i] = (int)(OTHER)(values.word[0] >> (8 * i)) - other_zero;
      }
    }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int value = (int)x[r * X_STEP + k] - x_zero;
      #pragma unroll
      for (int i = 0; i < V; ++i) acc[r * V + i] += value * columns[i];
    }
  }
}
__device__ __forceinline__ void multiply(
    ACC* acc, const X* x, const OTHER* other, const int* zero_points, int x_at, int other_at) {
  #pragma unroll
  for (int i = 0; i < ROWS * V; ++i) acc[i] = 0;
  x += x_at, other += other_at;
  if constexpr (K_LAST && K % 4 == 0) {
    multiply_words(acc, x, other, zero_points[0], zero_points[1]);
  } else {
    multiply_values(acc, x, other, zero_points[0], zero_points[1]);
  }
}
"""


@dataclass(frozen=True)
class BatchedDirectConfig:
    """Configuration of the direct kernel.

    threads: threads of a block.
    rows: rows of y that one thread computes, a divisor of m.
    """

    threads: int = 128
    rows: int = 4


def matches(workload: object, target: Target) -> bool:
    """Every batch of products of bytes whose arrays have int32 indices."""
    return (
        isinstance(workload, BatchedGemm)
        and target.kind == "cuda"
        and not workload.floating
        and ThreadEpilogue(_rows_as_conv2d(workload), 1).supported
        and indexable(workload.x_shape, workload.other_shape, workload.y_shape)
    )


def _rows_as_conv2d(workload: BatchedGemm) -> Conv2d:
    """What an epilogue knows of the product: rows are images of one pixel, columns channels."""
    return Conv2d(
        n=workload.products * workload.m, h=1, w=1, c=workload.k, k=workload.n, r=1, s=1,
        in_dtype=workload.in_dtype, epilogue=workload.epilogue,
    )  # fmt: skip


def _epilogue(workload: BatchedGemm) -> ThreadEpilogue:
    return ThreadEpilogue(_rows_as_conv2d(workload), math.gcd(workload.n, 4))


def space(workload: BatchedGemm, target: Target) -> Space[BatchedDirectConfig]:
    """Block sizes and rows a thread."""
    rows = tuple(count for count in (1, 2, 4, 8) if workload.m % count == 0)
    return Space(BatchedDirectConfig, {"threads": (64, 128, 256), "rows": rows})


def default(workload: BatchedGemm, target: Target) -> BatchedDirectConfig:
    """As many rows a thread, at most 4, as leave 1024 threads for every multiprocessor."""
    rows = math.gcd(workload.m, 4)
    threads = workload.products * workload.m * workload.n // math.gcd(workload.n, 4)
    while rows > 1 and threads < rows * 1024 * target.units:
        rows //= 2
    return BatchedDirectConfig(rows=rows)


def build(workload: BatchedGemm, config: BatchedDirectConfig, target: Target) -> PrimFunc:
    """The products; parameters x, other, residual?, zero_points, bias, scale?, scalars?, y.

    zero_points is int32 [2]; see `ThreadEpilogue` for the rest, whose bias is 0.
    """
    epilogue = _epilogue(workload)
    x_step, other_step, y_step = (
        workload.row_places(order, 0)[1]
        for order in (workload.x_order, workload.other_order, workload.y_order)
    )
    last = workload.other_order.endswith("k")
    functions = epilogue.namespace(
        "batched_gemm_direct",
        BYTE_PRODUCTS + _SOURCE,
        {"X": workload.in_dtype, "OTHER": workload.other_dtype},
        {"K": workload.k, "ROWS": config.rows, "X_STEP": x_step, "OTHER_STEP": other_step,
         "K_LAST": last},
    )  # fmt: skip
    parameters = [*workload.inputs, *packed(workload, config), *workload.outputs]
    vectors, blocks = workload.n // epilogue.values, blocks_for(workload.m, config.rows)
    items = workload.products * blocks * vectors

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block * config.threads + thread
        acc = builder.alloc_buffer((config.rows * epilogue.values,), "int32", scope="local")
        x, other, *between, y = pointers
        residual, (zero_points, *constants) = between[:-count], between[-count:]
        with builder.If(item < items), builder.Then():
            column = item % vectors * epilogue.values
            pair, row = item // vectors // blocks, item // vectors % blocks * config.rows
            x_at = workload.row_places(workload.x_order, pair)[0] + row * x_step
            other_at = workload.row_places(workload.other_order, pair)[0]
            other_at = other_at + column * (other_step if last else 1)
            places = (x_at, other_at)
            call(functions.function("multiply"), acc.data, x, other, zero_points, *places)
            y_at = workload.row_places(workload.y_order, pair)[0] + row * y_step + column
            for index in range(config.rows):
                accumulators = acc.ptr_to([index * epilogue.values])
                place = (0, column, y_at + index * y_step)
                call(functions.function("finish"), accumulators, *residual, *constants, y, *place)

    count = len(packed(workload, config))
    return items_kernel(parameters, items, config.threads, target, body)


def pack(
    workload: BatchedGemm, config: BatchedDirectConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The zero points, then the epilogue's constants."""
    zero_points = [int(constants.get(f"{name}_zero_point", 0)) for name in ("x", "other")]
    columns = {"bias": np.zeros(workload.n, np.int32), **constants, "x_zero_point": 0}
    if "scale" in constants:
        columns["scale"] = np.repeat(np.asarray(constants["scale"], np.float32), workload.n)
    weight = np.zeros(_rows_as_conv2d(workload).weight_shape, np.int8)
    return (np.array(zero_points, np.int32), *_epilogue(workload).pack(weight, columns))


def packed(workload: BatchedGemm, config: BatchedDirectConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    zero_points = TensorSpec("zero_points", (2,), "int32")
    return (zero_points, *_epilogue(workload).constant_parameters())


TEMPLATE = Template("batched_gemm_direct", 1, matches, space, default, build, pack, packed)
"""Products of two activations in batches, an output a thread."""
