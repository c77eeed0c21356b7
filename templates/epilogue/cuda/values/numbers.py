"""CUDA source for reading vectors of quantised values as floats, and for making such vectors.

A byte u of a word is the float 2**23 + u once 0x4B lies above it, and a float of that size has its
integer in its last bits: conversions cost one permutation or one addition where the conversion
instructions run at a quarter of the rate. Products and sums are rounded one by one (__fmul_rn,
__fadd_rn never contract, nor do sums of what is no product). Bounds of integer outputs are whole
numbers within the output's range less its zero point.
"""

from __future__ import annotations

from autoq.templates.cuda.device.memory.packed_values import PACKED_VALUES, DeviceNamespace
from autoq.templates.epilogue.cuda.values.elements import BYTES4, CLAMPED

_READ = r"""
template <class T> struct Zero { float offset; };

template <class T> __device__ __forceinline__ Zero<T> zero(float zero_point) {
  if constexpr (BITS<T> == 32 || IS_HALF<T> || IS_BRAIN<T>) return {zero_point};
  constexpr float bias = 8388608.f + (SIGNED<T> ? (1 << BITS<T> % 32) / 2 : 0);
  return {bias + zero_point};
}

template <class T, int V> __device__ __forceinline__ float number(
    const Raw<T, V>& raw, int i, Zero<T> zero) {
  // Differences and sums of what is no product are not contracted, and the compiler drops a zero.
  if constexpr (BITS<T> == 32) return __uint_as_float(raw.word[i]) - zero.offset;
  if constexpr (IS_HALF<T>) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((unsigned short)(raw.word[i / 2] >> 16 * (i % 2))));
    return v - zero.offset;
  }
  if constexpr (IS_BRAIN<T>) {
    const unsigned word = raw.word[i / 2];
    return __uint_as_float(i % 2 ? word & 0xffff0000u : word << 16) - zero.offset;
  }
  if constexpr (BITS<T> == 4) {
    const unsigned nibble = (raw.word[i / 8] >> (4 * (i % 8)) & 15u) ^ (SIGNED<T> ? 8u : 0u);
    return __fsub_rn(__uint_as_float(nibble | 0x4B000000u), zero.offset);
  }
  if constexpr (V == 1) {
    const unsigned above = 0x4B000000u | (SIGNED<T> ? 0x80u : 0u);
    return __uint_as_float(raw.word[0] ^ above) - zero.offset;
  }
  const unsigned word = raw.word[i / 4] ^ (SIGNED<T> ? 0x80808080u : 0u);
  const float u = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7440u + i % 4));
  return u - zero.offset;
}
"""

_QUANTISE = r"""
// The low nibbles of four bytes in the lower half of a word.
__device__ __forceinline__ unsigned low_nibbles(unsigned bytes) {
  bytes &= 0x0f0f0f0fu;
  return __byte_perm(bytes | bytes >> 4, 0u, 0x4420);
}

// Integers in the last bits of floats to which 1.5 * 2^23 was added, and then the zero point.
template <class T, int V> __device__ __forceinline__ Raw<T, V> pack(
    const unsigned (&bits)[(V + 3) / 4 * 4], float zero_point) {
  Raw<T, V> raw;
  const unsigned zero = __float_as_uint(zero_point + 12582912.f) - 0x4B400000u;
  if constexpr (V == 1 && BITS<T> == 8) {
    raw.word[0] = (bits[0] + zero) & 0xffu;
    return raw;
  }
  #pragma unroll
  for (int i = 0; i < (V + 3) / 4; ++i) {
    const unsigned ab = bytes2(bits[4 * i], bits[4 * i + 1]);
    const unsigned cd = bytes2(bits[4 * i + 2], bits[4 * i + 3]);
    const unsigned four = bytes4(ab, cd, zero & 0xffu);
    if constexpr (BITS<T> == 8) raw.word[i] = four;
    else raw.word[i / 2] = i % 2 ? raw.word[i / 2] | low_nibbles(four) << 16 : low_nibbles(four);
  }
  return raw;
}

template <class T, int V> __device__ __forceinline__ Raw<T, V> quantise(
    const float (&value)[V], float low, float high, float zero_point) {
  Raw<T, V> raw;
  unsigned bits[(V + 3) / 4 * 4];
  #pragma unroll
  for (int i = 0; i < (V + 3) / 4 * 4; ++i) {
    const float number = value[i < V ? i : 0];
    const float within = clamped(number, low, high);
    if constexpr (BITS<T> == 32) {
      if (i < V) raw.word[i] = __float_as_uint(number != number ? number : within);
    }
    bits[i] = __float_as_uint(__fadd_rn(within, 12582912.f));
  }
  if constexpr (BITS<T> < 32) raw = pack<T, V>(bits, zero_point);
  return raw;
}
"""

_HALVES = r"""
__device__ __forceinline__ unsigned half_bits(float v) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
template <int V> __device__ __forceinline__ Raw<Half, V> halves(const float (&value)[V]) {
  Raw<Half, V> raw = {};
  #pragma unroll
  for (int i = 0; i < V; ++i) raw.word[i / 2] |= half_bits(value[i]) << 16 * (i % 2);
  return raw;
}
// Half to even; the carry of what is rounded up reaches the exponent. NaN keeps its upper bits.
__device__ __forceinline__ unsigned brain_bits(float v) {
  const unsigned bits = __float_as_uint(v), odd = bits >> 16 & 1u;
  return v != v ? bits >> 16 | 0x40u : (bits + 0x7fffu + odd) >> 16;
}
template <int V> __device__ __forceinline__ Raw<Brain, V> brains(const float (&value)[V]) {
  Raw<Brain, V> raw = {};
  #pragma unroll
  for (int i = 0; i < V; ++i) raw.word[i / 2] |= brain_bits(value[i]) << 16 * (i % 2);
  return raw;
}
"""

NUMBERS = _READ + (CLAMPED + BYTES4).replace("_@", "") + _QUANTISE + _HALVES
"""Source behind `PACKED_VALUES`.

number(raw, i, zero<T>(zero_point)): value i of a `Raw<T, V>` less the zero point, as float.
halves<V>(values), brains<V>(values): floats rounded to float16, to bfloat16.
quantise<T, V>(values, low, high, zero_point): clamp(rint(value)) + zero_point for integers,
clamp(value) for float32. pack<T, V>(bits, zero_point): the same integers from bits of clamped
values to which 1.5 * 2**23 was added.
"""


class NumberNamespace(DeviceNamespace):
    """A `DeviceNamespace` whose source may call what `NUMBERS` defines."""

    header = PACKED_VALUES + NUMBERS
