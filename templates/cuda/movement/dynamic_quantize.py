"""Quantisation by the range of a whole array: in one kernel that holds it, or in two.

Where the registers of all multiprocessors have room for the array, blocks find its range together
(`grid_range.py`) and quantise what they hold. Larger arrays are read twice: a kernel finds the
range by parts, and each block of a second one joins the parts for itself, a few hundred pairs from
the L2, which takes less than a third launch. Largest and least values do not depend on the order,
so that results are the same to the bit in every run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template, pack_nothing, packed_nothing
from autoq.templates.cuda.device.dynamic_bytes import DYNAMIC_BYTES
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.dependent_launch import cooperating
from autoq.templates.cuda.device.launch.grid_range import grid_range_source, range_words
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
from autoq.templates.operators.dynamic_quantize import DynamicQuantize
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target

_VALUES = r"""
__device__ __forceinline__ Range with_values(Range range, const Raw<float, V>& raw) {
  #pragma unroll
  for (int v = 0; v < V; ++v) {
    const float value = __uint_as_float(raw.word[v]);
    range = join(range, {value, value});
  }
  return range;
}
__device__ __forceinline__ void write(To<unsigned char> y, const Raw<float, V>& raw, int i,
                                      Steps steps) {
  float value[V];
  #pragma unroll
  for (int v = 0; v < V; ++v) value[v] = __uint_as_float(raw.word[v]);
  const Raw<unsigned char, V> bytes = {bytes_of<V>(value, steps)};
  store<unsigned char, V>(y + i * V, bytes);
}
"""
_PASSES = r"""
__device__ __forceinline__ void measure(
    float* shared, const float* x, float* parts, int block, int thread) {
  Range range = {0.f, 0.f};
  #pragma unroll 4
  for (int i = block * THREADS + thread; i < VECTORS; i += PARTS * THREADS)
    range = with_values(range, load<float, V>(x + i * V));
  range = of_threads<THREADS, true>(range, shared, thread);
  if (thread == 0) {
    parts[block] = range.least;
    parts[PARTS + block] = range.most;
  }
}
__device__ __forceinline__ void quantise(
    float* shared, const float* x, const float* parts, To<unsigned char> y, float* scale_to,
    float* zero_to, int block, int thread) {
  // What the block quantises first is on its way while it joins the parts.
  const int start = block * THREADS + thread;
  Raw<float, V> first[AT_ONCE];
  #pragma unroll
  for (int turn = 0; turn < AT_ONCE; ++turn)
    if (start + turn * (BLOCKS * THREADS) < VECTORS)
      first[turn] = load<float, V>(x + (start + turn * (BLOCKS * THREADS)) * V);
  Range range = {0.f, 0.f};
  for (int i = thread; i < PARTS; i += THREADS) {
    range = join(range, {parts[i], parts[PARTS + i]});
  }
  const Steps steps = steps_of(of_threads<THREADS, false>(range, shared, thread));
  if (block == 0 && thread == 0) {
    *scale_to = steps.scale;
    *zero_to = steps.zero;
  }
  #pragma unroll
  for (int turn = 0; turn < AT_ONCE; ++turn)
    if (start + turn * (BLOCKS * THREADS) < VECTORS)
      write(y, first[turn], start + turn * (BLOCKS * THREADS), steps);
  #pragma unroll 2
  for (int i = start + AT_ONCE * (BLOCKS * THREADS); i < VECTORS; i += BLOCKS * THREADS)
    write(y, load<float, V>(x + i * V), i, steps);
}
"""
_HOLDING = r"""
__device__ __forceinline__ void quantise_held(
    float* shared, const float* x, To<unsigned char> y, float* scale_to, float* zero_to,
    void* ranges, int block, int thread) {
  const int start = block * THREADS + thread;
  Raw<float, V> held[AT_ONCE];
  #pragma unroll
  for (int turn = 0; turn < AT_ONCE; ++turn) {
    const int i = start + turn * (BLOCKS * THREADS);
    held[turn] = load<float, V>(x + min(i, VECTORS - 1) * V);
  }
  Range range = {0.f, 0.f};
  #pragma unroll
  for (int turn = 0; turn < AT_ONCE; ++turn) range = with_values(range, held[turn]);
  unsigned left;
  const Steps steps = steps_of(
      of_grid<THREADS, BLOCKS>(range, ranges, shared, block, thread, left));
  #pragma unroll
  for (int turn = 0; turn < AT_ONCE; ++turn) {
    const int i = start + turn * (BLOCKS * THREADS);
    if (i < VECTORS) write(y, held[turn], i, steps);
  }
  if (block == 0 && thread == 0) {
    *scale_to = steps.scale;
    *zero_to = steps.zero;
  }
  clear_words<BLOCKS>(ranges, thread, left);
}
"""
_MOST_VECTOR = 4
"""16 bytes of floats."""
_AT_ONCE = 2
"""Vectors that a thread asks for before it knows the range."""
_TURNS = 4
"""Vectors of a thread where there are enough to fill the device."""
_TOGETHER = 2
"""Blocks of a multiprocessor that find a range together."""
_HELD = 4
"""Vectors that a thread holds, of blocks as large as the configuration says."""
_LARGEST_BLOCK, _MOST_HELD = 512, 8
"""Threads of the largest blocks, of which two have 64 registers each, and their vectors."""
_LEAST_COMPUTE_CAPABILITY = 70
"""The first with loads and stores of a device's own scope."""


def matches(workload: object, target: Target) -> bool:
    """Any array whose elements have 32-bit places."""
    return (
        isinstance(workload, DynamicQuantize)
        and target.kind == "cuda"
        and indexable((workload.size,))
    )


def build(workload: DynamicQuantize, config: ThreadConfig, target: Target) -> Program:
    """One stage that holds all of the array, or two: ranges of parts, and the bytes."""
    vector = math.gcd(workload.size, _MOST_VECTOR)
    vectors = workload.size // vector
    numbers = {"V": vector, "VECTORS": vectors}
    for threads, held in ((config.threads, _HELD), (_LARGEST_BLOCK, _MOST_HELD)):
        blocks = min(_TOGETHER * target.units, blocks_for(vectors, threads))
        each = blocks_for(vectors, blocks * threads)
        if each <= held and target.compute_capability >= _LEAST_COMPUTE_CAPABILITY:
            numbers |= {"THREADS": threads, "BLOCKS": blocks, "AT_ONCE": each}
            return _in_one(workload, numbers, target)
    most = blocks_for(vectors, config.threads * _TURNS)
    measuring, writing = min(2 * target.units, most), min(4 * target.units, most)
    numbers |= {
        "THREADS": config.threads, "PARTS": measuring, "BLOCKS": writing, "AT_ONCE": _AT_ONCE,
    }  # fmt: skip
    functions = _functions(_PASSES, numbers)
    parts = TensorSpec("parts", (2, measuring), "float32")
    x = workload.inputs
    stages = (
        _stage(functions.function("measure"), x, (parts,), measuring, config.threads, target),
        _stage(functions.function("quantise"), (*x, parts), workload.outputs, writing,
               config.threads, target),
    )  # fmt: skip
    return Program(stages, (Workspace(parts),))


def _in_one(workload: DynamicQuantize, numbers: dict[str, int], target: Target) -> Program:
    """The program of blocks that hold all vectors."""
    functions = _functions(_HOLDING, numbers)
    words = range_words(numbers["BLOCKS"])
    stage = _stage(
        functions.function("quantise_held"), workload.inputs, (*workload.outputs, words.spec),
        numbers["BLOCKS"], numbers["THREADS"], target, cooperative=True,
    )  # fmt: skip
    return Program((stage,), (words,))


def _functions(source: str, numbers: dict[str, int]) -> DeviceNamespace:
    shared = grid_range_source() + DYNAMIC_BYTES + _VALUES
    return DeviceNamespace("dynamic_quantize", shared + source, {}, numbers)


def _stage(
    function: DeviceFunction, reads: Sequence[TensorSpec], writes: Sequence[TensorSpec],
    blocks: int, threads: int, target: Target, cooperative: bool = False,
) -> Stage:  # fmt: skip
    """A stage of function(shared, reads, writes, block, thread)."""

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        shared = builder.alloc_buffer((2 * threads // 32,), "float32", scope="shared")
        call(function, shared.data, *pointers, block, thread)

    together = _TOGETHER if cooperative else None
    kernel = thread_kernel([*reads, *writes], blocks, threads, target, body, together=together)
    if cooperative:
        kernel = cooperating(kernel)
    return Stage(kernel, *(tuple(spec.name for spec in specs) for specs in (reads, writes)))


TEMPLATE = Template(
    "dynamic_quantize_cuda", 2, matches, thread_space, thread_default, build, pack_nothing,
    packed_nothing, tunable=False,
)  # fmt: skip
"""Dynamic quantisation on every CUDA target."""
