"""CUDA source of the grouped convolution's products: weights, fragments and rows of outputs."""

GROUPED_MULTIPLY = r"""
__device__ __forceinline__ void matrices4(unsigned* d, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void matrices2(unsigned* d, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(d[0]), "=r"(d[1]) : "r"(from) : "memory");
}
__device__ __forceinline__ void multiply(
    int* d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1,
    const int* c) {
  asm("PRODUCT_OF_TWO_TAPS "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1),
                 "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}
// The same of one tap, or of one pair of them.
__device__ __forceinline__ void multiply_half(
    int* d, unsigned a0, unsigned a1, unsigned b, const int* c) {
  asm("PRODUCT_OF_ONE_TAP "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a0), "r"(a1), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

// Whether output row p of a strip is the first to read its input row p * STRIDE_H + r * DILATION_H:
// the one SHARED_ROWS before reads it by filter row r + SHARED_R, if that comes before `end`.
constexpr int gcd(int a, int b) { return b ? gcd(b, a % b) : a; }
constexpr int SHARED_ROWS = DILATION_H / gcd(STRIDE_H, DILATION_H);
constexpr int SHARED_R = STRIDE_H / gcd(STRIDE_H, DILATION_H);
__device__ __forceinline__ bool reads_first(int p, int r, int end) {
  return p < SHARED_ROWS || r + SHARED_R >= end;
}

// A last tap has a product of its own, which finds two of the four channels of its words.
constexpr bool LONE = S % 2 && PAIRS % 2;

// Words of a lane: weights of one filter row and pair of taps for the two halves of 16 outputs.
struct Weights { unsigned word[2][NARROW ? 1 : 2]; };

// Outputs 4q + 2j and the one behind it read no other channels, so that a word can hold two taps
// of them; else 32 inputs of two taps by 8 outputs. Words of other groups are zero.
__device__ __forceinline__ void load_weights(
    Weights* b, const WEIGHT* weight, int block, int first_r, int lane) {
  const unsigned* words = reinterpret_cast<const unsigned*>(weight);
  const int column = lane / 4, quad = lane % 4;
  const bool used = NARROW ? quad == column / 2 : quad / QUADS == column / 2 / QUADS;
  #pragma unroll
  for (int r = first_r; r < R && r < first_r + PART_ROWS; ++r)
    #pragma unroll
    for (int i = 0; i < PAIRS; ++i)
      #pragma unroll
      for (int j = 0; j < 2; ++j)
        #pragma unroll
        for (int half = 0; half < (NARROW ? 1 : 2); ++half) {
          const int k = column / 2 * 4 + j * 2 + column % 2, s = 2 * i + half;
          const int at = NARROW ? ((block * R + r) * PAIRS + i) * 16 + k
                                : ((block * TAPS + r * S + s) * 16 + k) * QUADS + quad % QUADS;
          b[(r - first_r) * PAIRS + i].word[j][half] = used && s < S ? __ldg(words + at) : 0u;
        }
}

// A lane's inputs of a pair of taps in two strips: taps and strips, or halves of channels and
// strips, each with two channels of both taps. Where there is one tap a permutation that clears the
// other half makes both, since ptxas would copy its registers into those of each product.
__device__ __forceinline__ void load_fragment(unsigned* a, unsigned from, bool single) {
  if (single && (!NARROW || LONE)) {
    matrices2(a, from);
  } else if constexpr (!NARROW) {
    matrices4(a, from);
  } else {
    unsigned word[4] = {};
    if (single) matrices2(word, from);
    else matrices4(word, from);
    a[0] = __byte_perm(word[0], word[2], 0x5410), a[1] = __byte_perm(word[1], word[3], 0x5410);
    a[2] = __byte_perm(word[0], word[2], 0x7632), a[3] = __byte_perm(word[1], word[3], 0x7632);
  }
}

// Products of one filter row by half of the outputs; start: what the sums begin with.
__device__ __forceinline__ void multiply_row(
    int* acc, const unsigned (*a)[4], const Weights* b, int j, const int* start) {
  #pragma unroll
  for (int i = 0; i < PAIRS; i += NARROW ? 2 : 1) {
    const int* sums = i == 0 ? start : acc;
    if constexpr (NARROW) {
      if (i + 1 < PAIRS)
        multiply(acc, a[i][2 * j], a[i][2 * j + 1], a[i + 1][2 * j], a[i + 1][2 * j + 1],
                 b[i].word[j][0], b[i + 1].word[j][0], sums);
      else
        multiply_half(acc, a[i][LONE ? 0 : 2 * j], a[i][LONE ? 1 : 2 * j + 1], b[i].word[j][0],
                      sums);
    } else if (2 * i + 1 < S) {
      multiply(acc, a[i][0], a[i][1], a[i][2], a[i][3], b[i].word[j][0],
               b[i].word[j][NARROW ? 0 : 1], sums);
    } else {
      multiply_half(acc, a[i][0], a[i][1], b[i].word[j][0], sums);
    }
  }
}

struct Lane { int pair, slice, k, number; };

// What the sums of a lane begin with: each product's four, two channels of two strips. They are
// read twice, since ptxas would copy a register for every product that finds it in another place:
// no block has the number 2**30, which is not known to the compiler.
struct Start { int sum[2][4]; };
__device__ __forceinline__ Start start_of(const Constants& from, int k, int block) {
  Start start = {};
  if constexpr (!BORDERS) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Raw<ACC, 2> bias = load<ACC, 2>(from.bias + k + i / 2 * 2 + (i % 2) * (block >> 30));
      start.sum[i / 2][i % 2 * 2] = (int)bias.word[0];
      start.sum[i / 2][i % 2 * 2 + 1] = (int)bias.word[1];
    }
  }
  return start;
}

// One output row of two strips: all of its sums are in acc.
template <Form FORM> __device__ __forceinline__ void finish_row(
    const int (*acc)[4], unsigned char* staged, const Constants& from, const Channels& own, OUT* y,
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
    const Raw<OUT, 4> out = outputs<FORM>(sums, bias, addends, own);
    if constexpr (STAGED) {
      const int pixel = (strip.image * TILE_H + strip.p) * TILE_W + strip.q + lane.number / 4;
      *reinterpret_cast<unsigned*>(
          staged + place(pixel, lane.slice) + p * (TILE_W * SLAB) + lane.number % 4 * 4) =
          out.word[0];
    } else if (inside && lane.pair * 2 + half < STRIPS) {
      store<OUT, 4>(y + to, out);
    }
  }
}

template <Form FORM> __device__ __forceinline__ void compute_rows(
    unsigned halo, unsigned char* staged, const int* slots, const WEIGHT* weight, Weights* b,
    const Start& start, const Constants& from, const Channels& own, OUT* y, Origin at, Lane lane) {
  int acc[ROWS][2][4];
  #pragma unroll
  for (int part = 0; part < PARTS; ++part) {
    const int unit = part / ROW_PARTS, first_r = part % ROW_PARTS * PART_ROWS;
    const int end = min(R, first_r + PART_ROWS);
    const int block = (at.channel / 16 + lane.slice) * GROUP_UNITS + unit;
    if (PARTS > 1) load_weights(b, weight, block, first_r, lane.number);
    unsigned a[STRIP_H][PAIRS][4];
    #pragma unroll
    for (int p = 0; p < ROWS; ++p) {
      #pragma unroll
      for (int r = first_r; r < end; ++r) {
        const int row = p * STRIDE_H + r * DILATION_H;
        #pragma unroll
        for (int i = 0; i < PAIRS; ++i)
          if (reads_first(p, r, end)) {
            const int here = place(slots[i], lane.slice / GROUP_UNITS * GROUP_UNITS + unit);
            load_fragment(a[row][i], halo + here + row * (ROW_SLOTS * SLAB), 2 * i + 1 == S);
          }
        #pragma unroll
        for (int j = 0; j < 2; ++j)
          multiply_row(acc[p][j], a[row], b + (r - first_r) * PAIRS, j,
                       part == 0 && r == 0 ? start.sum[j] : acc[p][j]);
      }
      if (part == PARTS - 1) finish_row<FORM>(acc[p], staged, from, own, y, at, lane, p);
    }
  }
}
"""
