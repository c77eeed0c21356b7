"""CUDA source of what element-wise formulas and those over rows write: rounded, clamped, packed."""

from __future__ import annotations

from typing import Protocol

import numpy as np

_WRITE = r"""
// Integers whose bounds are those of their type: a conversion of two numbers clamps them as well.
constexpr float LEAST = SIGNED<OUT> ? -128.f : 0.f;
constexpr bool WHOLE_TYPE = LOW + ZERO_POINT == LEAST && HIGH + ZERO_POINT == LEAST + 255.f;
// An integer that a conversion clamps: a value's, and how far the zero point is above the least.
// Times 2^-149 and plus that integer's denormal, a value has the bits of the rounded sum in one
// instruction, if the integer is even, since ties are to even. Warps that hold several rows lose by
// it.
constexpr int PLACE = WHOLE_TYPE ? (int)(ZERO_POINT - LEAST) : 0;
__device__ __forceinline__ int placed(float value) {
  if constexpr (AT_ONCE && PLACE % 2 == 0)
    return __float_as_int(
        __saturatef(__fmaf_rn(value, __int_as_float(1), __int_as_float(PLACE))));
  const float rounded = __fadd_rn(value, 12582912.f);
  return __float2int_rn(__fadd_rn(rounded, PLACE - 12582912.f));
}
template <int N> __device__ __forceinline__ Raw<OUT, N> saturated(const float (&value)[N]) {
  Raw<OUT, N> raw;
  #pragma unroll
  for (int i = 0; i < N / 4; ++i) {
    int n[4];
    #pragma unroll
    for (int e = 0; e < 4; ++e) n[e] = placed(value[4 * i + e]);
    unsigned high, word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(n[3]), "r"(n[2]));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(n[1]), "r"(n[0]), "r"(high));
    raw.word[i] = word ^ (SIGNED<OUT> ? 0x80808080u : 0u);
  }
  return raw;
}
template <int N> __device__ __forceinline__ Raw<OUT, N> integers(const float (&value)[N]) {
  if constexpr (BITS<OUT> == 8 && N % 4 == 0 && WHOLE_TYPE) return saturated<N>(value);
  else return quantise<OUT, N>(value, LOW, HIGH, ZERO_POINT);
}
template <int N> __device__ __forceinline__ void write(
    To<OUT> y, int at, const float (&value)[N]) {
  if constexpr (BITS<OUT> == 32) {
    Raw<OUT, N> raw;
    #pragma unroll
    for (int i = 0; i < N; ++i) raw.word[i] = __float_as_uint(value[i]);
    store<OUT, N>(y + at, raw);
  } else if constexpr (IS_HALF<OUT>) {
    store<OUT, N>(y + at, halves<N>(value));
  } else if constexpr (IS_BRAIN<OUT>) {
    store<OUT, N>(y + at, brains<N>(value));
  } else {
    store<OUT, N>(y + at, integers<N>(value));
  }
}
"""
WRITE = _WRITE.replace("AT_ONCE", "false")
"""CUDA of write<N>(y, at, values): N neighbouring outputs, rounded, and clamped if integers."""

WRITE_AT_ONCE = _WRITE.replace("AT_ONCE", "true")
"""The same for warps of one row, where integers of even zero points take fewer instructions."""


class Quantised(Protocol):
    """How a formula's output becomes integers."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def zero_point(self) -> float: ...


def bounds(formula: Quantised) -> str:
    """C++ constants LOW, HIGH and ZERO_POINT of a formula's output."""
    names = {"LOW": formula.low, "HIGH": formula.high, "ZERO_POINT": formula.zero_point}
    return "".join(
        f"constexpr float {name} = {float_literal(value)};\n" for name, value in names.items()
    )


def float_literal(value: float) -> str:
    """A finite number in C++, rounded to float32."""
    return f"{float(np.float32(value)).hex()}f"
