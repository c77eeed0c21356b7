// Instructions over floats of 16, 32 and 64 bits, and over pairs of 16 bits.
//
// Approximations are computed in double precision and rounded once, which is within what the PTX
// ISA allows the hardware.
#pragma once

#include "halves.h"

namespace ptx {

template <class T>
inline auto wide_of(T a) {
  if constexpr (std::is_same_v<T, double>) return a;
  else return to_float(a);
}

// -0 is less than +0, and a NaN loses against a number.
template <class T>
inline T least(T a, T b) {
  auto x = wide_of(a), y = wide_of(b);
  if (x != x) return b;
  if (y != y) return a;
  return x < y || (x == y && std::signbit(x)) ? a : b;
}

template <class T>
inline T most(T a, T b) {
  auto x = wide_of(a), y = wide_of(b);
  if (x != x) return b;
  if (y != y) return a;
  return x > y || (x == y && !std::signbit(x)) ? a : b;
}

// A NaN wins.
template <class T>
inline T least_or_nan(T a, T b) {
  auto x = wide_of(a), y = wide_of(b);
  return x != x ? a : y != y ? b : least(a, b);
}

template <class T>
inline T most_or_nan(T a, T b) {
  auto x = wide_of(a), y = wide_of(b);
  return x != x ? a : y != y ? b : most(a, b);
}

template <class T>
inline T fused(T a, T b, T c) {
  if constexpr (std::is_same_v<T, float>) return __builtin_fmaf(a, b, c);
  else if constexpr (std::is_same_v<T, double>) return std::fma(a, b, c);
  else return narrowed<T>(double(to_float(a)) * to_float(b) + to_float(c));
}

template <class T>
inline T rectified_float(T a) {
  return wide_of(a) > 0 || wide_of(a) != wide_of(a) ? a : T{};
}

inline float saturated(float a) { return a > 0 ? (a < 1 ? a : 1.f) : 0.f; }

// The same instruction over both 16-bit floats of a register.
template <class T, size_t N, class F>
void pairs_of(Table& t, const std::string& name, F) {
  t.add(name + "." + Name<T>::text + "x2", [](Warp& w, const Instruction& in) {
    auto low = [](uint32_t a) { return T{uint16_t(a)}; };
    auto high = [](uint32_t a) { return T{uint16_t(a >> 16)}; };
    auto both = [](T x, T y) { return uint32_t(x.bits) | uint32_t(y.bits) << 16; };
    if constexpr (N == 1) {
      return lanes<uint32_t, uint32_t>(
          w, in, [=](uint32_t a) { return both(F{}(low(a)), F{}(high(a))); });
    } else if constexpr (N == 2) {
      return lanes<uint32_t, uint32_t, uint32_t>(w, in, [=](uint32_t a, uint32_t b) {
        return both(F{}(low(a), low(b)), F{}(high(a), high(b)));
      });
    } else {
      return lanes<uint32_t, uint32_t, uint32_t, uint32_t>(
          w, in, [=](uint32_t a, uint32_t b, uint32_t c) {
            return both(F{}(low(a), low(b), low(c)), F{}(high(a), high(b), high(c)));
          });
    }
  });
}

template <class F>
void every_unary(Table& t, const std::string& name, F f) {
  unary<half_t, bfloat_t, float, double>(t, name, f);
  pairs_of<half_t, 1>(t, name, f);
  pairs_of<bfloat_t, 1>(t, name, f);
}

template <class F>
void every_binary(Table& t, const std::string& name, F f) {
  binary<half_t, bfloat_t, float, double>(t, name, f);
  pairs_of<half_t, 2>(t, name, f);
  pairs_of<bfloat_t, 2>(t, name, f);
}

template <class F>
void every_ternary(Table& t, const std::string& name, F f) {
  ternary<half_t, bfloat_t, float, double>(t, name, f);
  pairs_of<half_t, 3>(t, name, f);
  pairs_of<bfloat_t, 3>(t, name, f);
}

// Of sums and products the result is that of exact arithmetic, rounded once: a float holds more
// than twice the bits of a 16-bit float.
inline void add_sums(Table& t) {
  every_binary(t, "add", [](auto a, auto b) {
    return narrowed<decltype(a)>(wide_of(a) + wide_of(b));
  });
  every_binary(t, "sub", [](auto a, auto b) {
    return narrowed<decltype(a)>(wide_of(a) - wide_of(b));
  });
  every_binary(t, "mul", [](auto a, auto b) {
    return narrowed<decltype(a)>(wide_of(a) * wide_of(b));
  });
  every_ternary(t, "fma", [](auto a, auto b, auto c) { return fused(a, b, c); });
  auto fused_relu = [](auto a, auto b, auto c) { return rectified_float(fused(a, b, c)); };
  pairs_of<half_t, 3>(t, "fma.relu", fused_relu);
  pairs_of<bfloat_t, 3>(t, "fma.relu", fused_relu);
  every_binary(t, "min", [](auto a, auto b) { return least(a, b); });
  every_binary(t, "max", [](auto a, auto b) { return most(a, b); });
  every_binary(t, "min.NaN", [](auto a, auto b) { return least_or_nan(a, b); });
  every_binary(t, "max.NaN", [](auto a, auto b) { return most_or_nan(a, b); });
  every_unary(t, "neg", [](auto a) { return narrowed<decltype(a)>(-wide_of(a)); });
  every_unary(t, "abs", [](auto a) { return narrowed<decltype(a)>(std::fabs(wide_of(a))); });
  binary<float>(t, "add.sat", [](float a, float b) { return saturated(a + b); });
  binary<float>(t, "mul.sat", [](float a, float b) { return saturated(a * b); });
  ternary<float>(t, "fma.sat", [](float a, float b, float c) {
    return saturated(__builtin_fmaf(a, b, c));
  });
}

// a * b + c rounded down, up or to zero: the nearest float, and one further where it lies on the
// other side of the exact sum, which is that of two doubles.
template <char Way>
inline float directed(float a, float b, float c) {
  const double product = double(a) * b, sum = product + c;
  const double part = sum - product, error = (product - (sum - part)) + (c - part);
  const float near = float(sum);
  if (!std::isfinite(near)) return near;
  const double above = (double(near) - sum) - error;
  const bool down = Way == 'm' || (Way == 'z' && sum > 0), up = Way == 'p' || (Way == 'z' && sum < 0);
  if (down && above > 0) return std::nextafter(near, -INFINITY);
  if (up && above < 0) return std::nextafter(near, INFINITY);
  return near;
}

template <char Way>
void directed_sums(Table& t) {
  const std::string way = std::string(".r") + Way;
  ternary<float>(t, "fma" + way, [](float a, float b, float c) { return directed<Way>(a, b, c); });
  binary<float>(t, "add" + way, [](float a, float b) { return directed<Way>(a, 1, b); });
  binary<float>(t, "sub" + way, [](float a, float b) { return directed<Way>(a, 1, -b); });
  binary<float>(t, "mul" + way, [](float a, float b) { return directed<Way>(a, b, -0.f); });
}

// A subnormal number becomes a zero of its sign.
inline float flushed(float a) { return std::fabs(a) < 0x1p-126f ? std::copysign(0.f, a) : a; }

template <class F>
void flushing_unary(Table& t, const std::string& name, F) {
  unary<float>(t, name + ".ftz", [](float a) { return flushed(F{}(flushed(a))); });
}

template <class F>
void flushing_binary(Table& t, const std::string& name, F) {
  binary<float>(t, name + ".ftz", [](float a, float b) {
    return flushed(F{}(flushed(a), flushed(b)));
  });
}

inline void add_flushing(Table& t) {
  flushing_binary(t, "add", [](float a, float b) { return a + b; });
  flushing_binary(t, "sub", [](float a, float b) { return a - b; });
  flushing_binary(t, "mul", [](float a, float b) { return a * b; });
  flushing_binary(t, "div", [](float a, float b) { return a / b; });
  flushing_binary(t, "min", [](float a, float b) { return least(a, b); });
  flushing_binary(t, "max", [](float a, float b) { return most(a, b); });
  ternary<float>(t, "fma.ftz", [](float a, float b, float c) {
    return flushed(__builtin_fmaf(flushed(a), flushed(b), flushed(c)));
  });
  flushing_unary(t, "rcp", [](float a) { return 1 / a; });
  flushing_unary(t, "sqrt", [](float a) { return std::sqrt(a); });
  flushing_unary(t, "rsqrt", [](float a) -> float { return 1 / std::sqrt(double(a)); });
  flushing_unary(t, "ex2", [](float a) -> float { return std::exp2(double(a)); });
  flushing_unary(t, "lg2", [](float a) -> float { return std::log2(double(a)); });
}

inline void add_functions(Table& t) {
  binary<float, double>(t, "div", [](auto a, auto b) { return a / b; });
  unary<float, double>(t, "sqrt", [](auto a) { return std::sqrt(a); });
  unary<float, double>(t, "rcp", [](auto a) { return 1 / a; });
  unary<float>(t, "rsqrt", [](float a) { return 1 / std::sqrt(double(a)); });
  every_unary(t, "ex2", [](auto a) { return narrowed<decltype(a)>(std::exp2(double(wide_of(a)))); });
  every_unary(t, "tanh", [](auto a) { return narrowed<decltype(a)>(std::tanh(double(wide_of(a)))); });
  unary<float>(t, "lg2", [](float a) { return std::log2(double(a)); });
  unary<float>(t, "sin", [](float a) { return std::sin(double(a)); });
  unary<float>(t, "cos", [](float a) { return std::cos(double(a)); });
  binary<float, double>(t, "copysign", [](auto a, auto b) { return std::copysign(b, a); });
}

inline void add_floats(Table& t) {
  add_sums(t);
  add_functions(t);
  add_flushing(t);
  directed_sums<'m'>(t);
  directed_sums<'p'>(t);
  directed_sums<'z'>(t);
}

}  // namespace ptx
