// mma.sync and mma.sp.sync: products of fragments in registers, n = 8.
#pragma once

#include "products.h"

namespace ptx {

enum Accumulator { A_S32, A_F32, A_F16 };

// Lane and register of accumulators: pairs of columns of rows lane / 4 and, for 16 rows, 8 below.
template <class T, class F>
inline void each_accumulator(Matrix<T>& d, F f) {
  const int blocks = d.rows / 8, count = d.rows * d.columns / LANES;
  for (int number = 0; number < count; ++number)
    for (int lane = 0; lane < LANES; ++lane)
      f(number, lane,
        d.at(number / 2 % blocks * 8 + lane / 4, number / (2 * blocks) * 8 + lane % 4 * 2 + number % 2));
}

template <class T>
inline void take_accumulators(Matrix<T>& d, const uint32_t* const* registers, int kind) {
  each_accumulator(d, [&](int number, int lane, T& value) {
    if (kind == A_F16) {
      const uint32_t word = registers[number / 2][lane];
      value = T(to_float(half_t{uint16_t(word >> 16 * (number % 2))}));
    } else {
      value = std::bit_cast<T>(registers[number][lane]);
    }
  });
}

template <class T>
inline void give_accumulators(Matrix<T>& d, uint32_t* const* registers, int kind) {
  each_accumulator(d, [&](int number, int lane, T& value) {
    if (kind == A_F16) {
      uint32_t& word = registers[number / 2][lane];
      const uint32_t half = to_half(float(value)).bits;
      word = number % 2 ? (word & 0xffff) | half << 16 : half;
    } else {
      registers[number][lane] = std::bit_cast<uint32_t>(value);
    }
  });
}

// operands: d, a, b, c, then metadata; modifier: m, k, elements of a and b, accumulator, -1 or
// the selector of a sparse A.
template <class T>
inline Outcome multiply_as(Warp& w, const Instruction& in) {
  const int m = in.modifier[0], k = in.modifier[1], kind = in.modifier[4], selector = in.modifier[5];
  const int stored = selector >= 0 ? k / 2 : k;
  const int a_count = m * stored * element_bits(in.modifier[2]) / 1024;
  const int b_count = 8 * k * element_bits(in.modifier[3]) / 1024;
  const int d_count = m * 8 / LANES / (kind == A_F16 ? 2 : 1);
  const int32_t* operand = in.operand + d_count;
  const uint32_t *from[8];
  auto take = [&](int count) {
    for (int i = 0; i < count; ++i) from[i] = source(w, *operand++);
    return from;
  };
  Matrix<T> a = fragment<T>(take(a_count), m, stored, in.modifier[2]);
  const Matrix<T> b = transposed(fragment<T>(take(b_count), 8, k, in.modifier[3]));
  Matrix<T> d(m, 8);
  take_accumulators(d, take(d_count), kind);
  if (selector >= 0) a = spread(a, source(w, *operand), selector);
  add_product(d, a, b);
  uint32_t out[4][LANES] = {};
  uint32_t* const to[4] = {out[0], out[1], out[2], out[3]};
  give_accumulators(d, to, kind);
  for (int i = 0; i < d_count; ++i) put(w, in.operand[i], out[i]);
  return DONE;
}

inline Outcome multiply(Warp& w, const Instruction& in) {
  return is_floating(in.modifier[2]) ? multiply_as<float>(w, in) : multiply_as<int32_t>(w, in);
}

inline void add_mma(Table& t) { t.add("mma", multiply, true); }

}  // namespace ptx
