"""CUDA source of products of long vectors: from a warp's sums to the outputs of its columns.

Bytes are made of squares, two columns of two rows, which is what `stmatrix` takes of a lane, of
eight rows by 16 columns, up to four of these at once. Terms of rows lie in shared memory and are
read two eights of rows ahead: read where they are used, each would be waited for behind the store
before.
"""

from __future__ import annotations

FINISH_ROWS = r"""
// What the epilogue takes for the rows of a vector row, in shared memory: read from the L2 where a
// product ends, each eight of them would be waited for.
struct RowTerms {
  Total* bias;
  __device__ __forceinline__ void fetch(const Constants& from, int first, int thread) const {
    if constexpr (ONE_SCALE) return;
    for (int i = thread; i < VECTOR; i += 32 * CONSUMERS) {
      const unsigned to = (unsigned)__cvta_generic_to_shared(bias + i);
      start_copy(to, reinterpret_cast<const Total*>(from.bias) + first + i);
      const unsigned scales = (unsigned)__cvta_generic_to_shared(bias + VECTOR) + 4 * i;
      if constexpr (!WIDE) start_copy(scales, from.scale + first + i);
      if constexpr (FLOAT_BIAS) start_copy(scales + 4 * VECTOR, from.scale + TERMS + first + i);
    }
  }
  // Not waited for: products go on meanwhile.
  template <typename T> static __device__ __forceinline__ void start_copy(
      unsigned to, const T* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(to), "l"(from), "n"(sizeof(T)) : "memory");
  }
  __device__ __forceinline__ Rows of(int row) const {
    const float* scale = reinterpret_cast<const float*>(bias + VECTOR);
    Rows rows = {};
    if constexpr (ONE_SCALE) return rows;
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      rows.bias[r] = bias[row + r];
      if constexpr (!WIDE) rows.scale[r] = scale[row + r];
      if constexpr (FLOAT_BIAS) rows.shift[r] = scale[VECTOR + row + r];
    }
    return rows;
  }
};

__device__ __forceinline__ void write(uint4* to, const uint4& sixteen) {
  if constexpr (STREAMED) __stcs(to, sixteen);
  else *to = sixteen;
}
// Eights of rows that are staged together, and of which one stmatrix stores all tiles; tiles of an
// epilogue.
constexpr int FEW = STAGES_Y ? 4 / sizeof(OUT) : 4;
constexpr int STAGED_EIGHTS = EIGHTS < FEW ? EIGHTS : FEW;
constexpr int STORED_EIGHTS = TURNS && TILES == 1 ? STAGED_EIGHTS : 1;
constexpr int FINISHED = COLUMNS / 16, MATRICES = STORED_EIGHTS * TILES;
constexpr int AHEAD = 2;  // of eights whose terms are read
template <Form FORM> struct Is { static constexpr Form value = FORM; };

// Of some matrices, each eight rows by 16 columns of bytes, all that a lane has. to: in shared
// memory, a row of a matrix of each lane.
__device__ __forceinline__ void store_matrices(unsigned to, const unsigned (&words)[MATRICES]) {
  if constexpr (MATRICES == 4)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  if constexpr (MATRICES == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                 :: "r"(to), "r"(words[0]), "r"(words[1]) : "memory");
}
// A square of a tile: two columns of a row and two of the next.
template <Form FORM> __device__ __forceinline__ unsigned square_of(
    const int (&sums)[TILE_SUMS], int j, const Rows& rows, const Channels& own,
    const Constants& from) {
  int planes[PLANES][V];
  #pragma unroll
  for (int plane = 0; plane < PLANES; ++plane)
    #pragma unroll
    for (int e = 0; e < V; ++e)
      planes[plane][e] = sums[plane * PLANE_SUMS + 4 * j + e % 2 * 2 + e / 2];
  return group_outputs<FORM>(planes, rows, BOTH_ROWS, own, from, 0).word[0];
}

// Bytes, and 16-bit floats of floats, go through shared memory, where a warpgroup's columns of some
// rows lie together, so that whole lines are written: a warp alone has 32 bytes of a row. Others
// are whole sectors as they are.
template <Form FORM> __device__ __forceinline__ void finish_rows(
    const int (&sums)[TILES][TILE_SUMS], const Channels& own, const Constants& from, OUT* y,
    const RowTerms& terms, unsigned char* staging, int first_row, int column, const Lane& lane,
    int warp) {
  constexpr int PIECE = 16 / sizeof(OUT), ROW_PIECES = 64 * TILES / PIECE;
  constexpr int Y_PITCH = 64 * TILES + PIECE;
  constexpr int ALL_PIECES = 8 * STAGED_EIGHTS * ROW_PIECES, HALF = 8 * STAGED_EIGHTS * Y_PITCH;
  constexpr bool WHOLE_ROWS = M % VECTOR == 0, WHOLE_COLUMNS = N % TILE == 0;
  const int own_column = warp % 4 * 16 * TILES, thread = warp % 4 * 32 + lane.number;
  const int matrix = lane.number / 8 % MATRICES;
  const unsigned turned = (unsigned)__cvta_generic_to_shared(staging) + own_column +
      (matrix / TILES * 8 + lane.number % 8) * Y_PITCH + matrix % TILES * 16;
  const int own_terms = 2 * (lane.number % 4);
  Rows ahead[AHEAD];
  #pragma unroll
  for (int j = 0; j < AHEAD && j < EIGHTS; ++j) ahead[j] = terms.of(8 * j + own_terms);
  unsigned words[MATRICES];
  #pragma unroll
  for (int j = 0; j < EIGHTS; ++j) {
    // The other half is still read when warps are at the next rows.
    OUT* staged = reinterpret_cast<OUT*>(staging) + j / STAGED_EIGHTS % 2 * HALF;
    if (!WHOLE_ROWS && j % STORED_EIGHTS == 0 && first_row + 8 * j >= M) break;
    const Rows rows = ahead[j % AHEAD];
    if (j + AHEAD < EIGHTS) ahead[j % AHEAD] = terms.of(8 * (j + AHEAD) + own_terms);
    if constexpr (TURNS) {
      #pragma unroll
      for (int i = 0; i < TILES; ++i)
        words[j % STORED_EIGHTS * TILES + i] = square_of<FORM>(sums[i], j, rows, own, from);
      const int above = j / STORED_EIGHTS * STORED_EIGHTS % (2 * STAGED_EIGHTS);
      if (j % STORED_EIGHTS == STORED_EIGHTS - 1)
        store_matrices(turned + above * 8 * Y_PITCH, words);
    } else {
      #pragma unroll
      for (int i = 0; i < TILES; i += FINISHED) {
        int eight[ALL_SUMS];
        #pragma unroll
        for (int e = 0; e < ALL_SUMS; ++e)
          eight[e] = sums[i + e % SUMS / 4][e / SUMS * PLANE_SUMS + 4 * j + e % 4];
        const Lane there = {lane.number, lane.column + 16 * i};
        if constexpr (STAGES_Y) {
          OUT* to = staged + j % STAGED_EIGHTS * 8 * Y_PITCH + own_column + 16 * i;
          to += lane.column - column;
          finish_group<FORM, Y_PITCH>(eight, rows, own, from, to, first_row + 8 * j, there);
        } else {
          finish_group<FORM>(eight, rows, own, from, y, first_row + 8 * j, there);
        }
      }
    }
    const bool ends = j % STAGED_EIGHTS == STAGED_EIGHTS - 1 ||
        (!WHOLE_ROWS && j % STORED_EIGHTS == STORED_EIGHTS - 1 && first_row + 8 * (j + 1) >= M);
    if (STAGES_Y && ends) {
      const int above = first_row + 8 * (j - j % STAGED_EIGHTS);
      asm volatile("bar.sync %0, 128;" :: "r"(2 + warp / 4) : "memory");
      #pragma unroll
      for (int first = 0; first < ALL_PIECES; first += 128) {
        const int piece = first + thread, row = piece / ROW_PIECES;
        const int at = piece % ROW_PIECES * PIECE, there = column - own_column + at;
        const bool inside = ALL_PIECES % 128 == 0 || piece < ALL_PIECES;
        const bool here = WHOLE_ROWS || (row <= j % STAGED_EIGHTS * 8 + 7 && above + row < M);
        if (inside && here && (WHOLE_COLUMNS || there < N))
          write(reinterpret_cast<uint4*>(y + (above + row) * N + there),
                *reinterpret_cast<const uint4*>(staged + row * Y_PITCH + at));
      }
    }
  }
}

// All rows of a vector row, of the columns of the warps that share its terms, which meet at a
// barrier. column: a warp's first one.
__device__ __forceinline__ void finish_tile(
    const int (&sums)[TILES][TILE_SUMS], const Channels& own, const Constants& from, OUT* y,
    const RowTerms& terms, unsigned char* staging, int first_row, int column, int warp, int number,
    int barrier) {
  const Lane lane = {number, column + number / 4 * (FLOATS ? 1 : NIBBLES ? 4 : 2)};
  // The terms are there, and all warps have left the ring, where a block of one tile stages bytes.
  // Bytes of one scale have no terms, and staged in two halves no warp writes what is still read,
  // if each tile ends with the second one.
  constexpr bool FREE =
      ONE_SCALE && PERSISTENT && TURNS && EIGHTS > STAGED_EIGHTS && M % VECTOR == 0;
  if constexpr (!FREE) {
    asm volatile("cp.async.wait_all;" ::: "memory");
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "n"(32 * CONSUMERS) : "memory");
  }
  const auto finish_all = [&](auto form) {
    finish_rows<decltype(form)::value>(
        sums, own, from, y, terms, staging, first_row, column, lane, warp);
  };
  if (SHORT && is_short(own)) finish_all(Is<SHORT ? Form::PACK : Form::ANY>());
  else if (SHIFTS && own.form == Form::SHIFT) finish_all(Is<SHIFTS ? Form::SHIFT : Form::ANY>());
  else finish_all(Is<LAST>());
}
"""
"""What follows the last product."""
