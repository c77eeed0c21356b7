"""CUDA source of the panel kernel: gathered rows as the left factor, vectors as the right one.

mma.sync multiplies 16 columns of 32 rows of b, transposed, by 32 vectors of 8 rows. A lane reads
four neighbouring columns of each of its rows as a word and turns four words of four bytes, so that
its words are columns. Which columns of the panel are which rows of the product is free: a lane's
four go to two products, and nothing is exchanged between lanes. Values of 16 bits are two digits,
bytes of which the higher alone has a sign, and products of digits add to the sums of their place.
"""

from __future__ import annotations

PANEL_SOURCE = r"""
constexpr int OWN = COLUMNS / 8, WORDS = OWN / 4, SUMS = 2 * OWN, ALL_SUMS = PLANES * SUMS;
constexpr int ROW_BYTES = COLUMNS * RIGHT_DIGITS, LANE_BYTES = OWN * RIGHT_DIGITS;
constexpr int CHUNKS = ROW_BYTES / 32 < 4 ? ROW_BYTES / 32 : 4;
template <bool> struct Sum { using type = int; };
template <> struct Sum<true> { using type = long long; };
using Total = Sum<SIXTY_FOUR>::type;
struct Step { uint2 values[LEFT_DIGITS]; uint4 places[2]; };
struct Rows { Total bias[2]; float scale[2], shift[2]; };
// row: of the turned fragments; column: of b and y, the first of the lane's OWN.
struct Lane { int number, row, column; };

// Four nibbles as bytes.
__device__ __forceinline__ unsigned widened(unsigned four) {
  unsigned word = (four | four << 8) & 0x00ff00ff;
  word = (word | word << 4) & 0x0f0f0f0f;
  return NIBBLES == 2 ? word | (word & 0x08080808) * 0x1e : word;
}

// Columns of b from first_column on, to shared memory; those behind the last are 0.
__device__ __forceinline__ void load_panel(
    unsigned char* panel, const B* b, int first_column, int thread) {
  constexpr int ACROSS = COLUMNS / COPY, BYTES = COPY * RIGHT_DIGITS;
  for (int i = thread; i < K * ACROSS; i += THREADS) {
    const int row = i / ACROSS, column = i % ACROSS * COPY;
    const bool inside = first_column + column < N;
    const int chunk = row % 4 * CHUNKS / 4 * 32, at = inside ? first_column + column : 0;
    unsigned char* to = panel + row * ROW_BYTES + (column * RIGHT_DIGITS ^ chunk);
    if constexpr (NIBBLES) {
      const unsigned char* from = reinterpret_cast<const unsigned char*>(b);
      from += row * ((N + 1) / 2) + at / 2;
      const unsigned nibbles = inside ? load<unsigned char, COPY / 2>(from).word[0] : 0;
      Raw<unsigned char, COPY> raw;
      #pragma unroll
      for (int w = 0; w < (COPY + 3) / 4; ++w) raw.word[w] = widened(nibbles >> 16 * w & 0xffff);
      store<unsigned char, COPY>(to, raw);
    } else if constexpr (BYTES == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(b + row * N + at),
                     "r"(inside ? 16 : 0)
                   : "memory");
    } else {
      Raw<B, COPY> raw = load<B, COPY>(b + row * N + at);
      #pragma unroll
      for (int w = 0; w < (BYTES + 3) / 4; ++w) raw.word[w] = inside ? raw.word[w] : 0;
      store<B, COPY>(reinterpret_cast<B*>(to), raw);
    }
  }
}

__device__ __forceinline__ void fetch(
    Step& step, const uint2* values, const uint4* places, int number) {
  #pragma unroll
  for (int i = 0; i < LEFT_DIGITS; ++i)
    step.values[i] = __ldg(values + (number * LEFT_DIGITS + i) * 32);
  step.places[0] = __ldg(places + number * 8);
  step.places[1] = __ldg(places + number * 8 + 4);
}

// A lane's columns of the row of b at `place`.
__device__ __forceinline__ void gather(
    unsigned (&words)[LANE_BYTES / 4], unsigned panel, const B* b, unsigned place,
    const Lane& lane) {
  if constexpr (STAGED) {
    const unsigned at = panel + (place ^ lane.row * LANE_BYTES);
    if constexpr (LANE_BYTES == 4)
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(words[0]) : "r"(at));
    else if constexpr (LANE_BYTES == 8)
      asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(at));
    else
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at));
  } else {
    constexpr int BYTES = NEAR * RIGHT_DIGITS;
    #pragma unroll
    for (int w = 0; w < LANE_BYTES / 4; ++w) words[w] = 0;
    #pragma unroll
    for (int i = 0; i < OWN / NEAR; ++i) {
      if (lane.column + i * NEAR < N) {
        const Raw<B, NEAR> raw = load<B, NEAR>(b + (place + lane.column + i * NEAR));
        #pragma unroll
        for (int w = 0; w < (BYTES + 3) / 4; ++w)
          words[i * BYTES / 4 + w] |= raw.word[w] << (8 * (i * BYTES % 4));
      }
    }
  }
}

// Bytes `digit` of the four columns of word `w`.
__device__ __forceinline__ unsigned digit_of(
    const unsigned (&words)[LANE_BYTES / 4], int w, int digit) {
  if constexpr (RIGHT_DIGITS == 1) return words[w];
  else return __byte_perm(words[2 * w], words[2 * w + 1], digit ? 0x7531 : 0x6420);
}

// Four words of four bytes, turned.
__device__ __forceinline__ void turn(const unsigned (&from)[4], unsigned (&to)[4]) {
  const unsigned a = __byte_perm(from[0], from[1], 0x5140);
  const unsigned b = __byte_perm(from[2], from[3], 0x5140);
  const unsigned c = __byte_perm(from[0], from[1], 0x7362);
  const unsigned d = __byte_perm(from[2], from[3], 0x7362);
  to[0] = __byte_perm(a, b, 0x5410), to[1] = __byte_perm(a, b, 0x7632);
  to[2] = __byte_perm(c, d, 0x5410), to[3] = __byte_perm(c, d, 0x7632);
}

// d += a b of digit LEFT of the values and digit RIGHT of b.
template <int LEFT, int RIGHT> __device__ __forceinline__ void product(
    int* d, const unsigned (&a)[4], uint2 b) {PRODUCTS
}

// Adds a step. Sums of a lane's column c of row r of its two are at 4 (c / 2) + 2 (c % 2) + r of a
// plane, and digits i and j belong to plane i + j.
template <int RIGHT> __device__ __forceinline__ void multiply_digit(
    int (&sums)[ALL_SUMS], const uint2 (&values)[LEFT_DIGITS],
    const unsigned (&words)[8][LANE_BYTES / 4]) {
  unsigned left[WORDS][2][4];
  #pragma unroll
  for (int half = 0; half < 2; ++half) {
    #pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      unsigned four[4], columns[4];
      #pragma unroll
      for (int j = 0; j < 4; ++j) four[j] = digit_of(words[4 * half + j], w, RIGHT);
      turn(four, columns);
      #pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        left[w][pair][2 * half] = columns[2 * pair];
        left[w][pair][2 * half + 1] = columns[2 * pair + 1];
      }
    }
  }
  #pragma unroll
  for (int w = 0; w < WORDS; ++w) {
    #pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      int* d = sums + RIGHT * SUMS + 8 * w + 4 * pair;
      product<0, RIGHT>(d, left[w][pair], values[0]);
      if constexpr (LEFT_DIGITS == 2) product<1, RIGHT>(d + SUMS, left[w][pair], values[1]);
    }
  }
}
__device__ __forceinline__ void multiply_step(
    int (&sums)[ALL_SUMS], const Step& step, unsigned panel, const B* b, const Lane& lane) {
  unsigned words[8][LANE_BYTES / 4];
  #pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 place = step.places[half];
    const unsigned at[4] = {place.x, place.y, place.z, place.w};
    #pragma unroll
    for (int j = 0; j < 4; ++j) gather(words[4 * half + j], panel, b, at[j], lane);
  }
  multiply_digit<0>(sums, step.values, words);
  if constexpr (RIGHT_DIGITS == 2) multiply_digit<RIGHT_DIGITS - 1>(sums, step.values, words);
}

__device__ __forceinline__ Rows rows_from(const Constants& from, int first_row, const Lane& lane) {
  Rows rows = {};
  const Total* bias = reinterpret_cast<const Total*>(from.bias);
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = min(first_row + 2 * (lane.number % 4) + r, M - 1);
    rows.bias[r] = __ldg(bias + row);
    if constexpr (!WIDE) rows.scale[r] = __ldg(from.scale + row);
    if constexpr (FLOAT_BIAS) rows.shift[r] = __ldg(from.scale + M + row);
  }
  return rows;
}

// The outputs of a group of eight rows, of which a lane has two.
template <Form FORM> __device__ __forceinline__ void finish_group(
    const int (&sums)[ALL_SUMS], const Rows& rows, Channels own, const Constants& from, OUT* y,
    int first_row, const Lane& lane) {
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + 2 * (lane.number % 4) + r;
    if (row >= M) continue;
    Raw<ACC, V> bias;
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      bias.word[i] = SIXTY_FOUR ? 0 : (unsigned)rows.bias[r];
      own.scale.word[i] = __float_as_uint(rows.scale[r]);SHIFT;
    }
    #pragma unroll
    for (int i = 0; i < OWN / V; ++i) {
      if (lane.column + i * V >= N) continue;
      int acc[V];
      #pragma unroll
      for (int j = 0; j < V; ++j) {
        const int c = i * V + j;
        Total total = SIXTY_FOUR ? rows.bias[r] : 0;
        #pragma unroll
        for (int plane = 0; plane < PLANES; ++plane)
          total += (Total)sums[plane * SUMS + c / 2 * 4 + c % 2 * 2 + r] << (8 * plane);
        acc[j] = total;
        if constexpr (SIXTY_FOUR)
          acc[j] = __float_as_int(__fmul_rn(__ll2float_rn(total), rows.scale[r]));
      }
      const int at = row * N + lane.column + i * V;
      Raw<ADDEND, V> addends = {};
      if constexpr (RESIDUAL) addends = load<ADDEND, V>(from.residual + at);
      store<OUT, V>(y + at, outputs<FORM>(acc, bias, addends, own));
    }
  }
}
__device__ __forceinline__ void finish(
    const int (&sums)[ALL_SUMS], const Rows& rows, const Channels& own, const Constants& from,
    OUT* y, int first_row, const Lane& lane) {
  if (SATURATES && own.form == Form::PACK)
    finish_group<SATURATES ? Form::PACK : Form::ANY>(sums, rows, own, from, y, first_row, lane);
  else if (SATURATES && own.form == Form::SHIFT)
    finish_group<SATURATES ? Form::SHIFT : Form::ANY>(sums, rows, own, from, y, first_row, lane);
  else
    finish_group<SATURATES ? Form::CLAMP : Form::ANY>(sums, rows, own, from, y, first_row, lane);
}

__device__ __forceinline__ void clear(int (&sums)[ALL_SUMS]) {
  #pragma unroll
  for (int i = 0; i < ALL_SUMS; ++i) sums[i] = 0;
}

// A warp takes its run of steps. A group that began in an earlier warp's run is left in shared
// memory to that warp, which adds up what others have of its last group when all are done.
__device__ __forceinline__ void multiply_sparse(
    unsigned char* smem, const B* b, const int* values, const int* places, const int* starts,
    const int* rows_of, const int* runs, const int* firsts, const Constants& from, OUT* y,
    int block, int thread) {
  const int part = block / PANELS, warp = thread / 32, number = thread % 32;
  const int first_column = block % PANELS * COLUMNS;
  const Lane lane = {number, number / 4, first_column + number / 4 * OWN};
  int* pieces = reinterpret_cast<int*>(smem + (STAGED ? K * ROW_BYTES : 0));
  if constexpr (STAGED) load_panel(smem, b, first_column, thread);
  const unsigned panel = (unsigned)__cvta_generic_to_shared(smem);
  const int* run = runs + part * (WARPS + 1) + warp;
  const int start = __ldg(run), stop = __ldg(run + 1);
  const uint2* next_values = reinterpret_cast<const uint2*>(values);
  next_values += start * LEFT_DIGITS * 32 + number;
  const uint4* next_places = reinterpret_cast<const uint4*>(places) + start * 8 + number % 4;
  Step ahead[PREFETCH];
  #pragma unroll
  for (int p = 0; p < PREFETCH; ++p) fetch(ahead[p], next_values, next_places, p);
  int group = __ldg(firsts + part * WARPS + warp);
  int begin = __ldg(starts + group), end = __ldg(starts + group + 1), row = __ldg(rows_of + group);
  const Channels own = shared_terms(from);
  Rows rows = {};
  if constexpr (STAGED) {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
  }
  int sums[ALL_SUMS];
  clear(sums);
  int base = start, at = start;
  bool unfinished = false;
  while (at < stop) {
    const int last = min(end, stop);
    const int next_end = __ldg(starts + group + 2), next_row = __ldg(rows_of + group + 1);
    rows = rows_from(from, row, lane);
    do {
      #pragma unroll
      for (int p = 0; p < PREFETCH; ++p) {
        if ((unsigned)(base + p - at) < (unsigned)(last - at)) {
          const Step step = ahead[p];
          fetch(ahead[p], next_values, next_places, p + PREFETCH);
          multiply_step(sums, step, panel, b, lane);
        }
      }
      if (base + PREFETCH > last) break;
      base += PREFETCH, next_values += PREFETCH * LEFT_DIGITS * 32, next_places += PREFETCH * 8;
    } while (base < last);
    at = last;
    if (begin < start) {
      #pragma unroll
      for (int i = 0; i < ALL_SUMS; ++i) pieces[(warp * ALL_SUMS + i) * 32 + number] = sums[i];
    } else if (last < end) {
      unfinished = true;
      break;
    } else {
      finish(sums, rows, own, from, y, row, lane);
    }
    clear(sums);
    begin = end, end = next_end, row = next_row, ++group;
  }
  __syncthreads();
  if (!unfinished) return;
  for (int other = 1; warp + other < WARPS; ++other) {
    const int from_step = __ldg(run + other);
    if (from_step >= end) break;
    if (from_step == __ldg(run + other + 1)) continue;
    #pragma unroll
    for (int i = 0; i < ALL_SUMS; ++i)
      sums[i] += pieces[((warp + other) * ALL_SUMS + i) * 32 + number];
  }
  finish(sums, rows, own, from, y, row, lane);
}
"""

SHIFT = """
      own.shift.word[i] = __float_as_uint(rows.shift[r]);"""

PRODUCT = r"""
  if constexpr (LEFT == LEFT_DIGIT && RIGHT == RIGHT_DIGIT)
    asm volatile("INSTRUCTION {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));"""
