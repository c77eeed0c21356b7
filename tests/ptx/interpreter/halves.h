// 16-bit and 8-bit floats as float32, and back with rounding to nearest even or towards zero.
#pragma once

#include <cmath>

#include "core.h"

namespace ptx {

inline float to_float(half_t h) {
  uint32_t sign = uint32_t(h.bits & 0x8000) << 16, rest = h.bits & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // A product with 2^112 makes subnormal halves normal floats.
  float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

inline float to_float(bfloat_t b) { return std::bit_cast<float>(uint32_t(b.bits) << 16); }
inline float to_float(float f) { return f; }

// A finite non-negative value as a float of `mantissa` bits, whose least normal exponent is
// `least`: the integer of exponent and mantissa, which may exceed the format's largest.
inline uint32_t rounded(double value, int mantissa, int least, bool to_zero) {
  if (value == 0) return 0;
  int exponent = std::ilogb(value);
  int unit = (exponent < least ? least : exponent) - mantissa;
  double units = std::ldexp(value, -unit);
  double whole = to_zero ? std::trunc(units) : std::nearbyint(units);
  uint32_t count = uint32_t(whole);
  if (exponent < least) return count;
  return (uint32_t(exponent - least) << mantissa) + count;
}

// The nearest of a narrow float to it is the nearest to the double: inexact mantissas become odd.
inline float odd(double value) {
  float near = float(value);
  if (double(near) == value || !(std::fabs(value) < INFINITY) || std::isinf(near)) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (std::fabs(double(near)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

inline half_t to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  // Adding a half aligns subnormal values to units of 2^-24.
  float shifted = std::bit_cast<float>(bits) + 0.5f;
  uint32_t small = std::bit_cast<uint32_t>(shifted) - 0x3f000000;
  uint32_t normal = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
  uint32_t large = bits > 0x7f800000 ? 0x7fff : 0x7c00;
  uint32_t half = bits < 0x38800000 ? small : bits >= 0x477ff000 ? large : normal;
  return {uint16_t(bits > 0x7f800000 ? half : sign | half)};
}
inline half_t to_half(double value) { return to_half(odd(value)); }

inline bfloat_t to_bfloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t near = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return {uint16_t((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : near)};
}
inline bfloat_t to_bfloat(double value) { return to_bfloat(odd(value)); }

inline half_t to_half_towards_zero(float value) {
  uint32_t bits = rounded(std::fabs(value), 10, -14, true);
  return {uint16_t((std::signbit(value) ? 0x8000 : 0) | (bits >= 0x7c00 ? 0x7bff : bits))};
}

inline float to_float_e4m3(uint8_t bits) {
  int exponent = bits >> 3 & 15, mantissa = bits & 7;
  float value = exponent ? std::ldexp(8.f + mantissa, exponent - 10) : std::ldexp(float(mantissa), -9);
  if ((bits & 0x7f) == 0x7f) value = std::nanf("");
  return bits & 0x80 ? -value : value;
}

// Saturates to finite values, as every cvt to e4m3 does.
inline uint8_t to_e4m3(float value) {
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return 0x7f;
  double size = std::fabs(value);
  uint32_t bits = size > 448 ? 0x7e : rounded(size, 3, -6, false);
  return sign | (bits > 0x7e ? 0x7e : bits);
}

template <class T>
inline T narrowed(double value) {
  if constexpr (std::is_same_v<T, half_t>) return to_half(value);
  else if constexpr (std::is_same_v<T, bfloat_t>) return to_bfloat(value);
  else return T(value);
}

template <class T>
inline T narrowed(float value) {
  if constexpr (std::is_same_v<T, half_t>) return to_half(value);
  else if constexpr (std::is_same_v<T, bfloat_t>) return to_bfloat(value);
  else return T(value);
}

}  // namespace ptx
