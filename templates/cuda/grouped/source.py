"""CUDA source of the grouped convolution: copies, tiles in turn, staged outputs."""

from autoq.templates.cuda.grouped.multiply import GROUPED_MULTIPLY

_TILES = r"""
constexpr int TILE_H = STRIPS_DOWN * ROWS, TILE_W = 8 * STRIPS_ACROSS;
constexpr int STRIPS = IMAGES * STRIPS_DOWN * STRIPS_ACROSS;
constexpr int HALO_H = (TILE_H - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
constexpr int HALO_W = (TILE_W - 1) * STRIDE_W + (S - 1) * DILATION_W + 1;
constexpr int STRIP_H = (ROWS - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
constexpr int UNITS = SLAB / 16, TAPS = R * S, PAIRS = (S + 1) / 2;
// The reduction goes by units of 16 inputs and, within one, by parts of the filter's rows.
constexpr int ROW_PARTS = (R + PART_ROWS - 1) / PART_ROWS, PARTS = GROUP_UNITS * ROW_PARTS;
constexpr int THREADS = (STRIPS + 1) / 2 * UNITS * 32;
constexpr int HALO_BYTES = IMAGES * HALO_H * ROW_SLOTS * SLAB;
constexpr bool STAGED = sizeof(OUT) == 1;

__device__ __forceinline__ void copy_unit(unsigned to, const void* from, unsigned bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_units() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ __forceinline__ void wait_for_tile() {
  asm volatile("cp.async.wait_group PENDING;" ::: "memory");
}

// Byte of a 16-byte unit of a pixel's channels: 8 neighbouring slots cover all banks.
__device__ __forceinline__ int place(int slot, int unit) {
  return slot * SLAB + ((unit ^ (slot >> (3 - SWIZZLE) & ((1 << SWIZZLE) - 1))) << 4);
}
// Columns that a run of outputs reads at one tap lie side by side.
__device__ __forceinline__ int column_slot(int column) {
  return column % STRIDE_W * PHASE + column / STRIDE_W;
}

struct Origin { int image, p, q, channel; };
__device__ __forceinline__ Origin origin_of(int tile, int slab) {
  constexpr int ACROSS = (Q + TILE_W - 1) / TILE_W, DOWN = (P + TILE_H - 1) / TILE_H;
  return {tile / ACROSS / DOWN * IMAGES, tile / ACROSS % DOWN * TILE_H, tile % ACROSS * TILE_W,
          slab * SLAB};
}

struct Strip { int image, p, q; };
__device__ __forceinline__ Strip strip_of(int index) {
  const int line = index / STRIPS_ACROSS;
  return {line / STRIPS_DOWN, line % STRIPS_DOWN * ROWS, index % STRIPS_ACROSS * 8};
}
__device__ __forceinline__ int border_class(int at, int head, int tail_start) {
  return min(at, head) + max(at - tail_start + 1, 0);
}

// Threads keep a unit of a column and go down the rows.
__device__ __forceinline__ void fetch(unsigned halo, const X* x, Origin at, int thread) {
  constexpr int ACROSS = HALO_W * UNITS;
  constexpr int TOGETHER = THREADS < ACROSS ? 1 : THREADS / ACROSS;
  const int top = at.p * STRIDE_H - PAD_H, left = at.q * STRIDE_W - PAD_W;
  #pragma unroll
  for (int start = 0; start < ACROSS; start += THREADS) {
    const int position = start + (TOGETHER > 1 ? thread % ACROSS : thread);
    const int unit = position % UNITS, column = position / UNITS, w = left + column;
    const bool inside = w >= 0 && w < WIDTH;
    const int first = TOGETHER > 1 ? thread / ACROSS : 0;
    const unsigned to = halo + place(column_slot(column), unit) + first * (ROW_SLOTS * SLAB);
    const X* from =
        x + ((at.image * HEIGHT + top + first) * WIDTH + w) * CHANNELS + at.channel + unit * 16;
    if (position < ACROSS && first < TOGETHER) {
      #pragma unroll
      for (int image = 0; image < IMAGES; ++image)
        #pragma unroll
        for (int next = 0; next < HALO_H; next += TOGETHER) {
          const int row = next + first;
          const bool read =
              inside && (unsigned)(top + row) < HEIGHT && at.image + image < BATCH;
          if (HALO_H % TOGETHER == 0 || row < HALO_H)
            copy_unit(to + (image * HALO_H + next) * (ROW_SLOTS * SLAB),
                      from + (image * HEIGHT + next) * (WIDTH * CHANNELS), read ? 16 : 0);
        }
    }
  }
}
"""

_TURNS = r"""
__device__ __forceinline__ void store_tile(
    const unsigned char* staged, OUT* y, Origin at, int thread) {
  constexpr int ACROSS = TILE_W * UNITS;
  constexpr int TOGETHER = THREADS < ACROSS ? 1 : THREADS / ACROSS;
  #pragma unroll
  for (int start = 0; start < ACROSS; start += THREADS) {
    const int position = start + (TOGETHER > 1 ? thread % ACROSS : thread);
    const int unit = position % UNITS, column = position / UNITS;
    const int first = TOGETHER > 1 ? thread / ACROSS : 0;
    const unsigned char* own = staged + place(column, unit) + first * (TILE_W * SLAB);
    OUT* to = y + ((at.image * P + at.p + first) * Q + at.q + column) * CHANNELS + at.channel +
              unit * 16;
    if (position < ACROSS && first < TOGETHER && (Q % TILE_W == 0 || at.q + column < Q)) {
      #pragma unroll
      for (int image = 0; image < IMAGES; ++image)
        #pragma unroll
        for (int next = 0; next < TILE_H; next += TOGETHER) {
          const int row = next + first;
          const bool whole = TILE_H % TOGETHER == 0 || row < TILE_H;
          if (whole && at.image + image < BATCH && (P % TILE_H == 0 || at.p + row < P))
            *reinterpret_cast<uint4*>(to + (image * P + next) * (Q * CHANNELS)) =
                *reinterpret_cast<const uint4*>(own + (image * TILE_H + next) * (TILE_W * SLAB));
        }
    }
  }
}

// A block keeps its channels and takes every RUNS-th tile, STAGES - 1 of which arrive meanwhile.
__device__ __forceinline__ void compute_tiles(
    unsigned char* smem, const X* x, const WEIGHT* weight, Constants from, OUT* y, int block,
    int thread) {
  constexpr int SLABS = CHANNELS / SLAB;
  const int slab = block % SLABS, run = block / SLABS;
  const unsigned halos = (unsigned)__cvta_generic_to_shared(smem);
  unsigned char* staged = smem + STAGES * HALO_BYTES;
  #pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) {
    const int tile = run + stage * RUNS;
    if (tile < TILES) fetch(halos + stage * HALO_BYTES, x, origin_of(tile, slab), thread);
    commit_units();
  }

  const int lane = thread % 32, warp = thread / 32, slice = warp % UNITS, pair = warp / UNITS;
  Weights b[PART_ROWS * PAIRS];
  if (PARTS == 1)
    load_weights(b, weight, (slab * UNITS + slice) * GROUP_UNITS, 0, lane);
  const Strip read = strip_of(min(pair * 2 + lane / 8 % 2, STRIPS - 1));
  const int first = (read.image * HALO_H + read.p * STRIDE_H) * ROW_SLOTS + read.q + lane % 8;
  int slots[PAIRS];
  #pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    const int column = min(2 * i + lane / 16, S - 1) * DILATION_W;
    slots[i] = first + column_slot(column);
  }
  const int k = slab * SLAB + slice * 16 + lane % 4 * 4;
  const Channels own = channels(from, k);
  const Start start = start_of(from, k, block);
  const Lane mine = {pair, slice, k, lane};
  int stage = 0;
  #pragma unroll 1
  for (int tile = run; tile < TILES; tile += RUNS) {
    const Origin at = origin_of(tile, slab);
    const unsigned halo = halos + stage * HALO_BYTES;
    wait_for_tile();
    __syncthreads();
    if (SATURATES && own.form == Form::PACK) {
      compute_rows<SATURATES ? Form::PACK : Form::ANY>(
          halo, staged, slots, weight, b, start, from, own, y, at, mine);
    } else if (SATURATES && own.form == Form::SHIFT) {
      compute_rows<SATURATES ? Form::SHIFT : Form::ANY>(
          halo, staged, slots, weight, b, start, from, own, y, at, mine);
    } else {
      compute_rows<SATURATES ? Form::CLAMP : Form::ANY>(
          halo, staged, slots, weight, b, start, from, own, y, at, mine);
    }
    if (STAGED || RUNS < TILES) __syncthreads();
    if (RUNS < TILES && tile + STAGES * RUNS < TILES)
      fetch(halo, x, origin_of(tile + STAGES * RUNS, slab), thread);
    commit_units();
    if constexpr (STAGED) store_tile(staged, y, at, thread);
    stage = stage + 1 < STAGES ? stage + 1 : 0;
  }
}
"""

GROUPED_SOURCE = _TILES + GROUPED_MULTIPLY + _TURNS
