"""CUDA source for moving vectors of 4-bit, byte or wider values between memory and registers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.functions import DeviceFunction

_FORMATS = r"""
template <bool> struct Nibbles { unsigned char pair; };
struct Half { unsigned short bits; };
struct Brain { unsigned short bits; };
template <class T> struct Format {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr int bits = 8 * sizeof(T);
};
template <bool S> struct Format<Nibbles<S>> {
  static constexpr bool is_signed = S;
  static constexpr int bits = 4;
};
template <> struct Format<Half> {
  static constexpr bool is_signed = true;
  static constexpr int bits = 16;
};
template <> struct Format<Brain> : Format<Half> {};
template <class T> constexpr bool IS_HALF = false;
template <> constexpr bool IS_HALF<Half> = true;
template <class T> constexpr bool IS_BRAIN = false;
template <> constexpr bool IS_BRAIN<Brain> = true;
template <class T> constexpr bool SIGNED = Format<T>::is_signed;
template <class T> constexpr int BITS = Format<T>::bits;

template <class T> struct From {
  const void* start;
  __device__ __forceinline__ From(const void* pointer) : start(pointer) {}
  __device__ __forceinline__ const T* operator+(int i) const {
    return static_cast<const T*>(start) + (BITS<T> == 4 ? i / 2 : i);
  }
};
template <class T> struct To {
  void* start;
  __device__ __forceinline__ To(void* pointer) : start(pointer) {}
  __device__ __forceinline__ T* operator+(int i) const {
    return static_cast<T*>(start) + (BITS<T> == 4 ? i / 2 : i);
  }
};
"""

_MEMORY = r"""
template <class T, int V> struct Raw { unsigned word[(V * BITS<T> + 31) / 32]; };

template <class T, int V> __device__ __forceinline__ Raw<T, V> load(const T* from) {
  constexpr int bytes = V * BITS<T> / 8, unit = bytes % 16 == 0 ? 16 : bytes & -bytes;
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
  constexpr int bytes = V * BITS<T> / 8, unit = bytes % 16 == 0 ? 16 : bytes & -bytes;
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

template <class T> __device__ __forceinline__ Raw<T, 1> load_one(From<T> from, int i) {
  if constexpr (BITS<T> == 4) {
    return {(unsigned)__ldg(reinterpret_cast<const unsigned char*>(from + i)) >> (4 * (i % 2))};
  } else {
    return load<T, 1>(from + i);
  }
}
"""

PACKED_VALUES = _FORMATS + _MEMORY
"""Source for a `DeviceNamespace`.

Nibbles<is_signed>: the type of 4-bit values, two of which share a byte. Half and Brain: those of
float16 (IS_HALF) and bfloat16 (IS_BRAIN). From<T>, To<T>: parameters that take the address of an
array of values; adding the index of a value, an even one for nibbles, gives its pointer. Raw<T, V>:
V values of type T in words. load<T, V>(pointer), store(pointer, raw): the widest accesses that V
allows; the pointer is aligned to the largest power of two, at most 16, that divides their bytes.
load_one(from, i): any one value.
"""


def _value_type(dtype: str) -> str:
    """The type that stands for values of a dtype."""
    found = element(dtype)
    if found.packed:
        return f"Nibbles<{'true' if found.range and found.range[0] < 0 else 'false'}>"
    return {"float16": "Half", "bfloat16": "Brain"}.get(dtype, found.c_type)


def vector_values(row: int, *dtypes: str) -> int:
    """Values of one vector: the widest of at most 16 bytes that divides rows of `row` values.

    A vector holds 4 values where one of the dtypes is float32, else 16.
    """
    return math.gcd(row, 4 if "float32" in dtypes else 16)


class DeviceNamespace:
    """CUDA source in a namespace of its own, named by a hash of its content.

    Kernels may then be linked together whatever their helpers are called. types are names in the
    source that stand for dtypes, constants names that stand for integers.
    """

    header = PACKED_VALUES
    """Source in front of all."""

    def __init__(
        self, name: str, source: str, types: Mapping[str, str], constants: Mapping[str, int]
    ) -> None:
        lines = [f"using {key} = {_value_type(dtype)};" for key, dtype in types.items()]
        lines += [f"constexpr int {key} = {int(value)};" for key, value in constants.items()]
        body = "\n".join([self.header, *lines, source])
        self._name = f"{name}_{hashlib.sha256(body.encode()).hexdigest()[:10]}"
        guard = f"AUTOQ_{self._name.upper()}"
        self._source = (
            f"#ifndef {guard}\n#define {guard}\nnamespace {self._name} {{\n{body}\n}}\n#endif\n"
        )

    def function(self, name: str) -> DeviceFunction:
        """The device function `name` that the source defines."""
        return DeviceFunction(f"{self._name}::{name}", self._source)
