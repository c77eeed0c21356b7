// Integer and logical instructions.
#pragma once

#include "core.h"

namespace ptx {

template <class T>
inline T shifted_left(T a, uint32_t by) {
  return by >= sizeof(T) * 8 ? T(0) : T(std::make_unsigned_t<T>(a) << by);
}

template <class T>
inline T shifted_right(T a, uint32_t by) {
  constexpr uint32_t bits = sizeof(T) * 8;
  if (by >= bits) return std::is_signed_v<T> && a < 0 ? T(-1) : T(0);
  return T(a >> by);
}

template <class T>
inline T high_product(T a, T b) {
  using Wide = std::conditional_t<
      sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
      std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
  return T(Wide(a) * Wide(b) >> sizeof(T) * 8);
}

// A field of `length` bits from `position`, filled with its sign: the least of both ends.
template <class T>
inline T field(T a, uint32_t position, uint32_t length) {
  constexpr uint32_t bits = sizeof(T) * 8;
  using U = std::make_unsigned_t<T>;
  position &= 0xff, length &= 0xff;
  if (length == 0) return 0;
  U value = position >= bits ? U(0) : U(a) >> position;
  uint32_t last = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
  bool sign = std::is_signed_v<T> && (U(a) >> last & 1);
  if (length >= bits) length = bits;
  U mask = length == bits ? ~U(0) : (U(1) << length) - 1;
  if (position + length > bits) mask = position >= bits ? U(0) : mask >> (position + length - bits);
  value &= mask;
  return T(sign ? value | ~mask : value);
}

template <class U>
inline U inserted(U a, U b, uint32_t position, uint32_t length) {
  position &= 0xff, length &= 0xff;
  U mask = length >= sizeof(U) * 8 ? ~U(0) : (U(1) << length) - 1;
  mask = position >= sizeof(U) * 8 ? U(0) : mask << position;
  U moved = position >= sizeof(U) * 8 ? U(0) : a << position;
  return (moved & mask) | (b & ~mask);
}

inline uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t chosen = selector >> 4 * i & 15, byte = uint32_t(bytes >> 8 * (chosen & 7)) & 0xff;
    if (chosen & 8) byte = byte & 0x80 ? 0xff : 0;
    out |= byte << 8 * i;
  }
  return out;
}

template <class A, class B>
inline int32_t dot4(uint32_t a, uint32_t b, uint32_t c) {
  int32_t sum = int32_t(c);
  for (int i = 0; i < 4; ++i) sum += int32_t(A(a >> 8 * i)) * int32_t(B(b >> 8 * i));
  return sum;
}

template <class A, class B, bool High>
inline int32_t dot2(uint32_t a, uint32_t b, uint32_t c) {
  int32_t sum = int32_t(c);
  for (int i = 0; i < 2; ++i)
    sum += int32_t(A(a >> 16 * i)) * int32_t(B(b >> 8 * (i + 2 * High)));
  return sum;
}

template <class T>
inline T rectified(T a) {
  return a < 0 ? T(0) : a;
}

// f over both halves of a register.
template <class T, class F>
inline uint32_t pairwise(uint32_t a, uint32_t b, F f) {
  uint32_t low = uint16_t(f(T(a), T(b))), high = uint16_t(f(T(a >> 16), T(b >> 16)));
  return low | high << 16;
}

template <class... T, class F>
void shift(Table& t, const std::string& name, F) {
  (t.add(name + "." + Name<T>::text,
         [](Warp& w, const Instruction& in) {
           return lanes<T, T, uint32_t>(w, in, [](T a, uint32_t b) -> T { return F{}(a, b); });
         }), ...);
}

// mul.wide and mad.wide, which double the width.
template <class T, class Wide>
void wide(Table& t) {
  std::string type = Name<T>::text;
  t.add("mul.wide." + type, [](Warp& w, const Instruction& in) {
    return lanes<Wide, T, T>(w, in, [](T a, T b) -> Wide { return Wide(a) * Wide(b); });
  });
  t.add("mad.wide." + type, [](Warp& w, const Instruction& in) {
    return lanes<Wide, T, T, Wide>(
        w, in, [](T a, T b, Wide c) -> Wide { return Wide(a) * Wide(b) + c; });
  });
}

template <class... T>
void fields(Table& t) {
  (t.add(std::string("bfe.") + Name<T>::text,
         [](Warp& w, const Instruction& in) {
           return lanes<T, T, uint32_t, uint32_t>(
               w, in, [](T a, uint32_t b, uint32_t c) { return field<T>(a, b, c); });
         }), ...);
}

// Instructions over 32-bit registers with operands of 32 bits.
template <size_t N, class F>
void words(Table& t, const std::string& name, F) {
  t.add(name, [](Warp& w, const Instruction& in) {
    if constexpr (N == 2) {
      return lanes<uint32_t, uint32_t, uint32_t>(w, in, F{});
    } else {
      return lanes<uint32_t, uint32_t, uint32_t, uint32_t>(w, in, F{});
    }
  });
}

template <class U>
void counts(Table& t, const std::string& type) {
  t.add("popc." + type, [](Warp& w, const Instruction& in) {
    return lanes<uint32_t, U>(w, in, [](U a) -> uint32_t { return std::popcount(a); });
  });
  t.add("clz." + type, [](Warp& w, const Instruction& in) {
    return lanes<uint32_t, U>(w, in, [](U a) -> uint32_t { return std::countl_zero(a); });
  });
  t.add("brev." + type, [](Warp& w, const Instruction& in) {
    return lanes<U, U>(w, in, [](U a) -> U {
      U out = 0;
      for (size_t i = 0; i < sizeof(U) * 8; ++i) out |= (a >> i & 1) << (sizeof(U) * 8 - 1 - i);
      return out;
    });
  });
}

#define PTX_PAIRS(NAME, TYPE, RESULT)                                        \
  words<2>(t, NAME, [](uint32_t a, uint32_t b) {                             \
    return pairwise<TYPE>(a, b, [](auto x, auto y) { return RESULT; });      \
  })
#define PTX_WORDS(NAME, FUNCTION) \
  words<3>(t, NAME, [](uint32_t a, uint32_t b, uint32_t c) -> uint32_t { return FUNCTION(a, b, c); })

inline void add_words(Table& t) {
  PTX_PAIRS("min.s16x2", int16_t, x < y ? x : y);
  PTX_PAIRS("max.s16x2", int16_t, x > y ? x : y);
  PTX_PAIRS("min.u16x2", uint16_t, x < y ? x : y);
  PTX_PAIRS("max.u16x2", uint16_t, x > y ? x : y);
  PTX_PAIRS("min.relu.s16x2", int16_t, rectified(x < y ? x : y));
  PTX_PAIRS("max.relu.s16x2", int16_t, rectified(x > y ? x : y));
  PTX_PAIRS("add.u16x2", uint16_t, x + y);
  PTX_WORDS("prmt", permuted);
  PTX_WORDS("dp4a.s32.s32", (dot4<int8_t, int8_t>));
  PTX_WORDS("dp4a.s32.u32", (dot4<int8_t, uint8_t>));
  PTX_WORDS("dp4a.u32.s32", (dot4<uint8_t, int8_t>));
  PTX_WORDS("dp4a.u32.u32", (dot4<uint8_t, uint8_t>));
  PTX_WORDS("dp2a.lo.s32.s32", (dot2<int16_t, int8_t, false>));
  PTX_WORDS("dp2a.hi.s32.s32", (dot2<int16_t, int8_t, true>));
  PTX_WORDS("dp2a.lo.u32.u32", (dot2<uint16_t, uint8_t, false>));
  PTX_WORDS("dp2a.hi.u32.u32", (dot2<uint16_t, uint8_t, true>));
  PTX_WORDS("shf.l.wrap", [](uint32_t a, uint32_t b, uint32_t c) {
    return uint32_t((uint64_t(b) << 32 | a) << (c & 31) >> 32);
  });
  PTX_WORDS("shf.l.clamp", [](uint32_t a, uint32_t b, uint32_t c) {
    return c >= 32 ? a : uint32_t((uint64_t(b) << 32 | a) << c >> 32);
  });
  PTX_WORDS("shf.r.wrap", [](uint32_t a, uint32_t b, uint32_t c) {
    return uint32_t((uint64_t(b) << 32 | a) >> (c & 31));
  });
  PTX_WORDS("shf.r.clamp", [](uint32_t a, uint32_t b, uint32_t c) {
    return uint32_t((uint64_t(b) << 32 | a) >> (c > 32 ? 32 : c));
  });
  t.add("lop3", [](Warp& w, const Instruction& in) {
    const uint32_t table = in.modifier[0];
    return lanes<uint32_t, uint32_t, uint32_t, uint32_t>(
        w, in, [table](uint32_t a, uint32_t b, uint32_t c) {
          uint32_t out = 0;
          for (int i = 0; i < 8; ++i) {
            uint32_t term = (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
            out |= term & -(table >> i & 1);
          }
          return out;
        });
  });
}

#undef PTX_PAIRS
#undef PTX_WORDS

#define PTX_ALL int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t
#define PTX_UNSIGNED uint16_t, uint32_t, uint64_t

inline void add_integers(Table& t) {
  // Signed and unsigned results have the same bits.
  binary<PTX_UNSIGNED>(t, "add", [](auto a, auto b) { return a + b; });
  binary<PTX_UNSIGNED>(t, "sub", [](auto a, auto b) { return a - b; });
  binary<PTX_UNSIGNED>(t, "mul.lo", [](auto a, auto b) { return uint64_t(a) * b; });
  ternary<PTX_UNSIGNED>(t, "mad.lo", [](auto a, auto b, auto c) { return uint64_t(a) * b + c; });
  binary<PTX_ALL>(t, "mul.hi", [](auto a, auto b) { return high_product(a, b); });
  ternary<PTX_ALL>(t, "mad.hi", [](auto a, auto b, auto c) { return high_product(a, b) + c; });
  binary<PTX_ALL>(t, "min", [](auto a, auto b) { return a < b ? a : b; });
  binary<PTX_ALL>(t, "max", [](auto a, auto b) { return a > b ? a : b; });
  binary<int32_t>(t, "min.relu", [](auto a, auto b) { return rectified(a < b ? a : b); });
  binary<int32_t>(t, "max.relu", [](auto a, auto b) { return rectified(a > b ? a : b); });
  // A divisor of -1 would overflow on the host.
  binary<PTX_ALL>(t, "div", [](auto a, auto b) {
    return b == 0 ? decltype(a)(-1) : std::is_signed_v<decltype(a)> && b == decltype(b)(-1) ? 0 - a : a / b;
  });
  binary<PTX_ALL>(t, "rem", [](auto a, auto b) {
    return b == 0 ? a : std::is_signed_v<decltype(a)> && b == decltype(b)(-1) ? 0 : a % b;
  });
  binary<PTX_UNSIGNED>(t, "and", [](auto a, auto b) { return a & b; });
  binary<PTX_UNSIGNED>(t, "or", [](auto a, auto b) { return a | b; });
  binary<PTX_UNSIGNED>(t, "xor", [](auto a, auto b) { return a ^ b; });
  unary<PTX_UNSIGNED>(t, "not", [](auto a) { return ~a; });
  unary<PTX_UNSIGNED>(t, "neg", [](auto a) { return 0 - a; });
  unary<int16_t, int32_t, int64_t>(t, "abs", [](auto a) { return a < 0 ? 0 - a : a; });
  shift<PTX_UNSIGNED>(t, "shl", [](auto a, uint32_t b) { return shifted_left(a, b); });
  shift<PTX_ALL>(t, "shr", [](auto a, uint32_t b) { return shifted_right(a, b); });
  wide<int16_t, int32_t>(t);
  wide<uint16_t, uint32_t>(t);
  wide<int32_t, int64_t>(t);
  wide<uint32_t, uint64_t>(t);
  fields<int32_t, uint32_t, int64_t, uint64_t>(t);
  counts<uint32_t>(t, "u32");
  counts<uint64_t>(t, "u64");
  t.add("bfi.u32", [](Warp& w, const Instruction& in) {
    return lanes<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>(w, in, inserted<uint32_t>);
  });
  t.add("bfi.u64", [](Warp& w, const Instruction& in) {
    return lanes<uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>(w, in, inserted<uint64_t>);
  });
  add_words(t);
}

}  // namespace ptx
