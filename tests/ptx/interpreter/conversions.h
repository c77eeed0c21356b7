// cvt: from any type to any other, by way of a wide integer or a double.
#pragma once

#include <limits>
#include <utility>

#include "halves.h"

namespace ptx {

// How cvt rounds to an integer or a shorter float: nearest even, zero, down, up.
enum Rounding { NEAREST, ZERO, DOWN, UP };

// Types by the number that `Parser` gives; E4M3 is of 8 bits.
enum Type { S8, U8, S16, U16, S32, U32, S64, U64, F16, BF16, F32, F64 };

inline bool is_float(int type) { return type >= F16; }
inline int bits_of(int type) {
  constexpr int bits[] = {8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64};
  return bits[type];
}

inline double whole(double a, int rounding) {
  switch (rounding) {
    case ZERO: return std::trunc(a);
    case DOWN: return std::floor(a);
    case UP: return std::ceil(a);
    default: return std::nearbyint(a);
  }
}

struct Values {
  __int128 integer[LANES];
  double real[LANES];
};

inline double real_of(uint64_t raw, int type) {
  switch (type) {
    case F16: return to_float(half_t{uint16_t(raw)});
    case BF16: return to_float(bfloat_t{uint16_t(raw)});
    case F32: return std::bit_cast<float>(uint32_t(raw));
    default: return std::bit_cast<double>(raw);
  }
}

inline __int128 integer_of(uint64_t raw, int type) {
  switch (type) {
    case S8: return int8_t(raw);
    case U8: return uint8_t(raw);
    case S16: return int16_t(raw);
    case U16: return uint16_t(raw);
    case S32: return int32_t(raw);
    case U32: return uint32_t(raw);
    case S64: return int64_t(raw);
    default: return raw;
  }
}

inline __int128 limited(__int128 a, int type) {
  const int bits = bits_of(type);
  const bool is_signed = type % 2 == 0;
  const __int128 one = 1, high = (one << (bits - is_signed)) - 1, low = is_signed ? ~high : 0;
  return a < low ? low : a > high ? high : a;
}

// A float rounded to an integer of a type, which it saturates to.
inline __int128 integer_from(double a, int type, int rounding) {
  if (a != a) return 0;
  a = whole(a, rounding);
  if (a >= 0x1p100) a = 0x1p100;
  if (a <= -0x1p100) a = -0x1p100;
  return limited(__int128(a), type);
}

inline uint64_t raw_of(double a, int type, int rounding) {
  switch (type) {
    case F16:
      return rounding == ZERO ? to_half_towards_zero(float(a)).bits : to_half(a).bits;
    case BF16: return to_bfloat(a).bits;
    case F32: return std::bit_cast<uint32_t>(float(a));
    default: return std::bit_cast<uint64_t>(a);
  }
}

inline float float_from(__int128 a) { return a < 0 ? -float(uint64_t(-a)) : float(uint64_t(a)); }

inline uint64_t read_raw(const Warp& w, int32_t operand, int bits, int lane) {
  const uint32_t* words = source(w, operand);
  return bits == 64 ? reinterpret_cast<const uint64_t*>(words)[lane] : words[lane];
}

inline void write_raw(Warp& w, int32_t operand, int bits, const uint64_t* raw) {
  if (bits == 64) return put(w, operand, raw);
  uint32_t words[LANES];
  for (int lane = 0; lane < LANES; ++lane) words[lane] = bits == 16 ? raw[lane] & 0xffff : raw[lane];
  put(w, operand, words);
}

inline uint64_t converted(uint64_t raw, int to, int from, int rounding, bool saturate, bool integral) {
  if (!is_float(from)) {
    __int128 a = integer_of(raw, from);
    if (!is_float(to)) return uint64_t(saturate ? limited(a, to) : integer_of(uint64_t(a), to));
    if (to == F32) return std::bit_cast<uint32_t>(float_from(a));
    return raw_of(double(a), to, rounding);
  }
  double a = real_of(raw, from);
  if (!is_float(to)) return uint64_t(integer_from(a, to, rounding));
  if (integral) a = whole(a, rounding), rounding = NEAREST;
  if (saturate) a = a > 0 ? (a < 1 ? a : 1) : 0;
  if (rounding != NEAREST && bits_of(to) < bits_of(from) && to != F16)
    throw Fault("cvt rounds to this float in a way that is not known here");
  return raw_of(a, to, rounding);
}

// modifier: types of result and source, rounding, 1 to saturate + 2 for a whole result, bits of
// the registers of result and source.
inline Outcome convert(Warp& w, const Instruction& in) {
  const int32_t* m = in.modifier;
  uint64_t out[LANES];
  for (int lane = 0; lane < LANES; ++lane)
    out[lane] = converted(read_raw(w, in.operand[1], m[5], lane), m[0], m[1], m[2], m[3] & 1, m[3] & 2);
  write_raw(w, in.operand[0], m[4], out);
  return DONE;
}

// What epilogues are full of, without the detour.
inline Outcome float_from_s32(Warp& w, const Instruction& in) {
  return lanes<float, int32_t>(w, in, [](int32_t a) { return float(a); });
}

inline Outcome s32_from_float(Warp& w, const Instruction& in) {
  return lanes<int32_t, float>(w, in, [](float a) -> int32_t {
    float near = std::nearbyintf(a);
    if (!(near > -0x1p31f)) return a != a ? 0 : INT32_MIN;
    return near >= 0x1p31f ? INT32_MAX : int32_t(near);
  });
}

// Two floats in one register of 16-bit floats, the first operand above.
template <class T>
inline Outcome pair_from_floats(Warp& w, const Instruction& in) {
  const bool rectify = in.modifier[0];
  return lanes<uint32_t, float, float>(w, in, [rectify](float a, float b) {
    if (rectify) a = a > 0 ? a : a != a ? a : 0, b = b > 0 ? b : b != b ? b : 0;
    return uint32_t(narrowed<T>(a).bits) << 16 | narrowed<T>(b).bits;
  });
}

// cvt.pack.sat: two integers saturated to 8 bits, below them what the third operand has.
template <class T>
inline Outcome packed_bytes(Warp& w, const Instruction& in) {
  return lanes<uint32_t, int32_t, int32_t, uint32_t>(w, in, [](int32_t a, int32_t b, uint32_t c) {
    constexpr int low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    auto fit = [](int32_t x) { return uint32_t(x < low ? low : x > high ? high : x) & 0xff; };
    return c << 16 | fit(a) << 8 | fit(b);
  });
}

inline void add_conversions(Table& t) {
  t.add("cvt", convert);
  t.add("cvt.rn.f32.s32", float_from_s32);
  t.add("cvt.rni.s32.f32", s32_from_float);
  t.add("cvt.f16x2.f32", pair_from_floats<half_t>);
  t.add("cvt.bf16x2.f32", pair_from_floats<bfloat_t>);
  t.add("cvt.e4m3x2.f32", [](Warp& w, const Instruction& in) {
    return lanes<uint16_t, float, float>(w, in, [](float a, float b) -> uint16_t {
      return to_e4m3(a) << 8 | to_e4m3(b);
    });
  });
  t.add("cvt.f16x2.e4m3x2", [](Warp& w, const Instruction& in) {
    return lanes<uint32_t, uint16_t>(w, in, [](uint16_t a) {
      return uint32_t(to_half(to_float_e4m3(a >> 8)).bits) << 16 | to_half(to_float_e4m3(a)).bits;
    });
  });
  t.add("cvt.pack.sat.s8", packed_bytes<int8_t>);
  t.add("cvt.pack.sat.u8", packed_bytes<uint8_t>);
}

}  // namespace ptx
