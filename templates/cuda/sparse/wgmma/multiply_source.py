"""CUDA source of products of long vectors: what the warpgroups do that multiply.

Fragments are turned a stage at a time, or one instruction's at a time: the former has more products
under way at once, the latter needs few registers.
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
// Eights of rows that are staged together, and tiles of an epilogue, of which two are turned.
constexpr int FEW = STAGES_Y ? 4 / sizeof(OUT) : 4;
constexpr int STAGED_EIGHTS = EIGHTS < FEW ? EIGHTS : FEW;
constexpr int FINISHED = COLUMNS / 16;
constexpr bool TURNS = STAGES_Y && FINISHED > 1 && !NIBBLES;
template <Form FORM> struct Is { static constexpr Form value = FORM; };

// Two tiles of eight rows as bytes: what a lane has of a tile, two columns of its two rows, is what
// stmatrix takes. to: in shared memory, a row of a tile of each lane.
template <Form FORM> __device__ __forceinline__ void stage_turned(
    const int (&sums)[ALL_SUMS], const Rows& rows, const Channels& own, const Constants& from,
    unsigned to) {
  static_assert(V == 4 && OWN == 4);
  unsigned words[2];
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    const auto sum = [&](int plane, int c) { return sums[place_of_sum(plane, c, r)]; };
    words[r] = row_outputs<FORM, V>(sum, rows, r, own, from, 0).word[0];
  }
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
               :: "r"(to), "r"(__byte_perm(words[0], words[1], 0x5410)),
                  "r"(__byte_perm(words[0], words[1], 0x7632)) : "memory");
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
  const unsigned turned = (unsigned)__cvta_generic_to_shared(staging) + own_column +
      lane.number % 8 * Y_PITCH + lane.number / 8 % 2 * 16;
  #pragma unroll
  for (int j = 0; j < EIGHTS; ++j) {
    // The other half is still read when warps are at the next rows.
    OUT* staged = reinterpret_cast<OUT*>(staging) + j / STAGED_EIGHTS % 2 * HALF;
    if (!WHOLE_ROWS && first_row + 8 * j >= M) break;
    const Rows rows = terms.of(8 * j + 2 * (lane.number % 4));
    #pragma unroll
    for (int i = 0; i < TILES; i += FINISHED) {
      int eight[ALL_SUMS];
      #pragma unroll
      for (int e = 0; e < ALL_SUMS; ++e)
        eight[e] = sums[i + e % SUMS / 4][e / SUMS * PLANE_SUMS + 4 * j + e % 4];
      const Lane there = {lane.number, lane.column + 16 * i};
      if constexpr (TURNS) {
        const int above = j / STAGED_EIGHTS % 2 * HALF + j % STAGED_EIGHTS * 8 * Y_PITCH;
        stage_turned<FORM>(eight, rows, own, from, turned + above + 16 * i);
      } else if constexpr (STAGES_Y) {
        OUT* to = staged + j % STAGED_EIGHTS * 8 * Y_PITCH + own_column + 16 * i;
        to += lane.column - column;
        finish_group<FORM, Y_PITCH>(eight, rows, own, from, to, first_row + 8 * j, there);
      } else {
        finish_group<FORM>(eight, rows, own, from, y, first_row + 8 * j, there);
      }
    }
    const bool last =
        j % STAGED_EIGHTS == STAGED_EIGHTS - 1 || (!WHOLE_ROWS && first_row + 8 * (j + 1) >= M);
    if (STAGES_Y && last) {
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
"""
"""What follows the last product."""

MULTIPLY_SOURCE = r"""
constexpr unsigned long long LAYOUT =
    (unsigned long long)VECTOR << 16 | (unsigned long long)(128 >> 4) << 32;

template <int LATER> __device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LATER) : "memory");
}
using Fragment = unsigned[4 * SIZE];
__device__ __forceinline__ void read_pairs(unsigned (&r)[4], unsigned rows) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(rows) : "memory");
}
// The fragment of one of a warp's tiles of 16 columns.
__device__ __forceinline__ void turn_rows(Fragment& a, unsigned rows, int tile) {
  if constexpr (NIBBLES) {  // two tiles have columns in the same bytes
    unsigned r[4];
    read_pairs(r, rows + tile / 2 * 16);
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned two = __byte_perm(r[2 * half], r[2 * half + 1], tile % 2 ? 0x7531 : 0x6420);
      a[2 * half] = two << 4 & 0xf0f0f0f0;
      a[2 * half + 1] = two & 0xf0f0f0f0;
    }
  } else if constexpr (FLOATS) {
    rows += tile * 16 * SIZE;
    #pragma unroll
    for (int i = 0; i < SIZE; ++i) {  // eights of columns
      unsigned r[4];
      read_pairs(r, rows + 16 * i);
      #pragma unroll
      for (int e = 0; e < 4; ++e) a[2 * e + i] = r[e];
    }
  } else {
    unsigned r[4];
    read_pairs(r, rows + tile * 16);
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      a[2 * half] = __byte_perm(r[2 * half], r[2 * half + 1], 0x6420);
      a[2 * half + 1] = __byte_perm(r[2 * half], r[2 * half + 1], 0x7531);
    }
  }
  // All are ready in front of the fence, or the compiler lets products wait for each other.
  #pragma unroll
  for (int e = 0; e < 4 * SIZE; ++e) asm volatile("" : "+r"(a[e]) :: "memory");
}
// Values of a stage: for 32 rows and a digit, or 16 rows of floats, two columns of 16 bytes, each
// of eights of rows.
__device__ __forceinline__ void multiply_rows(
    int (&sums)[TILE_SUMS], const Fragment& a, unsigned values, int depth) {
  const auto part = [&](int i) {
    const unsigned own = values + (depth * SIZE * LEFT_DIGITS + i) * VECTOR * 32;
    return LAYOUT | (own & 0x3ffff) >> 4;
  };
  #pragma unroll
  for (int i = 0; i < SIZE; ++i) multiply_tile<0>(sums, a + 4 * i, part(i));
  if constexpr (LEFT_DIGITS == 2) multiply_tile<1>(sums + PLANE_SUMS, a, part(1));
}

"""
"""Fragments of gathered rows, and one product."""

WHOLE_STAGES = r"""
__device__ __forceinline__ void multiply_stages(
    int (&sums)[TILES][TILE_SUMS], const Ring& ring, const VectorRow& row, Position& at,
    unsigned lane_place, int number) {
  Fragment a[DEPTHS][TILES], b[DEPTHS][TILES];
  int before = -1;
  const auto step = [&](Fragment (&own)[DEPTHS][TILES]) {
    wait_for(ring.full(at.stage), at.phase);
    const unsigned rows = ring.rows(at.stage) + lane_place;
    #pragma unroll
    for (int d = 0; d < DEPTHS; ++d)
      #pragma unroll
      for (int i = 0; i < TILES; ++i) turn_rows(own[d][i], rows + 32 * d * PITCH, i);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int d = 0; d < DEPTHS; ++d)
      #pragma unroll
      for (int i = 0; i < TILES; ++i) multiply_rows(sums[i], own[d][i], ring.stage(at.stage), d);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    wait_for_products<1>();
    if (before >= 0) leave(ring, before, number);
    before = at.stage;
    at.advance();
  };
  // A last stage that was cut.
  const auto cut_step = [&](int left) {
    wait_for(ring.full(at.stage), at.phase);
    const unsigned rows = ring.rows(at.stage) + lane_place;
    #pragma unroll
    for (int d = 0; d < DEPTHS - 1; ++d) {
      if (32 * d >= left) break;
      #pragma unroll
      for (int i = 0; i < TILES; ++i) turn_rows(a[d][i], rows + 32 * d * PITCH, i);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      #pragma unroll
      for (int i = 0; i < TILES; ++i) multiply_rows(sums[i], a[d][i], ring.stage(at.stage), d);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      wait_for_products<0>();
    }
    if (before >= 0) leave(ring, before, number);
    before = at.stage;
    at.advance();
  };
  // Of a stage that is not cut more rows are left than these.
  constexpr int CUT = CUTS_LAST ? ROWS - 32 : 0;
  int left = row.length;
  #pragma unroll 1
  for (; left > ROWS + CUT; left -= 2 * ROWS) {
    step(a);
    step(b);
  }
  wait_for_products<0>();
  if (left > CUT) {
    step(a);
    wait_for_products<0>();
    left -= ROWS;
  }
  if (CUTS_LAST && left > 0) cut_step(left);
  if (before >= 0) leave(ring, before, number);
}
"""
"""Products of stages whose fragments are turned together.

The loop is over pairs of stages, whose fragments have registers of their own, without a branch
between them: else products wait for each other.
"""

SINGLE_PRODUCTS = r"""
__device__ __forceinline__ void multiply_stages(
    int (&sums)[TILES][TILE_SUMS], const Ring& ring, const VectorRow& row, Position& at,
    unsigned lane_place, int number) {
  constexpr int PRODUCTS = DEPTHS * TILES, LATER = PRODUCTS > 1 ? 1 : 0;
  Fragment a[2];  // of the instruction under way and of the next one
  int before = -1;
  #pragma unroll 1
  for (int left = row.length; left > 0; left -= ROWS) {
    const unsigned rows = ring.rows(at.stage) + lane_place, values = ring.stage(at.stage);
    wait_for(ring.full(at.stage), at.phase);
    #pragma unroll
    for (int p = 0; p < PRODUCTS; ++p) {
      wait_for_products<LATER>();
      // Of the stage before, no product is under way now.
      if (p == LATER && before >= 0) leave(ring, before, number);
      turn_rows(a[p % 2], rows + p / TILES * 32 * PITCH, p % TILES);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      multiply_rows(sums[p % TILES], a[p % 2], values, p / TILES);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    before = at.stage;
    at.advance();
  }
  wait_for_products<0>();
  if (before >= 0) leave(ring, before, number);
}
"""
"""Products whose fragments are turned one after the other."""
