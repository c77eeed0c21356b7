"""What follows a sum of the mixed-input product: scale, bias and activation, as CUDA functions."""

from __future__ import annotations

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.epilogue.cuda.activations import activation_source
from autoq.templates.operators.float_gemm import FloatGemm

_FINISH = r"""
__device__ __forceinline__ float finish_@(float sum, float scale, float bias) {
  return activated_@(sum * scale + bias);
}
"""
_PAIR = r"""
__device__ __forceinline__ unsigned finish_pair_@(float left, float right, float scale,
                                                 float bias) {
  unsigned word;
  asm("cvt.rn.KIND.f32 %0, %1, %2;"
      : "=r"(word) : "f"(finish_@(right, scale, bias)), "f"(finish_@(left, scale, bias)));
  return word;
}
"""


def finish_source(workload: FloatGemm) -> str:
    """Source of `finish_@`(sum, scale, bias), a float32 result."""
    return activation_source(workload.activation) + _FINISH


def finish(workload: FloatGemm) -> DeviceFunction:
    """finish(sum, scale, bias): a float32 result."""
    return device_function("finish", finish_source(workload))


def finish_pair(workload: FloatGemm) -> DeviceFunction:
    """finish_pair(left, right, scale, bias): two results of one weight row as a word."""
    source = finish_source(workload) + _PAIR
    source = source.replace("KIND", "f16x2" if workload.out_dtype == "float16" else "bf16x2")
    return device_function("finish_pair", source)
