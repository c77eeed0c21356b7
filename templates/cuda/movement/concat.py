"""Channel concatenation: every part has blocks of its own, and rows move in the widest vectors."""

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

from autoq.templates.arrays.element import INTEGER_RANGE
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
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.operators.concat import Concat
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_SOURCE = r"""
// V channels from `channel` on of all channels: a factor and an offset each.
__device__ __forceinline__ void constants_of(
    const float* of_channels, int channel, float (&value)[V]) {
  const Raw<float, V> raw = load<float, V>(of_channels + channel);
  #pragma unroll
  for (int i = 0; i < V; ++i) value[i] = __uint_as_float(raw.word[i]);
}

// Vector `at` of the rows `row`, `row + STEP`, ... below OUTER.
__device__ __forceinline__ void move(
    From<T> x, const float* scalars, const float* factor, const float* offset,
    const float* scaled, To<OUT> y, To<SCALED> z, int row, int at) {
  Raw<T, V> raw[ROWS];
  #pragma unroll
  for (int r = 0; r < ROWS; ++r)
    if (r == 0 || row + r * STEP < OUTER)
      raw[r] = load<T, V>(x + ((row + r * STEP) * WIDTH + BEGIN + at * V));
  const int channel = FIRST + at * V;
  const float* numbers = scalars + 5 * INPUT;
  const Zero<T> of_x = zero<T>(REQUANTIZE ? __ldg(numbers) : 0.f);
  const Zero<OUT> of_y = zero<OUT>(SCALES ? __ldg(scaled) : 0.f);
  float factors[V], offsets[V];
  if constexpr (SCALES) {
    constants_of(factor, channel, factors);
    constants_of(offset, channel, offsets);
  }
  #pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (r > 0 && row + r * STEP >= OUTER) break;
    const int to = (row + r * STEP) * TOTAL + channel;
    Raw<OUT, V> result;
    if constexpr (REQUANTIZE) {
      const float scale = __ldg(numbers + 1);
      float value[V];
      #pragma unroll
      for (int i = 0; i < V; ++i) value[i] = __fmul_rn(number<T, V>(raw[r], i, of_x), scale);
      result = quantise<OUT, V>(value, __ldg(numbers + 2), __ldg(numbers + 3), __ldg(numbers + 4));
      store<OUT, V>(y + to, result);
    } else {
      result = reinterpret_cast<const Raw<OUT, V>&>(raw[r]);  // the two are of one type
      store<T, V>(reinterpret_cast<T*>(y + to), raw[r]);
    }
    if constexpr (SCALES) {
      float value[V];
      #pragma unroll
      for (int i = 0; i < V; ++i) {
        const float product = __fmul_rn(number<OUT, V>(result, i, of_y), factors[i]);
        value[i] = __fadd_rn(product, offsets[i]);
      }
      store<SCALED, V>(z + to, quantise<SCALED, V>(value, __ldg(scaled + 1), __ldg(scaled + 2),
                                                   __ldg(scaled + 3)));
    }
  }
}
"""


_MOST_SCALED = 8
"""Values of a row that a thread scales: factors of more of them take too many registers."""

_MOST_ROWS = 4
"""Rows of a thread, which share what it knows of its channels."""

_FITTED_THREADS = 1024
"""The least threads of a multiprocessor with which threads have several rows."""


@dataclass(frozen=True)
class _Segment:
    """One part: vectors of a row, rows from one of a thread to its next, and its first block."""

    function: DeviceFunction
    vectors: int
    step: int
    first_block: int

    @property
    def items(self) -> int:
        """Threads that have a vector of some rows."""
        return self.step * self.vectors


def matches(workload: object, target: Target) -> bool:
    """Inputs that are copied as they are or requantised; rows of 4-bit values fill bytes."""
    if not isinstance(workload, Concat) or target.kind != "cuda":
        return False
    for part, requantize in zip(workload.parts, workload.requantize, strict=True):
        channels, dtype = math.gcd(part.channels, part.begin, part.width), part.dtype
        known = dtype in (*INTEGER_RANGE, "float32")
        fits = workload.out_dtype in INTEGER_RANGE if requantize else dtype == workload.out_dtype
        if not known or not fits or not whole_bytes(channels, dtype, workload.out_dtype):
            return False
    return indexable(workload.y_shape)


def build(workload: Concat, config: ThreadConfig, target: Target) -> PrimFunc:
    """The concatenation kernel; parameters x0, x1, ..., constants, y, and z where it scales."""
    segments = _segments(workload, config.threads, target)
    last = segments[-1]
    blocks = last.first_block + blocks_for(last.items, config.threads)
    parameters = [*workload.inputs, *workload.constants, *workload.outputs]
    count = len(workload.inputs)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        inputs, scalars, rest = pointers[:count], pointers[count], pointers[count + 1 :]
        # Without a second output its operands are any pointers.
        factor, offset, scaled, y, z = rest if len(rest) > 1 else (*[scalars] * 3, *rest * 2)
        ends = [*(segment.first_block for segment in segments[1:]), blocks]
        for part, segment, end in zip(workload.parts, segments, ends, strict=True):
            item = (block - segment.first_block) * config.threads + thread
            mine = T.And(block >= segment.first_block, block < end)
            with builder.If(T.And(mine, item < segment.items)), builder.Then():
                operands = (inputs[part.source], scalars, factor, offset, scaled, y, z)
                places = item // segment.vectors, item % segment.vectors
                call(segment.function, *operands, *places)

    return thread_kernel(parameters, blocks, config.threads, target, body)


def _segments(workload: Concat, threads: int, target: Target) -> list[_Segment]:
    total, outer = workload.y_shape[1], workload.outer
    firsts = list(itertools.accumulate(workload.channels, initial=0))[:-1]
    values = []
    for part, first in zip(workload.parts, firsts, strict=True):
        whole = math.gcd(part.channels, part.begin, part.width, first, total)
        widest = vector_values(whole, part.dtype, workload.out_dtype)
        values.append(min(widest, _MOST_SCALED) if workload.scaled_dtype else widest)
    vectors = [channels // each for channels, each in zip(workload.channels, values, strict=True)]
    rows = _rows(outer, sum(vectors), target)
    segments: list[_Segment] = []
    block = 0
    for index, (part, first) in enumerate(zip(workload.parts, firsts, strict=True)):
        types = {"T": part.dtype, "OUT": workload.out_dtype}
        namespace = NumberNamespace(
            "concat",
            _SOURCE,
            {**types, "SCALED": workload.scaled_dtype or "int8"},
            {
                "V": values[index],
                "ROWS": rows,
                "STEP": -(-outer // rows),
                "OUTER": outer,
                "WIDTH": part.width,
                "BEGIN": part.begin,
                "FIRST": first,
                "TOTAL": total,
                "REQUANTIZE": workload.requantize[index],
                "INPUT": index,
                "SCALES": bool(workload.scaled_dtype),
            },
        )
        segment = _Segment(namespace.function("move"), vectors[index], -(-outer // rows), block)
        segments.append(segment)
        block += blocks_for(segment.items, threads)
    return segments


def _rows(outer: int, vectors: int, target: Target) -> int:
    """Rows of a thread: as many as leave enough threads to hide how long loads take."""
    rows = min(_MOST_ROWS, outer)
    while rows > 1 and outer // rows * vectors < _FITTED_THREADS * target.units:
        rows //= 2
    return rows


def pack(workload: Concat, config: ThreadConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The constants as they are, float32."""
    return tuple(
        np.ascontiguousarray(constants[spec.name], np.float32) for spec in workload.constants
    )


TEMPLATE = dataclasses.replace(scalars_template("concat_cuda", 1, matches, build), pack=pack)
"""Concatenation of any number of inputs on every CUDA target."""
