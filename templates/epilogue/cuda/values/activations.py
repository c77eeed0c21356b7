"""CUDA source of the activations, for every epilogue whose outputs are floats."""

from __future__ import annotations

_VALUES = {
    "none": "v",
    "relu": "v < 0.f ? 0.f : v",
    "gelu": "0.5f * v * (1.f + error_function_@(v * 0.70710678f))",
    "gelu_tanh": "v * logistic_@(1.59576912f * (v + 0.044715f * v * v * v))",
    "silu": "v * logistic_@(v)",
}
# The error function is that of Abramowitz and Stegun, 7.1.26, off by at most 1.5e-7: CUDA's own
# takes registers that accumulators need. (1 + tanh(x)) / 2 is the logistic function of 2 x.
_SOURCE = r"""
__device__ __forceinline__ float logistic_@(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
__device__ __forceinline__ float error_function_@(float x) {
  const float t = __fdividef(1.f, 1.f + 0.3275911f * fabsf(x));
  const float polynomial =
      t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f +
      t * 1.061405429f))));
  return copysignf(1.f - polynomial * __expf(-x * x), x);
}
__device__ __forceinline__ float activated_@(float v) { return ACTIVATION; }
"""


def activation_source(activation: str) -> str:
    """Source of `activated_@`(v), one of `ACTIVATIONS` of a float; `@` is as in `elements.py`."""
    return _SOURCE.replace("ACTIVATION", _VALUES[activation])
