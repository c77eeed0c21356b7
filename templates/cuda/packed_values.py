"""CUDA source for moving, reading and requantising vectors of int8, uint8 or float32 values.

A byte u of a word is the float 2**23 + u once 0x4B lies above it, and a float of that size has its
integer in its last bits, ties to even: conversions cost one permutation or one addition where the
conversion instructions run at a quarter of the rate. Products and sums are rounded one by one
(__fmul_rn, __fadd_rn never contract). Bounds of integer outputs are whole numbers within the
output's range less its zero point.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

from autoq.templates.tiles.requantise import C_TYPES, DeviceFunction

_MEMORY = r"""
template <class T> constexpr bool SIGNED = T(-1) < T(0);

template <class T, int V> struct Raw { unsigned word[(V * sizeof(T) + 3) / 4]; };

template <class T, int V> __device__ __forceinline__ Raw<T, V> load(const T* from) {
  constexpr int bytes = V * sizeof(T), unit = bytes % 16 == 0 ? 16 : bytes & -bytes;
  Raw<T, V> raw;
  #pragma unroll
  for (int i = 0; i < (bytes + 3) / 4; ++i) raw.word[i] = 0;
  #pragma unroll
  for (int i = 0; i < bytes / unit; ++i) {
    if constexpr (unit == 16) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(from) + i);
      raw.word[4 * i] = v.x, raw.word[4 * i + 1] = v.y;
      raw.word[4 * i + 2] = v.z, raw.word[4 * i + 3] = v.w;
    } else if constexpr (unit == 8) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(from) + i);
      raw.word[2 * i] = v.x, raw.word[2 * i + 1] = v.y;
    } else if constexpr (unit == 4) {
      raw.word[i] = __ldg(reinterpret_cast<const unsigned*>(from) + i);
    } else if constexpr (unit == 2) {
      const unsigned v = __ldg(reinterpret_cast<const unsigned short*>(from) + i);
      raw.word[i / 2] |= v << (16 * (i % 2));
    } else {
      const unsigned v = __ldg(reinterpret_cast<const unsigned char*>(from) + i);
      raw.word[i / 4] |= v << (8 * (i % 4));
    }
  }
  return raw;
}

template <class T, int V> __device__ __forceinline__ void store(T* to, const Raw<T, V>& raw) {
  constexpr int bytes = V * sizeof(T), unit = bytes % 16 == 0 ? 16 : bytes & -bytes;
  const unsigned* w = raw.word;
  #pragma unroll
  for (int i = 0; i < bytes / unit; ++i) {
    if constexpr (unit == 16) {
      reinterpret_cast<uint4*>(to)[i] =
          make_uint4(w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]);
    } else if constexpr (unit == 8) {
      reinterpret_cast<uint2*>(to)[i] = make_uint2(w[2 * i], w[2 * i + 1]);
    } else if constexpr (unit == 4) {
      reinterpret_cast<unsigned*>(to)[i] = w[i];
    } else if constexpr (unit == 2) {
      reinterpret_cast<unsigned short*>(to)[i] = (unsigned short)(w[i / 2] >> (16 * (i % 2)));
    } else {
      reinterpret_cast<unsigned char*>(to)[i] = (unsigned char)(w[i / 4] >> (8 * (i % 4)));
    }
  }
}
"""

_READ = r"""
template <class T> struct Zero { float offset; };

template <class T> __device__ __forceinline__ Zero<T> zero(float zero_point) {
  if constexpr (sizeof(T) == 4) return {zero_point};
  constexpr float bias = SIGNED<T> ? 8388736.f : 8388608.f;
  return {__fadd_rn(bias, zero_point)};
}

template <class T, int V> __device__ __forceinline__ float number(
    const Raw<T, V>& raw, int i, Zero<T> zero) {
  if constexpr (sizeof(T) == 4) return __fsub_rn(__uint_as_float(raw.word[i]), zero.offset);
  const unsigned word = raw.word[i / 4] ^ (SIGNED<T> ? 0x80808080u : 0u);
  const float u = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7440u + i % 4));
  return __fsub_rn(u, zero.offset);
}
"""

_QUANTISE = r"""
__device__ __forceinline__ unsigned add_bytes(unsigned a, unsigned b) {
  return ((a & 0x7f7f7f7fu) + (b & 0x7f7f7f7fu)) ^ ((a ^ b) & 0x80808080u);
}

template <class T, int V> __device__ __forceinline__ Raw<T, V> quantise(
    const float (&value)[V], float low, float high, float zero_point) {
  Raw<T, V> raw;
  unsigned bits[(V + 3) / 4 * 4];
  #pragma unroll
  for (int i = 0; i < (V + 3) / 4 * 4; ++i) {
    const float clamped = fminf(fmaxf(value[i < V ? i : 0], low), high);
    if constexpr (sizeof(T) == 4) {
      if (i < V) raw.word[i] = __float_as_uint(clamped);
    }
    bits[i] = __float_as_uint(__fadd_rn(clamped, 12582912.f));
  }
  if constexpr (sizeof(T) == 1) {
    const unsigned zero = __float_as_uint(__fadd_rn(zero_point, 12582912.f)) & 0xffu;
    #pragma unroll
    for (int i = 0; i < (V + 3) / 4; ++i) {
      const unsigned ab = __byte_perm(bits[4 * i], bits[4 * i + 1], 0x0040);
      const unsigned cd = __byte_perm(bits[4 * i + 2], bits[4 * i + 3], 0x0040);
      raw.word[i] = add_bytes(__byte_perm(ab, cd, 0x5410), zero * 0x01010101u);
    }
  }
  return raw;
}
"""

PACKED_VALUES = _MEMORY + _READ + _QUANTISE
"""Source for a `DeviceNamespace`.

Raw<T, V>: V values of type T in words. load<T, V>(pointer), store(pointer, raw): the widest
accesses that V allows; the pointer is aligned to the largest power of two, at most 16, that
divides their bytes. number(raw, i, zero<T>(zero_point)): value i less the zero point, as float.
quantise<T, V>(values, low, high, zero_point): clamp(rint(value)) + zero_point for bytes,
clamp(value) for float32.
"""


def vector_values(row: int, *dtypes: str) -> int:
    """Values of one vector: the widest of at most 16 bytes that divides rows of `row` values.

    A vector holds 16 values where every dtype is a byte and 4 where one of them is float32.
    """
    return math.gcd(row, 4 if "float32" in dtypes else 16)


class DeviceNamespace:
    """CUDA source in a namespace of its own, named by a hash of its content.

    Kernels may then be linked together whatever their helpers are called. types are names in the
    source that stand for dtypes, constants names that stand for integers.
    """

    def __init__(
        self, name: str, source: str, types: Mapping[str, str], constants: Mapping[str, int]
    ) -> None:
        lines = [f"using {key} = {C_TYPES[dtype]};" for key, dtype in types.items()]
        lines += [f"constexpr int {key} = {int(value)};" for key, value in constants.items()]
        body = "\n".join([*lines, PACKED_VALUES, source])
        self._name = f"{name}_{hashlib.sha256(body.encode()).hexdigest()[:10]}"
        guard = f"AUTOQ_{self._name.upper()}"
        self._source = (
            f"#ifndef {guard}\n#define {guard}\nnamespace {self._name} {{\n{body}\n}}\n#endif\n"
        )

    def function(self, name: str) -> DeviceFunction:
        """The device function `name` that the source defines."""
        return DeviceFunction(f"{self._name}::{name}", self._source)
