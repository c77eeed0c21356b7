"""Split products on a GPU, a thread for each part of an output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.functions import device_function
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from split_k.config import GROUP, SplitConfig, default, pack, packed, space, workspaces
from split_k.operator import LongProduct

_SOURCE = r"""
__device__ __forceinline__ int part_@(const void* a, const void* weight, int split, int at) {
  const signed char* row = (const signed char*)a + (size_t)(at / N) * K + split * DEPTH;
  const signed char* column = (const signed char*)weight + (size_t)(at % N) * K + split * DEPTH;
  int sum = 0;
  for (int step = 0; step < DEPTH; ++step) sum += (int)row[step] * (int)column[step];
  return sum;
}

__device__ __forceinline__ void write_@(int sum, const void* affine, void* y, int at) {
  const float* scale = (const float*)affine;
  float value = fmaf((float)sum, scale[at % N], scale[N + at % N]);
  ((float*)y)[at] = fmaxf(value, 0.f);
}

__device__ void multiply_@(const void* a, const void* weight, void* partial, int item) {
  if (item < SPLITS * OUTPUTS) {
    int sum = part_@(a, weight, item / OUTPUTS, item % OUTPUTS);
    ((int*)partial)[item] = sum;
  }
}

__device__ void add_part_@(const void* a, const void* weight, void* sums, int item) {
  if (item < SPLITS * OUTPUTS) {
    int sum = part_@(a, weight, item / OUTPUTS, item % OUTPUTS);
    atomicAdd((int*)sums + item % OUTPUTS, sum);
  }
}

__device__ void finish_@(const void* partial, const void* affine, void* y, int at) {
  if (at < OUTPUTS) {
    int sum = 0;
    for (int split = 0; split < PARTS; ++split) sum += ((const int*)partial)[split * OUTPUTS + at];
    write_@(sum, affine, y, at);
  }
}

__device__ void count_part_@(const void* a, const void* weight, const void* affine, void* arrived,
                             void* partial, void* y, int block, int thread) {
  __shared__ int last;
  int group = block % GROUPS, split = block / GROUPS, at = group * GROUP + thread;
  int* parts = (int*)partial;
  if (at < OUTPUTS) parts[split * OUTPUTS + at] = part_@(a, weight, split, at);
  __threadfence();
  __syncthreads();
  if (thread == 0) last = atomicAdd((int*)arrived + group, 1) == SPLITS - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (at < OUTPUTS) {
    int sum = 0;
    for (int part = 0; part < SPLITS; ++part) sum += __ldcg(parts + part * OUTPUTS + at);
    write_@(sum, affine, y, at);
  }
  if (thread == 0) ((int*)arrived)[group] = 0;
}
"""
_THREADS = 128


def computes(workload: Workload, target: Target) -> bool:
    """Every product, on every GPU."""
    return target.kind == "cuda" and isinstance(workload, LongProduct)


def build(workload: LongProduct, config: SplitConfig, target: Target) -> Program:
    spaces = workspaces(workload, config)
    stage = _Stages(workload, config, target)
    if config.ending == "stage":
        stages = (
            stage("multiply", ("a", "weight"), ("partial",), config.splits),
            stage("finish", ("partial", "affine"), ("y",)),
        )
    elif config.ending == "sum":
        stages = (
            stage("add_part", ("a", "weight", "sums"), ("sums",), config.splits),
            stage("finish", ("sums", "affine"), ("y",)),
        )
    else:
        reads = ("a", "weight", "affine", "arrived")
        stages = (stage("count_part", reads, ("arrived", "partial", "y"), config.splits),)
    return Program(stages, tuple(spaces.values()))


class _Stages:
    """Makes the stages of a configuration."""

    def __init__(self, workload: LongProduct, config: SplitConfig, target: Target) -> None:
        self._target, self._outputs = target, workload.m * workload.n
        arrays = (*workload.inputs, *packed(workload, config), *workload.outputs)
        spaces = workspaces(workload, config)
        self._specs = {spec.name: spec for spec in (*arrays, *(w.spec for w in spaces.values()))}
        self._groups = blocks_for(self._outputs, GROUP)
        parts = config.splits if config.ending == "stage" else 1
        constants = {
            "N": workload.n, "K": workload.k, "DEPTH": workload.k // config.splits,
            "SPLITS": config.splits, "PARTS": parts, "OUTPUTS": self._outputs,
            "GROUPS": self._groups, "GROUP": GROUP,
        }  # fmt: skip
        self._defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())

    def __call__(
        self, name: str, reads: tuple[str, ...], writes: tuple[str, ...], splits: int = 1
    ) -> Stage:
        names = (*reads, *(item for item in writes if item not in reads))
        kernel = self._kernel(name, [self._specs[item] for item in names], splits)
        return Stage(kernel, reads, writes)

    def _kernel(self, name: str, parameters: Sequence[TensorSpec], splits: int) -> PrimFunc:
        function = device_function(name, self._defines + _SOURCE)
        if name == "count_part":

            def by_group(pointers: Sequence[Any], block: Any, thread: Any) -> None:
                call(function, *pointers, block, thread)

            return thread_kernel(parameters, splits * self._groups, GROUP, self._target, by_group)

        def by_item(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            call(function, *pointers, block * _THREADS + thread)

        blocks = blocks_for(splits * self._outputs, _THREADS)
        return thread_kernel(parameters, blocks, _THREADS, self._target, by_item)


TEMPLATE = Template("long_product_cuda", 1, computes, space, default, build, pack, packed)
