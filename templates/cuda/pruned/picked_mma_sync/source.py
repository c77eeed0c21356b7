"""CUDA source of a block that multiplies one tile on mma.sync, picking from stages of x."""

from __future__ import annotations

MULTIPLY = r"""
constexpr int THREADS = 32 * WARPS * SIDES, X_STAGE = ROWS * ROW_BYTES, W_STAGE = W_BYTES;
// Stages of weights that are under way while one is multiplied.
constexpr int UNDER_WAY = STAGES - 1 - LAG;
// Where the newest even and odd stages of x are.
struct Window { unsigned even, odd; };
TWO_WORDS
PLACES
COPIES
// A stage of rows of x, swizzled as a box of TMA is; what lies outside of x is 0.
__device__ __forceinline__ void load_x(
    unsigned ring, const unsigned char* x, int first_row, int stage, int thread) {
  constexpr int UNITS = ROW_BYTES / 16, AT_ONCE = THREADS / UNITS;
  const int row = thread / UNITS, unit = thread % UNITS, byte = stage * ROW_BYTES + unit * 16;
  const unsigned to = ring + stage % X_STAGES * X_STAGE + row * ROW_BYTES +
      (unit ^ row * ROW_BYTES / 128 & UNITS - 1) * 16;
  const unsigned char* from = x + (long long)(first_row + row) * X_PITCH + byte;
  const bool inside = X_PITCH % ROW_BYTES == 0 || byte < X_PITCH;
  if (AT_ONCE > ROWS && row >= ROWS) return;
  #pragma unroll
  for (int i = 0; i < ROWS; i += AT_ONCE) {  // whose swizzle is that of the first one
    const bool there = inside && (M % ROWS == 0 || first_row + row + i < M);
    copy_unit(to + i * ROW_BYTES, there ? from + (long long)i * X_PITCH : x, there ? 16 : 0);
  }
}
__device__ __forceinline__ void load_weights(
    unsigned ring, const unsigned char* values, int stage, int thread) {
  const unsigned to = ring + stage % STAGES * W_STAGE + thread * 16;
  const unsigned char* from = values + (long long)stage * W_STAGE + thread * 16;
  #pragma unroll
  for (int i = 0; i < W_STAGE; i += THREADS * 16)
    if (W_STAGE % (THREADS * 16) == 0 || i + thread * 16 < W_STAGE) copy_unit(to + i, from + i, 16);
}
// How many stages of x begin with the first stage of weights.
__device__ __forceinline__ int begins_with(const unsigned char* values) {
  return __ldg(reinterpret_cast<const unsigned*>(values + PICKS_AT)) >> 28 & 7;
}

MULTIPLY_STAGE
// Tiles that a block computes of the same rows of x: which stage of weights each takes next,
// and how many stages of x have begun with it.
struct Sides {
  static constexpr int NONE = 1 << 30;
  const unsigned char* values[SIDES];
  int stages[SIDES], at[SIDES], next[SIDES];
  unsigned following[SIDES];

  __device__ __forceinline__ Sides(
      const unsigned char* every, const int4* tiles, int first) {
    #pragma unroll
    for (int i = 0; i < SIDES; ++i) {
      const int4 tile = __ldg(tiles + first + i);
      values[i] = every + (long long)tile.x * W_STAGE;
      stages[i] = tile.y, at[i] = 0;
      next[i] = tile.y > 0 ? begins_with(values[i]) : NONE;
    }
  }
  // The first stage of x that is read; that of a side with work left is there anyway.
  __device__ __forceinline__ int oldest() const {
    int found = next[0];
    #pragma unroll
    for (int i = 1; i < SIDES; ++i) found = min(found, next[i]);
    return found - 2;
  }
  // Whether a side goes on: the ring has room for what it reads beside what others still read.
  __device__ __forceinline__ bool takes(int i, int oldest) const {
    return SIDES == 1 || next[i] <= oldest + X_STAGES;
  }
  __device__ __forceinline__ int newest(int oldest) const {
    int found = 0;
    #pragma unroll
    for (int i = 0; i < SIDES; ++i)
      if (takes(i, oldest)) found = max(found, next[i]);
    return found;
  }
  __device__ __forceinline__ void load(unsigned ring, int oldest, int thread) {
    #pragma unroll
    for (int i = 0; i < SIDES; ++i) {
      if (!takes(i, oldest)) continue;
      const int stage = at[i] + UNDER_WAY;
      if (stage < stages[i]) load_weights(ring + i * (STAGES * W_STAGE), values[i], stage, thread);
      // What is there says of the stage behind it; reading that from memory would be waited for.
      following[i] = word_at(ring + (i * STAGES + at[i] % STAGES) * W_STAGE + NEXT_AT);
    }
  }
  __device__ __forceinline__ void go_on(int oldest) {
    #pragma unroll
    for (int i = 0; i < SIDES; ++i) {
      if (!takes(i, oldest)) continue;
      next[i] = ++at[i] < stages[i] ? next[i] + int(following[i] >> 28 & 7) : NONE;
    }
  }
};
// The groups of copies with which so many stages of x have come are waited for, and no more.
template <int I> struct Awaited {
  static __device__ __forceinline__ void copies(const int (&arriving)[UNDER_WAY], int newest) {
    if (newest <= arriving[I]) await_copies<UNDER_WAY - 1 - I>();
    else Awaited<I + 1>::copies(arriving, newest);
  }
};
template <> struct Awaited<UNDER_WAY - 1> {
  static __device__ __forceinline__ void copies(const int (&)[UNDER_WAY], int) {
    await_copies<0>();
  }
};
__device__ __forceinline__ int of_side(const int (&values)[SIDES], int side) {
  return SIDES == 1 || side == 0 ? values[0] : values[SIDES - 1];
}

__device__ __forceinline__ void multiply_picked(
    unsigned char* smem, const unsigned char* x, const unsigned char* values, const int4* tiles,
    const void* places, const Constants& from, OUT* y, int block, int thread) {
  constexpr int W_AT = X_STAGES * X_STAGE, ROWS_AT = W_AT + SIDES * STAGES * W_STAGE;
  constexpr int TERMS_AT = ROWS_AT + OUTPUT_BYTES;
  const unsigned base = (unsigned)__cvta_generic_to_shared(smem), weights = base + W_AT;
  const int lane = thread % 32, warp = thread / 32 % WARPS, group = thread / 128;
  const int side = thread / (32 * WARPS), first = block / ROW_TILES * SIDES;
  const int first_row = block % ROW_TILES * ROWS;
  const unsigned own_weights = weights + side * (STAGES * W_STAGE);
  unsigned* rows = reinterpret_cast<unsigned*>(smem + ROWS_AT) + thread / 32 * (16 * ROW_PITCH);
  int* terms = reinterpret_cast<int*>(smem + TERMS_AT) + group * TERMS;
  begin_rows(rows, lane);
  begin_terms(terms, from, (first + side) * WIDTH, group, thread % 128);

  // Of x as many stages are ahead as its ring has, of weights all but those that are read.
  Sides sides(values, tiles, first);
  int loaded = 0;
  for (; loaded < min(X_STAGES, K_STAGES); ++loaded) load_x(base, x, first_row, loaded, thread);
  int arriving[UNDER_WAY];  // stages of x that have come when the groups of copies behind have not
  #pragma unroll
  for (int s = 0; s < UNDER_WAY; ++s) {
    #pragma unroll
    for (int i = 0; i < SIDES; ++i)
      if (s < sides.stages[i])
        load_weights(weights + i * (STAGES * W_STAGE), sides.values[i], s, thread);
    commit_copies();
    arriving[s] = loaded;
  }
  SUM sums[ALL] = {};
  Products products(Lane(warp * 16, lane));
  #pragma unroll 1
  for (int oldest = sides.oldest(); oldest < K_STAGES; oldest = sides.oldest()) {
    const int newest = sides.newest(oldest);
    if (newest > loaded) {  // a stage of few weights, whose x is not under way yet
      // Copies that are under way could arrive behind those that take their places.
      asm volatile("cp.async.wait_all;" : : : "memory");
      __syncthreads();  // the ring is not read
      for (loaded = max(loaded, oldest); loaded < newest; ++loaded)
        load_x(base, x, first_row, loaded, thread);
      asm volatile("cp.async.wait_all;" : : : "memory");
    } else {
      Awaited<0>::copies(arriving, newest);
    }
    __syncthreads();
    sides.load(weights, oldest, thread);
    for (; loaded < min(oldest + X_STAGES, K_STAGES); ++loaded)
      load_x(base, x, first_row, loaded, thread);
    commit_copies();
    #pragma unroll
    for (int i = 0; i + 1 < UNDER_WAY; ++i) arriving[i] = arriving[i + 1];
    arriving[UNDER_WAY - 1] = loaded;
    const int begun = of_side(sides.next, side);
    if (SIDES == 1 || begun <= oldest + X_STAGES) {
      const int odd = begun - 1 - begun % 2, even = begun - 2 + begun % 2;  // the newest of each
      const Window window = {base + even % X_STAGES * X_STAGE,
                             base + max(odd, 0) % X_STAGES * X_STAGE};
      products.take(sums, window, own_weights, of_side(sides.at, side), lane);
    }
    sides.go_on(oldest);
  }
  products.end(sums, own_weights, of_side(sides.stages, side), lane);
  await_copies<0>();
  await_terms(group);
  const int4 tile = __ldg(tiles + first + side);
  #pragma unroll
  for (int b = 0; b < BLOCKS_M; ++b) {
    const int4 entry = read_entry(places, tile, lane);
    __syncwarp();
    lay_out(sums + b * (WIDTH / 2), rows, terms, from, lane);
    __syncwarp();
    const Rows own = rows_of(first_row, (b * WARPS + warp) * 16);
    store_rows(rows, from, places, entry, y, own.first, own.count, tile, lane);
  }
}
"""
"""TWO_WORDS and PLACES stand for those of `pick_source`, MULTIPLY_STAGE for STAGE or another one,
whose products are LAG stages behind what is there. `words_source.WORDS` or `sums_source.SUMS` and
`help_source.ROWS_OF` come before, and the product of one instruction."""

STAGE = r"""// Units of 16 bytes along k of eight columns, of two such groups of columns.
__device__ __forceinline__ void read_columns(unsigned (&b)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ Picks picks_at(unsigned at) {
  Picks p;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(p.x), "=r"(p.y) : "r"(at) : "memory");
  return p;
}
// The steps of a stage of weights.
__device__ __forceinline__ void multiply_stage(
    SUM (&sums)[ALL], const Window& window, const Lane& place_of, unsigned stage, int lane) {
  const unsigned own = stage + (lane / 8 % 2 * WIDTH + lane / 16 * 8 + lane % 8) * 16;
  #pragma unroll
  for (int step = 0; step < DEPTH; ++step) {
    const Picks picks =
        picks_at(stage + PICKS_AT + (step * 4 + lane % 4) * (unsigned)sizeof(Picks));
    Words near, far;
    place_of.read(near, far, picks, window);
    unsigned a[BLOCKS_M][4];
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i)
      a[i / 2][i % 2] = near.of(i), a[i / 2][2 + i % 2] = far.of(i);
    #pragma unroll
    for (int j = 0; j < WIDTH / 8; j += 2) {
      unsigned b[4];  // of an odd last group the other half is what lies behind it
      read_columns(b, own + step * (32 * WIDTH) + j * 128);
      #pragma unroll
      for (int block = 0; block < BLOCKS_M; ++block) {
        SUM* d = sums + block * (WIDTH / 2) + 4 * j;
        product(d, a[block], b[0], b[1]);
        if (j + 1 < WIDTH / 8) product(d + 4, a[block], b[2], b[3]);
      }
    }
  }
}
// Each stage is multiplied as it is there.
struct Products {
  Lane place_of;
  __device__ __forceinline__ Products(const Lane& lane) : place_of(lane) {}
  __device__ __forceinline__ void take(
      SUM (&sums)[ALL], const Window& window, unsigned weights, int s, int lane) {
    multiply_stage(sums, window, place_of, weights + s % STAGES * W_STAGE, lane);
  }
  __device__ __forceinline__ void end(SUM (&)[ALL], unsigned, int, int) {}
};

"""
"""Products of stages, by product(d, a, b0, b1)."""

PRODUCT = r"""
__device__ __forceinline__ void product(
    SUM* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("INSTRUCTION {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+KIND"(d[0]), "+KIND"(d[1]), "+KIND"(d[2]), "+KIND"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
"""
"""INSTRUCTION stands for mma.sync with its types, KIND for the constraint of a sum's registers."""
