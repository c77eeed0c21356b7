"""CUDA source of the activations, for every epilogue whose outputs are floats."""

from __future__ import annotations

_VALUES = {
    "none": "v",
    "relu": "v < 0.f ? 0.f : v",
    "gelu": "gelu_@(v)",
    "gelu_tanh": "fmaxf(v, -16.f) * logistic_@(1.59576912f * (v + 0.044715f * v * v * v))",
    "silu": "fmaxf(v, -128.f) * logistic_@(v)",
}
# The error function is that of Abramowitz and Stegun, 7.1.26, off by at most 1.5e-7: CUDA's own
# takes registers that accumulators need. With the tail Q(x) = (1 - erf(x / sqrt(2))) / 2 of the
# normal distribution, GELU is max(v, 0) - |v| Q(|v|), and factors of 1/2 and of sqrt(2) are in the
# numbers. From 16 on Q is 0, and so it is for infinities; NaN stays. Both approximations flush
# subnormal numbers, which makes them one instruction each where those that scale them are four.
# (1 + tanh(x)) / 2 is the logistic function of 2 x. Factors are those of `LEAST_FACTOR`.
_SOURCE = r"""
__device__ __forceinline__ float reciprocal_approx_@(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float exp2_approx_@(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float logistic_@(float x) {
  return reciprocal_approx_@(1.f + exp2_approx_@(-1.44269504f * x));
}
__device__ __forceinline__ float gelu_@(float v) {
  const float size = fminf(fabsf(v), 16.f);
  const float t = reciprocal_approx_@(1.f + 0.23164189f * size);
  const float polynomial =
      t * (0.127414796f + t * (-0.142248368f + t * (0.71070687f + t * (-0.72657601f +
      t * 0.53070271f))));
  return (v < 0.f ? 0.f : v) - size * polynomial * exp2_approx_@(-0.72134752f * size * size);
}
__device__ __forceinline__ float activated_@(float v) { return ACTIVATION; }
"""


def activation_source(activation: str) -> str:
    """Source of `activated_@`(v), one of `ACTIVATIONS` of a float; `@` is as in `elements.py`."""
    return _SOURCE.replace("ACTIVATION", _VALUES[activation])
