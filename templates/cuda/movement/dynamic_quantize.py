"""Quantisation by the range of a whole array, in two kernels: its range by parts, then its bytes.

Each block of the second kernel joins the parts for itself, a few hundred pairs from the L2: that
takes less than a third launch. Largest and least values do not depend on the order, so that results
are the same to the bit in every run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx.script.builder import ir as builder

from autoq.templates.base import Template, pack_nothing, packed_nothing
from autoq.templates.cuda.device.functions import DeviceFunction
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
from autoq.templates.operators.dynamic_quantize import LARGE, LEVELS, DynamicQuantize
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_SOURCE = r"""
struct Range {
  float least, most;
};
__device__ __forceinline__ Range join(Range a, Range b) {
  return {fminf(a.least, b.least), fmaxf(a.most, b.most)};
}
// Of all threads of a block; every thread gets it. shared: two floats a warp.
__device__ __forceinline__ Range of_block(Range range, float* shared, int thread) {
  #pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const Range other = {__shfl_xor_sync(0xffffffffu, range.least, apart),
                         __shfl_xor_sync(0xffffffffu, range.most, apart)};
    range = join(range, other);
  }
  if (thread % 32 == 0) {
    shared[thread / 32] = range.least;
    shared[WARPS + thread / 32] = range.most;
  }
  __syncthreads();
  range = {shared[0], shared[WARPS]};
  #pragma unroll
  for (int w = 1; w < WARPS; ++w) range = join(range, {shared[w], shared[WARPS + w]});
  return range;
}
__device__ __forceinline__ void measure(
    float* shared, const float* x, float* parts, int block, int thread) {
  Range range = {0.f, 0.f};
  #pragma unroll 4
  for (int i = block * THREADS + thread; i < VECTORS; i += PARTS * THREADS) {
    const Raw<float, V> raw = load<float, V>(x + i * V);
    #pragma unroll
    for (int v = 0; v < V; ++v) {
      const float value = __uint_as_float(raw.word[v]);
      range = join(range, {value, value});
    }
  }
  range = of_block(range, shared, thread);
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
  range = of_block(range, shared, thread);
  float scale = __fdiv_rn(range.most - range.least, LEVELS);
  scale += 1.f - fminf(scale * LARGE, 1.f);
  const float exact = -__fdiv_rn(range.least, scale);
  const float zero = rintf(fminf(fmaxf(exact, 0.f), LEVELS));
  if (block == 0 && thread == 0) {
    *scale_to = scale;
    *zero_to = zero;
  }
  const auto write = [&](const Raw<float, V>& raw, int i) {
    Raw<unsigned char, V> bytes = {};
    #pragma unroll
    for (int v = 0; v < V; ++v) {
      const float steps = rintf(__fdiv_rn(__uint_as_float(raw.word[v]), scale)) + zero;
      bytes.word[0] |= (unsigned)fminf(fmaxf(steps, 0.f), LEVELS) << (8 * v);
    }
    store<unsigned char, V>(y + i * V, bytes);
  };
  #pragma unroll
  for (int turn = 0; turn < AT_ONCE; ++turn)
    if (start + turn * (BLOCKS * THREADS) < VECTORS)
      write(first[turn], start + turn * (BLOCKS * THREADS));
  #pragma unroll 2
  for (int i = start + AT_ONCE * (BLOCKS * THREADS); i < VECTORS; i += BLOCKS * THREADS)
    write(load<float, V>(x + i * V), i);
}
"""
_MOST_VECTOR = 4
"""16 bytes of floats."""
_AT_ONCE = 2
"""Vectors that a thread asks for before it knows the range."""
_TURNS = 4
"""Vectors of a thread where there are enough to fill the device."""


def matches(workload: object, target: Target) -> bool:
    """Any array whose elements have 32-bit places."""
    return (
        isinstance(workload, DynamicQuantize)
        and target.kind == "cuda"
        and indexable((workload.size,))
    )


def build(workload: DynamicQuantize, config: ThreadConfig, target: Target) -> Program:
    """Two stages: the ranges of parts, and the bytes, the scale and the zero point."""
    vector = math.gcd(workload.size, _MOST_VECTOR)
    vectors = workload.size // vector
    most = blocks_for(vectors, config.threads * _TURNS)
    measuring, writing = min(2 * target.units, most), min(4 * target.units, most)
    numbers = {
        "THREADS": config.threads, "WARPS": config.threads // 32, "V": vector,
        "VECTORS": vectors, "PARTS": measuring, "BLOCKS": writing, "AT_ONCE": _AT_ONCE,
    }  # fmt: skip
    limits = f"constexpr float LEVELS = {LEVELS}f, LARGE = {LARGE}f;\n"
    functions = DeviceNamespace("dynamic_quantize", limits + _SOURCE, {}, numbers)
    parts = TensorSpec("parts", (2, measuring), "float32")
    x = workload.inputs
    stages = (
        _stage(functions.function("measure"), x, (parts,), measuring, config, target),
        _stage(functions.function("quantise"), (*x, parts), workload.outputs, writing, config,
               target),
    )  # fmt: skip
    return Program(stages, (Workspace(parts),))


def _stage(
    function: DeviceFunction, reads: Sequence[TensorSpec], writes: Sequence[TensorSpec],
    blocks: int, config: ThreadConfig, target: Target,
) -> Stage:  # fmt: skip
    """A stage of function(shared, reads, writes, block, thread)."""

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        shared = builder.alloc_buffer((2 * config.threads // 32,), "float32", scope="shared")
        call(function, shared.data, *pointers, block, thread)

    kernel = thread_kernel([*reads, *writes], blocks, config.threads, target, body)
    return Stage(kernel, *(tuple(spec.name for spec in specs) for specs in (reads, writes)))


TEMPLATE = Template(
    "dynamic_quantize_cuda", 1, matches, thread_space, thread_default, build, pack_nothing,
    packed_nothing, tunable=False,
)  # fmt: skip
"""Dynamic quantisation on every CUDA target."""
