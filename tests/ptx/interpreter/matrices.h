// ldmatrix, stmatrix and movmatrix: 8 x 8 matrices of 16 bits between shared memory and fragments.
#pragma once

#include "memory.h"

namespace ptx {

// Where the rows lie: lanes 0-7 point at the first matrix, 8-15 at the second.
inline uint8_t* matrix_row(Warp& w, const int32_t* operand, int matrix, int row, int bits) {
  const int lane = matrix * 8 + row;
  const uint64_t address = address_of(w, operand, bits, lane);
  if (address % 16) throw Fault("a row of a matrix is not aligned to 16 bytes");
  return resolve(w, lane, bits == 64 ? GENERIC : SHARED, address, 16, false);
}

// modifier: matrices, whether transposed, bits of the base.
inline Outcome load_matrices(Warp& w, const Instruction& in) {
  const int count = in.modifier[0];
  for (int m = 0; m < count; ++m) {
    uint16_t matrix[8][8];
    for (int row = 0; row < 8; ++row) {
      const uint8_t* from = matrix_row(w, in.operand + count, m, row, in.modifier[2]);
      std::memcpy(matrix[row], from, 16);
      note_read(w, m * 8 + row, from, 16);
    }
    uint32_t out[LANES];
    for (int lane = 0; lane < LANES; ++lane) {
      const int g = lane / 4, c = lane % 4 * 2;
      out[lane] = in.modifier[1] ? matrix[c][g] | uint32_t(matrix[c + 1][g]) << 16
                                 : matrix[g][c] | uint32_t(matrix[g][c + 1]) << 16;
    }
    put(w, in.operand[m], out);
  }
  return DONE;
}

inline Outcome store_matrices(Warp& w, const Instruction& in) {
  const int count = in.modifier[0];
  for (int m = 0; m < count; ++m) {
    const uint32_t* from = source(w, in.operand[2 + m]);
    uint16_t matrix[8][8];
    for (int lane = 0; lane < LANES; ++lane)
      for (int i = 0; i < 2; ++i) {
        const int g = lane / 4, c = lane % 4 * 2 + i;
        (in.modifier[1] ? matrix[c][g] : matrix[g][c]) = uint16_t(from[lane] >> 16 * i);
      }
    for (int row = 0; row < 8; ++row) {
      uint8_t* to = matrix_row(w, in.operand, m, row, in.modifier[2]);
      std::memcpy(to, matrix[row], 16);
      note_write(w, m * 8 + row, to, 16);
    }
  }
  return DONE;
}

inline Outcome move_matrix(Warp& w, const Instruction& in) {
  const uint32_t* from = source(w, in.operand[1]);
  uint32_t out[LANES] = {};
  for (int lane = 0; lane < LANES; ++lane)
    for (int i = 0; i < 2; ++i) {
      const int row = lane / 4, column = lane % 4 * 2 + i;
      out[column * 4 + row / 2] |= (from[lane] >> 16 * i & 0xffff) << 16 * (row % 2);
    }
  put(w, in.operand[0], out);
  return DONE;
}

inline void add_matrices(Table& t) {
  t.add("ldmatrix", load_matrices, true);
  t.add("stmatrix", store_matrices, true);
  t.add("movmatrix", move_matrix, true);
}

}  // namespace ptx
