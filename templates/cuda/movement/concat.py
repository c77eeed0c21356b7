"""Channel concatenation: every input has blocks of its own, and rows move in the widest vectors."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script import tirx as T
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.thread_kernel import (
    ThreadConfig,
    blocks_for,
    call,
    indexable,
    scalars_template,
    thread_kernel,
    whole_bytes,
)
from autoq.templates.cuda.device.memory.packed_values import vector_values
from autoq.templates.element import INTEGER_RANGE
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.operators.concat import Concat
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_SOURCE = r"""
__device__ __forceinline__ void move(
    From<T> x, const float* scalars, const float* factor, const float* offset,
    const float* scaled, To<OUT> y, To<SCALED> z, int from, int to, int channel) {
  const Raw<T, V> raw = load<T, V>(x + from);
  Raw<OUT, V> result;
  if constexpr (REQUANTIZE) {
    const float* row = scalars + 5 * INPUT;
    const Zero<T> origin = zero<T>(__ldg(row));
    float value[V];
    #pragma unroll
    for (int i = 0; i < V; ++i)
      value[i] = __fmul_rn(number<T, V>(raw, i, origin), __ldg(row + 1));
    result = quantise<OUT, V>(value, __ldg(row + 2), __ldg(row + 3), __ldg(row + 4));
    store<OUT, V>(y + to, result);
  } else {
    result = reinterpret_cast<const Raw<OUT, V>&>(raw);  // the two are of one type
    store<T, V>(reinterpret_cast<T*>(y + to), raw);
  }
  if constexpr (SCALES) {
    const Zero<OUT> origin = zero<OUT>(__ldg(scaled));
    float value[V];
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      const float product = __fmul_rn(number<OUT, V>(result, i, origin),
                                      __ldg(factor + channel + i));
      value[i] = __fadd_rn(product, __ldg(offset + channel + i));
    }
    store<SCALED, V>(z + to, quantise<SCALED, V>(value, __ldg(scaled + 1), __ldg(scaled + 2),
                                                 __ldg(scaled + 3)));
  }
}
"""


_MOST_SCALED = 8
"""Values of a thread that have factors of their own: more of them take too many registers."""


@dataclass(frozen=True)
class _Segment:
    """One input: its vectors of `values` channels, its first output channel and first block."""

    function: DeviceFunction
    channels: int
    first_channel: int
    values: int
    first_block: int
    items: int


def matches(workload: object, target: Target) -> bool:
    """Inputs that are copied as they are or requantised; rows of 4-bit values fill bytes."""
    if not isinstance(workload, Concat) or target.kind != "cuda":
        return False
    inputs = zip(workload.channels, workload.in_dtypes, workload.requantize, strict=True)
    for channels, dtype, requantize in inputs:
        known = dtype in (*INTEGER_RANGE, "float32")
        fits = workload.out_dtype in INTEGER_RANGE if requantize else dtype == workload.out_dtype
        if not known or not fits or not whole_bytes(channels, dtype, workload.out_dtype):
            return False
    return indexable(workload.y_shape)


def build(workload: Concat, config: ThreadConfig, target: Target) -> PrimFunc:
    """The concatenation kernel; parameters x0, x1, ..., constants, y, and z where it scales."""
    segments = _segments(workload, config.threads)
    total = workload.y_shape[1]
    last = segments[-1]
    blocks = last.first_block + blocks_for(last.items, config.threads)
    parameters = [*workload.inputs, *workload.constants, *workload.outputs]
    count = len(segments)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        inputs, scalars, rest = pointers[:count], pointers[count], pointers[count + 1 :]
        # Without a second output its operands are any pointers.
        factor, offset, scaled, y, z = rest if len(rest) > 1 else (*[scalars] * 3, *rest * 2)
        ends = [*(segment.first_block for segment in segments[1:]), blocks]
        for x, segment, end in zip(inputs, segments, ends, strict=True):
            item = (block - segment.first_block) * config.threads + thread
            vectors = segment.channels // segment.values
            mine = T.And(block >= segment.first_block, block < end)
            with builder.If(T.And(mine, item < segment.items)), builder.Then():
                row, channel = item // vectors, item % vectors * segment.values
                channel = segment.first_channel + channel
                places = item * segment.values, row * total + channel, channel
                operands = (x, scalars, factor, offset, scaled, y, z)
                call(segment.function, *operands, *places)

    return thread_kernel(parameters, blocks, config.threads, target, body)


def _segments(workload: Concat, threads: int) -> list[_Segment]:
    total = workload.y_shape[1]
    firsts = itertools.accumulate(workload.channels, initial=0)
    segments: list[_Segment] = []
    block = 0
    for index, (channels, first) in enumerate(zip(workload.channels, firsts, strict=False)):
        dtype, requantize = workload.in_dtypes[index], workload.requantize[index]
        aligned = math.gcd(channels, first, total)
        values = vector_values(aligned, dtype, workload.out_dtype)
        if workload.scaled_dtype:
            values = min(values, _MOST_SCALED)
        namespace = NumberNamespace(
            "concat",
            _SOURCE,
            {"T": dtype, "OUT": workload.out_dtype, "SCALED": workload.scaled_dtype or "int8"},
            {
                "V": values,
                "REQUANTIZE": requantize,
                "INPUT": index,
                "SCALES": bool(workload.scaled_dtype),
            },
        )
        items = workload.outer * channels // values
        segments.append(_Segment(namespace.function("move"), channels, first, values, block, items))
        block += blocks_for(items, threads)
    return segments


def pack(workload: Concat, config: ThreadConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The constants as they are, float32."""
    return tuple(
        np.ascontiguousarray(constants[spec.name], np.float32) for spec in workload.constants
    )


TEMPLATE = dataclasses.replace(scalars_template("concat_cuda", 1, matches, build), pack=pack)
"""Concatenation of any number of inputs on every CUDA target."""
