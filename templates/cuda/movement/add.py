"""Addition of two equal shapes, 16 bytes of the widest operand at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import (
    ThreadConfig,
    call,
    indexable,
    items_kernel,
    scalars_parameter,
    scalars_template,
    whole_bytes,
)
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.operators.add import Add
from autoq.templates.target import Target

_SOURCE = r"""
template <int N> __device__ __forceinline__ void add(
    From<A> a, From<B> b, const float* scalars, To<OUT> y, int offset) {
  const Raw<A, N> left = load<A, N>(a + offset);
  const Raw<B, N> right = load<B, N>(b + offset);
  float value[N];
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (BITS<OUT> == 32) {
      value[i] = __fadd_rn(__uint_as_float(left.word[i]), __uint_as_float(right.word[i]));
    } else {
      const float first = number<A, N>(left, i, zero<A>(__ldg(scalars)));
      const float second = number<B, N>(right, i, zero<B>(__ldg(scalars + 2)));
      value[i] = __fadd_rn(__fmul_rn(first, __ldg(scalars + 1)),
                           __fmul_rn(second, __ldg(scalars + 3)));
    }
  }
  store<OUT, N>(y + offset, quantise<OUT, N>(value, __ldg(scalars + 4), __ldg(scalars + 5),
                                             __ldg(scalars + 6)));
}
__device__ __forceinline__ void add_vector(
    From<A> a, From<B> b, const float* scalars, To<OUT> y, int offset) {
  add<V>(a, b, scalars, y, offset);
}
__device__ __forceinline__ void add_least(
    From<A> a, From<B> b, const float* scalars, To<OUT> y, int offset) {
  add<LEAST>(a, b, scalars, y, offset);
}
"""


def matches(workload: object, target: Target) -> bool:
    """Any inputs to an integer output, or float32 throughout; rows of 4-bit values fill bytes."""
    if not isinstance(workload, Add) or target.kind != "cuda":
        return False
    inputs = {workload.a_dtype, workload.b_dtype}
    if workload.out_dtype == "float32":
        supported = inputs == {"float32"}
    else:
        supported = workload.out_dtype in INTEGER_RANGE
        supported = supported and inputs <= {*INTEGER_RANGE, "float32"}
    supported = supported and whole_bytes(workload.shape[-1], *inputs, workload.out_dtype)
    return supported and indexable(workload.shape)


def build(workload: Add, config: ThreadConfig, target: Target) -> PrimFunc:
    """The addition kernel; parameters a, b, scalars, y."""
    elements = math.prod(workload.shape)
    dtypes = (workload.a_dtype, workload.b_dtype, workload.out_dtype)
    values = 4 if "float32" in dtypes else 16
    vectors = elements // values
    # The last elements that fill no vector take a thread each, or each byte of them.
    least = 2 if any(map(is_four_bit, dtypes)) else 1
    items = vectors + elements % values // least
    types = dict(zip(("A", "B", "OUT"), dtypes, strict=True))
    functions = NumberNamespace("add", _SOURCE, types, {"V": values, "LEAST": least})
    parameters = [
        TensorSpec("a", workload.shape, workload.a_dtype),
        TensorSpec("b", workload.shape, workload.b_dtype),
        scalars_parameter(workload),
        TensorSpec("y", workload.shape, workload.out_dtype),
    ]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block * config.threads + thread
        with builder.If(item < vectors):
            with builder.Then():
                call(functions.function("add_vector"), *pointers, item * values)
            with builder.Else(), builder.If(item < items), builder.Then():
                first = (item - vectors) * least + vectors * values
                call(functions.function("add_least"), *pointers, first)

    return items_kernel(parameters, items, config.threads, target, body)


TEMPLATE = scalars_template("add_cuda", 1, matches, build)
"""Residual additions that no convolution absorbs, on every CUDA target."""
