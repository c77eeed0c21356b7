// What tensor cores compute: D [16, n] += A [16, k] * B [k, n], with A's 2:4 sparsity undone.
#pragma once

#include "halves.h"

namespace ptx {

// Element types by the number that `Parser` gives.
enum Element { E_S4, E_U4, E_S8, E_U8, E_F16, E_BF16, E_E4M3, E_TF32 };

inline bool is_floating(int element) { return element >= E_F16; }
inline int element_bits(int element) {
  if (element == E_TF32) return 32;
  return element <= E_U4 ? 4 : element == E_F16 || element == E_BF16 ? 16 : 8;
}

inline int32_t integer_element(uint32_t bits, int element) {
  switch (element) {
    case E_S4: return int32_t(bits << 28) >> 28;
    case E_U4: return bits & 15;
    case E_S8: return int8_t(bits);
    default: return uint8_t(bits);
  }
}

inline float float_element(uint32_t bits, int element) {
  if (element == E_F16) return to_float(half_t{uint16_t(bits)});
  if (element == E_BF16) return to_float(bfloat_t{uint16_t(bits)});
  if (element == E_TF32) return std::bit_cast<float>(bits & 0xffffe000u);  // what lies below is not read
  static const std::vector<float> table = [] {
    std::vector<float> values(256);
    for (int i = 0; i < 256; ++i) values[i] = to_float_e4m3(i);
    return values;
  }();
  return table[bits & 0xff];
}

template <class T>
inline T element_of(uint32_t bits, int element) {
  if constexpr (std::is_same_v<T, float>) return float_element(bits, element);
  else return integer_element(bits, element);
}

// Rows x columns of accumulators or factors, row by row.
template <class T>
struct Matrix {
  int rows, columns;
  std::vector<T> values;
  Matrix(int r, int c) : rows(r), columns(c), values(size_t(r) * c) {}
  T& at(int r, int c) { return values[size_t(r) * columns + c]; }
  T at(int r, int c) const { return values[size_t(r) * columns + c]; }
};

template <class T>
__attribute__((optimize("O3"))) inline void add_product(Matrix<T>& d, const Matrix<T>& a, const Matrix<T>& b) {
  using Sum = std::conditional_t<std::is_same_v<T, float>, float, uint32_t>;
  const int k = a.columns, n = b.columns;
  for (int first = 0; first < n; first += 8) {
    for (int row = 0; row < d.rows; ++row) {
      Sum sum[8];
      for (int j = 0; j < 8; ++j) sum[j] = d.at(row, first + j);
      const T* factors = &a.values[size_t(row) * k];
      const T* column = &b.values[first];
      for (int i = 0; i < k; ++i, column += n)
        for (int j = 0; j < 8; ++j) sum[j] += Sum(factors[i]) * Sum(column[j]);
      for (int j = 0; j < 8; ++j) d.at(row, first + j) = sum[j];
    }
  }
}

// A factor of which each lane holds words of `rows` rows: register r of a lane holds neighbouring
// columns of row r % (rows / 8) * 8 + lane / 4.
template <class T>
inline Matrix<T> fragment(const uint32_t* const* registers, int rows, int columns, int element) {
  const int bits = element_bits(element), per_word = 32 / bits, blocks = rows / 8;
  const int count = blocks * columns / (4 * per_word);
  Matrix<T> out(rows, columns);
  for (int r = 0; r < count; ++r)
    for (int lane = 0; lane < LANES; ++lane)
      for (int i = 0; i < per_word; ++i)
        out.at(r % blocks * 8 + lane / 4, (r / blocks * 4 + lane % 4) * per_word + i) =
            element_of<T>(registers[r][lane] >> bits * i, element);
  return out;
}

template <class T>
inline Matrix<T> transposed(const Matrix<T>& m) {
  Matrix<T> out(m.columns, m.rows);
  for (int r = 0; r < m.rows; ++r)
    for (int c = 0; c < m.columns; ++c) out.at(c, r) = m.at(r, c);
  return out;
}

// The matrix [16, 2 k] of stored values [16, k]: two of every four columns, at the places that the
// metadata of the lanes says.
template <class T>
inline Matrix<T> spread(const Matrix<T>& stored, const uint32_t* metadata, int selector) {
  const int k = stored.columns * 2;
  Matrix<T> out(16, k);
  for (int lane = 0; lane < LANES; ++lane) {
    if (k == 32 && lane % 4 / 2 != selector) continue;
    for (int i = 0; i < 8; ++i) {
      const int below = k == 64 ? lane % 2 : i / 4;
      const int chunk = k == 64 ? lane % 4 / 2 * 8 + i : lane % 2 * 4 + i % 4;
      const int row = below * 8 + lane / 4;
      const uint32_t places = metadata[lane] >> 4 * i & 15, low = places & 3, high = places >> 2;
      if (low >= high) throw Fault("metadata of a sparse factor: places are not in order");
      out.at(row, chunk * 4 + low) = stored.at(row, chunk * 2);
      out.at(row, chunk * 4 + high) = stored.at(row, chunk * 2 + 1);
    }
  }
  return out;
}

}  // namespace ptx
