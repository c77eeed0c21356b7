"""What follows a sum of the mixed-input product, as a CUDA function of one or two results.

That is the scales of its rows, a bias, an activation, a residual and the output's type.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.mixed.pair import pair_source
from autoq.templates.epilogue.cuda.values.activations import activation_source
from autoq.templates.operators.float_gemm import FloatGemm

_FINISH = r"""
__device__ __forceinline__ float finish_@(float sum, float scale, float bias) {
  return activated_@(sum * scale + bias);
}
"""
# The right one first, as in the machine code of the kernels that were measured.
_PAIR = r"""
__device__ __forceinline__ unsigned finish_pair_@(float left, float right, float scale,
                                                 float bias) {
  const float second = finish_@(right, scale, bias);
  return pair_@(finish_@(left, scale, bias), second);
}
"""
_RESIDUAL_PAIR = r"""
__device__ __forceinline__ unsigned finish_pair_@(float left, float right, float scale, float bias,
                                                 float to_left, float to_right) {
  const float second = finish_@(right, scale, bias) + to_right;
  return pair_@(finish_@(left, scale, bias) + to_left, second);
}
"""
_RESIDUAL = r"""
__device__ __forceinline__ float finish_residual_@(float sum, float scale, float bias,
                                                   float residual) {
  return finish_@(sum, scale, bias) + residual;
}
"""
_RESIDUAL_FIRST = r"""
__device__ __forceinline__ float finish_residual_@(float sum, float scale, float bias,
                                                   float residual) {
  return activated_@(sum * scale + bias + residual);
}
"""
_RESIDUAL_FIRST_PAIR = r"""
__device__ __forceinline__ unsigned finish_pair_@(float left, float right, float scale, float bias,
                                                 float to_left, float to_right) {
  const float second = finish_residual_@(right, scale, bias, to_right);
  return pair_@(finish_residual_@(left, scale, bias, to_left), second);
}
"""
# bfloat16 is the upper half of a float32.
_READ = {
    "float16": """float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(reinterpret_cast<const unsigned short*>(from)[at]));
  return v;""",
    "bfloat16": """return __uint_as_float(
      (unsigned)reinterpret_cast<const unsigned short*>(from)[at] << 16);""",
    "float32": "return reinterpret_cast<const float*>(from)[at];",
}
_VALUE = r"""
__device__ __forceinline__ float value_@(const void* from, int at, int inside) {
  if (!inside) return 0.f;
  READ
}
"""


def finish_source(workload: FloatGemm) -> str:
    """Source of `finish_@`(sum, scale, bias), a float32 result."""
    return activation_source(workload.activation) + _FINISH


def value_source(dtype: str) -> str:
    """Source of `value_@`(from, at, inside): an element of an array of floats, as `Finishing`."""
    return _VALUE.replace("READ", _READ[dtype])


def finish(workload: FloatGemm) -> DeviceFunction:
    """finish(sum, scale, bias): a float32 result."""
    return device_function("finish", finish_source(workload))


@dataclass(frozen=True)
class Finishing:
    """The functions of an epilogue.

    one(sum, scale, bias): a float32 result. pair(left, right, scale, bias): two results of one
    weight row as a word. With a residual both take what is added to each result behind these.
    value(from, at, inside): element `at` of an array of the output's type as float32, 0 outside.
    """

    one: DeviceFunction
    pair: DeviceFunction
    value: DeviceFunction

    @staticmethod
    def of(workload: FloatGemm) -> Finishing:
        """Those of a workload."""
        source = finish_source(workload)
        pair = source + pair_source(workload.out_dtype)
        if workload.residual_first:
            pair += _RESIDUAL_FIRST + _RESIDUAL_FIRST_PAIR
        else:
            pair += _RESIDUAL_PAIR if workload.residual else _PAIR
        if workload.residual:
            behind = _RESIDUAL_FIRST if workload.residual_first else _RESIDUAL
            one = device_function("finish_residual", source + behind)
        else:
            one = finish(workload)
        value = device_function("value", value_source(workload.out_dtype))
        return Finishing(one, device_function("finish_pair", pair), value)
