"""CUDA source of the grouped convolution: copies, block-diagonal products, staged outputs."""

GROUPED_SOURCE = r"""
constexpr int TILE_H = STRIPS_DOWN * ROWS, TILE_W = 8 * STRIPS_ACROSS;
constexpr int STRIPS = IMAGES * STRIPS_DOWN * STRIPS_ACROSS;
constexpr int HALO_H = (TILE_H - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
constexpr int HALO_W = (TILE_W - 1) * STRIDE_W + (S - 1) * DILATION_W + 1;
constexpr int STRIP_H = (ROWS - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
constexpr int UNITS = SLAB / 16, TAPS = R * S, PAIRS = (S + 1) / 2;
// The reduction goes by units of 16 inputs and, within one, by parts of the filter's rows.
constexpr int ROW_PARTS = (R + PART_ROWS - 1) / PART_ROWS, PARTS = GROUP_UNITS * ROW_PARTS;
constexpr int THREADS = (STRIPS + 1) / 2 * UNITS * 32;
constexpr bool STAGED = sizeof(OUT) == 1;

__device__ __forceinline__ void copy_unit(unsigned to, const void* from, unsigned bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait_for_units() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
__device__ __forceinline__ void matrices4(unsigned* d, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void multiply(
    int* d, const unsigned* a, const unsigned* b, const int* c) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.SIGN8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
                 "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

// Byte of a 16-byte unit of a pixel's channels: 8 neighbouring slots cover all banks.
__device__ __forceinline__ int place(int slot, int unit) {
  return slot * SLAB + ((unit ^ (slot >> (3 - SWIZZLE) & ((1 << SWIZZLE) - 1))) << 4);
}
// Columns that a run of outputs reads at one tap lie side by side.
__device__ __forceinline__ int column_slot(int column) {
  return column % STRIDE_W * PHASE + column / STRIDE_W;
}
// The output row of a strip that reads an input row first, by the filter rows of one part.
constexpr int first_reader(int row, int first_r) {
  for (int p = 0; p < ROWS; ++p)
    for (int r = first_r; r < R && r < first_r + PART_ROWS; ++r)
      if (p * STRIDE_H + r * DILATION_H == row) return p;
  return -1;
}

struct Origin { int image, p, q, channel; };

// Threads keep a unit of a column and go down the rows.
__device__ __forceinline__ void fetch(unsigned halo, const X* x, Origin at, int thread) {
  constexpr int ACROSS = HALO_W * UNITS, LINES = IMAGES * HALO_H;
  constexpr int TOGETHER = THREADS < ACROSS ? 1 : THREADS / ACROSS;
  const int top = at.p * STRIDE_H - PAD_H, left = at.q * STRIDE_W - PAD_W;
  #pragma unroll
  for (int start = 0; start < ACROSS; start += THREADS) {
    const int position = start + (TOGETHER > 1 ? thread % ACROSS : thread);
    const int unit = position % UNITS, column = position / UNITS, w = left + column;
    const bool inside = w >= 0 && w < WIDTH;
    const int first = TOGETHER > 1 ? thread / ACROSS : 0;
    const unsigned to = halo + place(column_slot(column), unit);
    const X* from = x + ((at.image * HEIGHT + top) * WIDTH + w) * CHANNELS + at.channel + unit * 16;
    if (position < ACROSS && first < TOGETHER) {
      #pragma unroll
      for (int next = 0; next < LINES; next += TOGETHER) {
        const int line = next + first, row = line % HALO_H, image = line / HALO_H;
        const int h = top + row;
        const bool read = inside && h >= 0 && h < HEIGHT && at.image + image < BATCH;
        if (LINES % TOGETHER == 0 || line < LINES)
          copy_unit(to + line * (ROW_SLOTS * SLAB),
                    from + (image * HEIGHT + row) * (WIDTH * CHANNELS), read ? 16 : 0);
      }
    }
  }
}

// A lane's words of the block-diagonal weights: 32 inputs of two taps by 8 outputs, twice.
__device__ __forceinline__ void load_weights(
    unsigned (*b)[2][2], const WEIGHT* weight, int block, int first_r, int lane) {
  const unsigned* words = reinterpret_cast<const unsigned*>(weight);
  const int column = lane / 4, quad = lane % 4;
  const bool used = quad / QUADS == column / 2 / QUADS;
  #pragma unroll
  for (int r = first_r; r < R && r < first_r + PART_ROWS; ++r)
    #pragma unroll
    for (int s = 0; s < 2 * PAIRS; ++s)
      #pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        const int k = column / 2 * 4 + tile * 2 + column % 2;
        const int at = ((block * TAPS + r * S + s) * 16 + k) * QUADS + quad % QUADS;
        b[(r - first_r) * PAIRS + s / 2][tile][s % 2] = used && s < S ? __ldg(words + at) : 0u;
      }
}

struct Strip { int image, p, q; };
__device__ __forceinline__ Strip strip_of(int index) {
  const int line = index / STRIPS_ACROSS;
  return {line / STRIPS_DOWN, line % STRIPS_DOWN * ROWS, index % STRIPS_ACROSS * 8};
}
__device__ __forceinline__ int border_class(int at, int head, int tail_start) {
  return min(at, head) + max(at - tail_start + 1, 0);
}

struct Lane { int pair, slice, k, number; };

// One output row of two strips: all of its sums are in acc.
template <bool WHOLE_RANGE> __device__ __forceinline__ void finish_row(
    Raw<OUT, 4>* out, const int (*acc)[4], const Constants& from, const Channels& own, OUT* y,
    Origin at, Lane lane, int p) {
  Raw<ACC, 4> bias = {};
  #pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Strip strip = strip_of(min(lane.pair * 2 + half, STRIPS - 1));
    const int image = at.image + strip.image, row = at.p + strip.p + p;
    const int column = at.q + strip.q + lane.number / 4;
    const int sums[4] = {acc[0][2 * half], acc[0][2 * half + 1], acc[1][2 * half],
                         acc[1][2 * half + 1]};
    const bool inside = image < BATCH && row < P && column < Q;
    const int to = ((image * P + row) * Q + column) * CHANNELS + lane.k;
    Raw<ADDEND, 4> addends = {};
    if constexpr (RESIDUAL) {
      if (inside) addends = load<ADDEND, 4>(from.residual + to);
    }
    if constexpr (BORDERS) {
      const int row_class = border_class(min(row, P - 1), ROW_HEAD, ROW_TAIL);
      const int column_class = border_class(min(column, Q - 1), COLUMN_HEAD, COLUMN_TAIL);
      const int table_row = row_class * COLUMN_CLASSES + column_class;
      bias = load<ACC, 4>(from.bias + table_row * CHANNELS + lane.k);
    }
    out[half] = outputs<WHOLE_RANGE>(sums, bias, addends, own);
    if constexpr (!STAGED) {
      if (inside && lane.pair * 2 + half < STRIPS) store<OUT, 4>(y + to, out[half]);
    }
  }
}

template <bool WHOLE_RANGE> __device__ __forceinline__ void compute_rows(
    Raw<OUT, 4> (*out)[2], unsigned halo, const int* slots, const WEIGHT* weight,
    unsigned (*b)[2][2], const Constants& from, const Channels& own, OUT* y, Origin at,
    Lane lane) {
  Raw<ACC, 4> bias = {};
  if constexpr (!BORDERS) bias = load<ACC, 4>(from.bias + lane.k);
  int acc[ROWS][2][4];
  #pragma unroll
  for (int i = 0; i < ROWS * 8; ++i)
    acc[i / 8][i / 4 % 2][i % 4] = (int)bias.word[i / 4 % 2 * 2 + i % 2];
  #pragma unroll
  for (int part = 0; part < PARTS; ++part) {
    const int unit = part / ROW_PARTS, first_r = part % ROW_PARTS * PART_ROWS;
    const int block = (at.channel / 16 + lane.slice) * GROUP_UNITS + unit;
    if (part > 0) load_weights(b, weight, block, first_r, lane.number);
    unsigned a[STRIP_H][PAIRS][4];
    #pragma unroll
    for (int p = 0; p < ROWS; ++p) {
      #pragma unroll
      for (int r = first_r; r < R && r < first_r + PART_ROWS; ++r) {
        const int row = p * STRIDE_H + r * DILATION_H;
        #pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
          if (first_reader(row, first_r) == p) {
            const int here = place(slots[i], lane.slice / GROUP_UNITS * GROUP_UNITS + unit);
            matrices4(a[row][i], halo + here + row * (ROW_SLOTS * SLAB));
          }
          #pragma unroll
          for (int j = 0; j < 2; ++j)
            multiply(acc[p][j], a[row][i], b[(r - first_r) * PAIRS + i][j], acc[p][j]);
        }
      }
      if (part == PARTS - 1)
        finish_row<WHOLE_RANGE>(out[p], acc[p], from, own, y, at, lane, p);
    }
  }
}

__device__ __forceinline__ void store_tile(
    const unsigned char* smem, OUT* y, Origin at, int thread) {
  constexpr int ACROSS = TILE_W * UNITS, LINES = IMAGES * TILE_H;
  constexpr int TOGETHER = THREADS < ACROSS ? 1 : THREADS / ACROSS;
  #pragma unroll
  for (int start = 0; start < ACROSS; start += THREADS) {
    const int position = start + (TOGETHER > 1 ? thread % ACROSS : thread);
    const int unit = position % UNITS, column = position / UNITS;
    const int first = TOGETHER > 1 ? thread / ACROSS : 0;
    OUT* to = y + ((at.image * P + at.p) * Q + at.q + column) * CHANNELS + at.channel + unit * 16;
    if (position < ACROSS && first < TOGETHER && at.q + column < Q) {
      #pragma unroll
      for (int next = 0; next < LINES; next += TOGETHER) {
        const int line = next + first, row = line % TILE_H, image = line / TILE_H;
        if (line < LINES && at.image + image < BATCH && at.p + row < P)
          *reinterpret_cast<uint4*>(to + (image * P + row) * (Q * CHANNELS)) =
              *reinterpret_cast<const uint4*>(smem + place(line * TILE_W + column, unit));
      }
    }
  }
}

__device__ __forceinline__ void compute_tile(
    unsigned char* smem, const X* x, const WEIGHT* weight, Constants from, OUT* y, int block,
    int thread) {
  constexpr int SLABS = CHANNELS / SLAB, ACROSS = (Q + TILE_W - 1) / TILE_W;
  constexpr int DOWN = (P + TILE_H - 1) / TILE_H;
  const int tile = block / SLABS;
  const Origin at = {tile / ACROSS / DOWN * IMAGES, tile / ACROSS % DOWN * TILE_H,
                     tile % ACROSS * TILE_W, block % SLABS * SLAB};
  const unsigned halo = (unsigned)__cvta_generic_to_shared(smem);
  fetch(halo, x, at, thread);

  const int lane = thread % 32, warp = thread / 32, slice = warp % UNITS, pair = warp / UNITS;
  unsigned b[PART_ROWS * PAIRS][2][2];
  load_weights(b, weight, (at.channel / 16 + slice) * GROUP_UNITS, 0, lane);
  const Strip read = strip_of(min(pair * 2 + lane / 8 % 2, STRIPS - 1));
  const int first = (read.image * HALO_H + read.p * STRIDE_H) * ROW_SLOTS + read.q + lane % 8;
  int slots[PAIRS];
  #pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    const int column = min(2 * i + lane / 16, S - 1) * DILATION_W;
    slots[i] = first + column_slot(column);
  }
  const int k = at.channel + slice * 16 + lane % 4 * 4;
  const Channels own = channels(from, k);
  const Lane own_lane = {pair, slice, k, lane};
  Raw<OUT, 4> out[ROWS][2];
  wait_for_units();
  __syncthreads();
  if (SATURATES && own.whole_range) {
    compute_rows<SATURATES>(out, halo, slots, weight, b, from, own, y, at, own_lane);
  } else {
    compute_rows<false>(out, halo, slots, weight, b, from, own, y, at, own_lane);
  }
  if constexpr (STAGED) {
    __syncthreads();
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Strip strip = strip_of(min(pair * 2 + half, STRIPS - 1));
      const int pixel = (strip.image * TILE_H + strip.p) * TILE_W + strip.q + lane / 4;
      #pragma unroll
      for (int p = 0; p < ROWS; ++p)
        *reinterpret_cast<unsigned*>(smem + place(pixel + p * TILE_W, slice) + lane % 4 * 4) =
            out[p][half].word[0];
    }
    __syncthreads();
    store_tile(smem, y, at, thread);
  }
}
"""
