"""CUDA source that adds the entries of lists, times residuals, to a tile of sums."""

ADD_LISTS = r"""
constexpr int SEGMENTS = TILE_ROWS / 16, BESIDE = 32 / SEGMENTS;
constexpr int PASSES = 128 / (WARPS * BESIDE), OWN_ROWS = TILE_ROWS / WARPS;
constexpr int AHEAD = 8, LANES = SEGMENTS;
// Where a sum lies in its row of the tile: lanes with neighbouring rows, with neighbouring segments
// of 16 columns and with neighbouring words of four meet other banks.
__device__ __forceinline__ int place(int row, int column) {
  return row * 128 + (column ^ (column / 32 % 4 * 4) ^ (row / 16 * BESIDE));
}
// The values of four entries, and of words of neighbours what they are multiplied with: words are
// turned, so that each product adds all four entries to one of the neighbours.
__device__ __forceinline__ unsigned values_of(const unsigned* entry) {
  const unsigned low = __byte_perm(entry[0], entry[1], 0x0040);
  return __byte_perm(low, __byte_perm(entry[2], entry[3], 0x0040), 0x5410);
}
__device__ __forceinline__ void add_four(
    int* to, unsigned w, unsigned x, unsigned y, unsigned z, unsigned values) {
  const unsigned a = __byte_perm(w, x, 0x5140), b = __byte_perm(y, z, 0x5140);
  const unsigned c = __byte_perm(w, x, 0x7362), d = __byte_perm(y, z, 0x7362);
  to[0] = __dp4a((int)__byte_perm(a, b, 0x5410), (int)values, to[0]);
  to[1] = __dp4a((int)__byte_perm(a, b, 0x7632), (int)values, to[1]);
  to[2] = __dp4a((int)__byte_perm(c, d, 0x5410), (int)values, to[2]);
  to[3] = __dp4a((int)__byte_perm(c, d, 0x7632), (int)values, to[3]);
}
// Entries of a list that LANES lanes read together: each has every LANES-th of the next eight.
template <int LANES> struct Entries { unsigned word[AHEAD / LANES]; };
template <int LANES> __device__ __forceinline__ Entries<LANES> read_entries(
    const unsigned* entries, int2 list, int first, int lane) {
  Entries<LANES> found;
  #pragma unroll
  for (int i = 0; i < AHEAD / LANES; ++i) {
    const int at = first + lane % LANES + i * LANES;
    found.word[i] = at < list.y ? __ldg(entries + list.x + at) : 0;
  }
  return found;
}
// Four entries from the U-th on, for all lanes of the list, and the residuals of their rows.
struct Four { unsigned values; uint4 w, x, y, z; };
template <int LANES, int U> __device__ __forceinline__ Four gather(
    const unsigned char* residuals, unsigned pitch, unsigned at, const Entries<LANES>& held) {
  unsigned entry[4];
  #pragma unroll
  for (int u = 0; u < 4; ++u)
    entry[u] = __shfl_sync(0xffffffffu, held.word[(U + u) / LANES], (U + u) % LANES, LANES);
  const auto row = [&](unsigned one) {
    return __ldg(reinterpret_cast<const uint4*>(residuals + ((one >> 8) * pitch + at)));
  };
  return {values_of(entry), row(entry[0]), row(entry[1]), row(entry[2]), row(entry[3])};
}
__device__ __forceinline__ void add_gathered(const Four& found, int (&sums)[16]) {
  add_four(sums, found.w.x, found.x.x, found.y.x, found.z.x, found.values);
  add_four(sums + 4, found.w.y, found.x.y, found.y.y, found.z.y, found.values);
  add_four(sums + 8, found.w.z, found.x.z, found.y.z, found.z.z, found.values);
  add_four(sums + 12, found.w.w, found.x.w, found.y.w, found.z.w, found.values);
}
// What a list's entries add to 16 values that lie together, `at` bytes into each row of residuals.
// `next` are its first entries. Lists of a warp end together, the shorter ones with zeros.
template <int LANES> __device__ __forceinline__ void add_list(
    const unsigned char* residuals, unsigned pitch, unsigned at, const unsigned* entries, int2 list,
    Entries<LANES>& next, int (&sums)[16], int lane) {
  for (int e = 0; __any_sync(0xffffffffu, e < list.y); e += AHEAD) {
    const bool more = __any_sync(0xffffffffu, e + 4 < list.y);
    const Four first = gather<LANES, 0>(residuals, pitch, at, next);
    Four second;
    if (more) second = gather<LANES, 4>(residuals, pitch, at, next);
    next = read_entries<LANES>(entries, list, e + AHEAD, lane);
    add_gathered(first, sums);
    if (more) add_gathered(second, sums);
  }
}
// Lists that the lanes of a group take one after the other, and their first entries. What these
// gather is on its way to the L2 as soon as they are known.
template <int LANES, int COUNT> struct Lists { int2 list[COUNT]; Entries<LANES> first[COUNT]; };
__device__ __forceinline__ void prefetch(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(from)));
}
template <int LANES, int COUNT> __device__ __forceinline__ Lists<LANES, COUNT> read_lists(
    const int* lists, const unsigned* entries, int first, int step, int all, int lane) {
  Lists<LANES, COUNT> found;
  #pragma unroll
  for (int p = 0; p < COUNT; ++p) {
    const int vector = first + p * step;
    found.list[p] = make_int2(0, 0);
    if (vector < all) found.list[p] = __ldg(reinterpret_cast<const int2*>(lists) + vector);
  }
  #pragma unroll
  for (int p = 0; p < COUNT; ++p)
    found.first[p] = read_entries<LANES>(entries, found.list[p], 0, lane);
  return found;
}
template <int LANES, int COUNT> __device__ __forceinline__ void prefetch_rows(
    const unsigned char* residuals, unsigned pitch, unsigned at,
    const Lists<LANES, COUNT>& lists) {
  #pragma unroll
  for (int p = 0; p < COUNT; ++p) {
    #pragma unroll
    for (int i = 0; i < AHEAD / LANES; ++i) {
      const unsigned entry = lists.first[p].word[i];
      if (entry) prefetch(residuals + ((entry >> 8) * pitch + at));
    }
  }
}
using Columns = Lists<LANES, PASSES>;
using Rows = Lists<8, OWN_ROWS / 4>;
// What the columns' entries add to a tile, for all of its rows: a lane has 16 rows of a column.
__device__ __forceinline__ void add_columns(
    const unsigned char* turned, const unsigned* entries, Columns& lists, int* tile, int top,
    int first, int thread) {
  const int lane = thread % 32, segment = lane % SEGMENTS, row = top + 16 * segment;
  #pragma unroll
  for (int p = 0; p < PASSES; ++p) {
    int sums[16] = {};
    add_list(turned, PITCH_A, min(row, PITCH_A - 16), entries, lists.list[p], lists.first[p], sums,
             lane);
    #pragma unroll
    for (int i = 0; i < 16; ++i) tile[place(16 * segment + i, first + p * BESIDE)] = sums[i];
  }
}
// What the rows' entries add to a warp's rows of the tile: a lane has 16 columns of a row, and four
// rows are added to at a time.
__device__ __forceinline__ void add_rows(
    const unsigned char* residuals, const unsigned* entries, Rows& lists, int* tile, int left,
    int first, bool begun, int thread) {
  const int lane = thread % 32, segment = lane % 8, column = left + 16 * segment;
  #pragma unroll
  for (int p = 0; p < OWN_ROWS / 4; ++p) {
    int sums[16] = {};
    add_list(residuals, PITCH_B, min(column, PITCH_B - 16), entries, lists.list[p],
             lists.first[p], sums, lane);
    #pragma unroll
    for (int i = 0; i < 16; i += 4) {
      int4* at = reinterpret_cast<int4*>(tile + place(first + 4 * p, 16 * segment + i));
      int4 all = begun ? *at : make_int4(0, 0, 0, 0);
      all.x += sums[i], all.y += sums[i + 1], all.z += sums[i + 2], all.w += sums[i + 3];
      *at = all;
    }
  }
}
// What the tile's lists add up to, in shared memory; sums of the product come to the L2 meanwhile.
__device__ __forceinline__ void add_lists(
    const int* sums, const unsigned char* residual_b, const unsigned char* residual_a,
    const unsigned* entries_of_a, const int* rows_of_a, const unsigned* entries_of_b,
    const int* columns_of_b, bool whole_a, bool whole_b, int* tile, int top, int left, int thread) {
  const int lane = thread % 32, warp = thread / 32;
  const int column = warp * (PASSES * BESIDE) + lane / SEGMENTS, row = warp * OWN_ROWS + lane / 8;
  Columns of_columns;
  Rows of_rows;
  if (!whole_b) {
    of_columns = read_lists<LANES, PASSES>(columns_of_b, entries_of_b, left + column, BESIDE, N,
                                           lane);
    prefetch_rows(residual_a, PITCH_A, top, of_columns);
  }
  if (!whole_a) {
    of_rows = read_lists<8, OWN_ROWS / 4>(rows_of_a, entries_of_a, top + row, 4, M, lane);
    prefetch_rows(residual_b, PITCH_B, left, of_rows);
  }
  #pragma unroll
  for (int i = thread; i < 4 * TILE_ROWS; i += 32 * WARPS)
    if (top + i / 4 < M && left + i % 4 * 32 < N)
      prefetch(sums + (size_t)(top + i / 4) * N + left + i % 4 * 32);
  if (!whole_b) {
    add_columns(residual_a, entries_of_b, of_columns, tile, top, column, thread);
    __syncthreads();
  }
  if (!whole_a) {
    add_rows(residual_b, entries_of_a, of_rows, tile, left, row, !whole_b, thread);
    __syncwarp();
  }
}
"""
"""add_lists(...): what the lists of a tile of TILE_ROWS by 128 columns add up to, each sum at its
`place` in shared memory. For a namespace with the constants of `Correction`.
"""
