"""The second kernel of a split reduction: parts of sums are added up and become results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.functions import device_function
from autoq.templates.cuda.device.launch.thread_kernel import call, items_kernel
from autoq.templates.cuda.mixed.finish import finish_source, value_source
from autoq.templates.cuda.mixed.mma_sync.tiling import MixedSyncTiling
from autoq.templates.cuda.mixed.pair import pair_source
from autoq.templates.target import Target

_THREADS = 128
_SOURCE = r"""
__device__ __forceinline__ void store_@(void* y, int at, float v) {
  STORE
}
__device__ void add_up_@(const void* sums, const void* x_scale, const void* residual,
                         const void* scale, const void* bias, void* y, int item) {
  if (item >= OUTPUTS / VALUES) return;
  const int at = item * VALUES;
  float v[VALUES] = {};
  for (int split = 0; split < SPLITS; ++split) {
    const VECTOR part =
        reinterpret_cast<const VECTOR*>(static_cast<const float*>(sums) + split * OUTPUTS)[item];
    #pragma unroll
    for (int i = 0; i < VALUES; ++i) v[i] += reinterpret_cast<const float*>(&part)[i];
  }
  #pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    const int product = at / PRODUCT;
    const int first = at % PRODUCT / COLUMNS, second = at % COLUMNS + i;
    const int row = product * PADDED + (LEFT ? first : second);
    v[i] = finish_@(v[i]X_SCALE, SCALE, BIAS)RESIDUAL;
    store_@(y, at + i, v[i]);
  }
}
"""
_STORE_FLOAT = "static_cast<float*>(y)[at] = v;"
_STORE_HALF = "static_cast<unsigned short*>(y)[at] = (unsigned short)pair_@(v, 0.f);"
_X_SCALE = " * static_cast<const float*>(x_scale)[product * ROWS + (LEFT ? second : first)]"
_VECTORS = {1: "float", 2: "float2", 4: "float4"}
_GIVEN = ("x_scale", "residual", "scale", "bias")


def add_up(tiling: MixedSyncTiling, parameters: Sequence[TensorSpec], target: Target) -> PrimFunc:
    """The kernel; parameters sums float32 `[split_k, *y_shape]`, what there is of _GIVEN, and y."""
    workload, names = tiling.workload, [spec.name for spec in parameters]
    values = math.gcd(workload.y_shape[-1], 4)
    outputs = math.prod(workload.y_shape)
    source = finish_source(workload) + value_source(workload.out_dtype)
    if workload.out_dtype != "float32":
        source += pair_source(workload.out_dtype)
    source += _SOURCE
    for name, value in {
        "X_SCALE": _X_SCALE.replace("ROWS", str(workload.m)) if "x_scale" in names else "",
        "STORE": _STORE_FLOAT if workload.out_dtype == "float32" else _STORE_HALF,
        "OUTPUTS": outputs,
        "VALUES": values,
        "VECTOR": _VECTORS[values],
        "SPLITS": tiling.config.split_k,
        "PRODUCT": workload.m * workload.n,
        "PADDED": tiling.padded_n,
        "COLUMNS": workload.y_shape[-1],
        "LEFT": int(workload.weight_left),
        "RESIDUAL": " + value_@(residual, at + i, 1)" if "residual" in names else "",
        "SCALE": "static_cast<const float*>(scale)[row]" if "scale" in names else "1.f",
        "BIAS": "static_cast<const float*>(bias)[row]" if "bias" in names else "0.f",
    }.items():
        source = source.replace(name, str(value))
    function = device_function("add_up", source)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        by_name = dict(zip(names, pointers, strict=True))
        sums = by_name["sums"]
        given = [by_name.get(name, sums) for name in _GIVEN]
        call(function, sums, *given, by_name["y"], block * _THREADS + thread)

    return items_kernel(parameters, outputs // values, _THREADS, target, body)
