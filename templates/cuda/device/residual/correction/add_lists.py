"""CUDA source that adds the entries of lists, times residuals, to a warp's tile of sums."""

ADD_LISTS = r"""
constexpr int STEPS = COLUMNS / 32, LANES = COLUMNS / 16;
constexpr int BESIDE = 32 / LANES, TURNS = ROWS / BESIDE;
// Where a sum lies in a warp's tile: neither lanes with neighbouring columns of a row nor those
// with 16 columns each of neighbouring rows meet in a bank.
__device__ __forceinline__ int place(int row, int column) {
  const int exchanged = COLUMNS < 128 ? column / 32 ^ row % 2 * 2 : column / 32;
  return row * COLUMNS + (column ^ exchanged * 4);
}
// Four entries and of each the residuals of its k; a list is filled up to fours with zeros.
template <int WORDS> struct Four { unsigned values, word[4][WORDS]; };
__device__ __forceinline__ unsigned values_of(const uint4& e) {
  return __byte_perm(__byte_perm(e.x, e.y, 0x0040), __byte_perm(e.z, e.w, 0x0040), 0x5410);
}
__device__ __forceinline__ uint4 read_four(const uint4* entries, const int2& list, int e) {
  return e < list.y ? __ldg(entries + list.x + e) : make_uint4(0, 0, 0, 0);
}
__device__ __forceinline__ void take(const uint4& v, unsigned (&word)[4]) {
  word[0] = v.x, word[1] = v.y, word[2] = v.z, word[3] = v.w;
}
__device__ __forceinline__ void take(const uint2& v, unsigned (&word)[2]) {
  word[0] = v.x, word[1] = v.y;
}
// Of a panel in shared memory, or of rows of `pitch` bytes in global memory.
template <int WORDS, bool SHARED> __device__ __forceinline__ Four<WORDS> gather(
    const unsigned char* residuals, unsigned pitch, const uint4& entries) {
  Four<WORDS> found;
  const unsigned entry[4] = {entries.x, entries.y, entries.z, entries.w};
  found.values = values_of(entries);
  #pragma unroll
  for (int u = 0; u < 4; ++u) {
    const unsigned char* from = residuals + (entry[u] >> 8) * pitch;
    if constexpr (WORDS == 4) {
      const uint4* whole = reinterpret_cast<const uint4*>(from);
      if constexpr (SHARED) take(*whole, found.word[u]); else take(__ldg(whole), found.word[u]);
    } else {
      const uint2* half = reinterpret_cast<const uint2*>(from);
      if constexpr (SHARED) take(*half, found.word[u]); else take(__ldg(half), found.word[u]);
    }
  }
  return found;
}
// Words are turned, so that each product adds all four entries to one of the neighbours.
template <int WORDS> __device__ __forceinline__ void add_four(
    const Four<WORDS>& found, int (&sums)[4 * WORDS]) {
  #pragma unroll
  for (int w = 0; w < WORDS; ++w) {
    const unsigned four[4] = {found.word[0][w], found.word[1][w], found.word[2][w],
                              found.word[3][w]};
    unsigned turned[4];
    turn_four(four, turned);
    #pragma unroll
    for (int i = 0; i < 4; ++i)
      sums[4 * w + i] = __dp4a((int)turned[i], (int)found.values, sums[4 * w + i]);
  }
}
__device__ __forceinline__ bool any(bool one) { return __any_sync(0xffffffffu, one); }
// What the columns' entries add to all rows of the tile: a lane has a column. first: their first
// entries. Lists of a warp end together, the shorter ones with zeros.
__device__ __forceinline__ void add_columns(
    const unsigned char* residuals, unsigned pitch, const uint4* entries,
    const int2 (&lists)[STEPS], const uint4 (&first)[STEPS], int* tile, int lane) {
  #pragma unroll
  for (int s = 0; s < STEPS; ++s) {
    int sums[ROWS] = {};
    uint4 next = first[s];
    for (int e = 0; any(e < lists[s].y); ++e) {
      const Four<ROWS / 4> found = gather<ROWS / 4, HELD>(residuals, pitch, next);
      next = read_four(entries, lists[s], e + 1);
      add_four(found, sums);
    }
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) tile[place(i, 32 * s + lane)] = sums[i];
  }
}
// What the rows' entries add: a lane has 16 columns of TURNS rows. found: of their first entries.
__device__ __forceinline__ void add_rows(
    const unsigned char* residuals, const uint4* entries, const int2 (&lists)[TURNS],
    Four<4> (&found)[TURNS], bool begun, int* tile, int lane) {
  int sums[TURNS][16] = {};
  bool more = true;
  for (int e = 0; more; ++e) {
    uint4 next[TURNS];
    more = false;
    #pragma unroll
    for (int t = 0; t < TURNS; ++t) {
      next[t] = read_four(entries, lists[t], e + 1);
      more |= e + 1 < lists[t].y;
    }
    more = any(more);
    #pragma unroll
    for (int t = 0; t < TURNS; ++t) {
      add_four(found[t], sums[t]);
      if (more) found[t] = gather<4, false>(residuals, PIECE, next[t]);
    }
  }
  #pragma unroll
  for (int i = 0; i < 16; i += 4) {
    int* first = tile + place(lane / LANES, lane % LANES * 16 + i);
    #pragma unroll
    for (int t = 0; t < TURNS; ++t) {
      int4* at = reinterpret_cast<int4*>(first + t * BESIDE * COLUMNS);
      int4 all = begun ? *at : make_int4(0, 0, 0, 0);
      all.x += sums[t][i], all.y += sums[t][i + 1];
      all.z += sums[t][i + 2], all.w += sums[t][i + 3];
      *at = all;
    }
  }
}
"""
"""add_columns(...) and add_rows(...): what lists add to a warp's tile of ROWS by COLUMNS, each
sum at its `place(row, column)`. For a namespace with `TURN_WORDS` and the constants ROWS, COLUMNS,
PIECE, bytes of a row of b's residuals, and HELD: whether those of a are in shared memory."""
