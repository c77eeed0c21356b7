"""CUDA source of the panel kernel: gathered rows as the left factor, vectors as the right one.

mma.sync multiplies 16 columns of 32 rows of b, transposed, by 32 vectors of 8 rows. Integers of 16
bits are two digits, bytes of which the higher alone has a sign, and products of digits add to the
sums of their place. Floats of 16 bits have products of 16 rows, and sums that are kept as their
bits. How rows are gathered is in `staged_source.py` and `unstaged_source.py`.
"""

from __future__ import annotations

HEADING = r"""
constexpr int OWN = COLUMNS / 8, SUMS = 2 * OWN, ALL_SUMS = PLANES * SUMS;
constexpr int ROW_BYTES = COLUMNS * RIGHT_DIGITS * DIGIT_BITS / 8, LANE_BYTES = OWN * RIGHT_DIGITS;
template <bool> struct Sum { using type = int; using pair = int2; };
template <> struct Sum<true> { using type = long long; using pair = longlong2; };
using Total = Sum<SIXTY_FOUR>::type;
struct Rows { Total bias[2]; float scale[2], shift[2]; };
// column: of b and y, the first of the lane's OWN.
struct Lane { int number, column; };

// Eight nibbles as bytes, four columns a word. Those that have signs come 8 higher, which the bias
// takes off again: extending signs takes as many instructions as parting nibbles.
constexpr unsigned SIGNS = NIBBLES == 2 ? 0x88888888 : 0;
__device__ __forceinline__ void widen(unsigned eight, unsigned& first, unsigned& second) {
  const unsigned even = (eight ^ SIGNS) & 0x0f0f0f0f, odd = (eight >> 4 ^ SIGNS) & 0x0f0f0f0f;
  first = __byte_perm(even, odd, 0x5140), second = __byte_perm(even, odd, 0x7362);
}
__device__ __forceinline__ uint4 widened(uint2 sixteen) {
  uint4 bytes;
  widen(sixteen.x, bytes.x, bytes.y);
  widen(sixteen.y, bytes.z, bytes.w);
  return bytes;
}
__device__ __forceinline__ int added(int first, int second) {
  if constexpr (FLOATS)
    return __float_as_int(__fadd_rn(__int_as_float(first), __int_as_float(second)));
  else
    return first + second;
}
// d += a b of digit LEFT of the values and digit RIGHT of b.
template <int LEFT, int RIGHT> __device__ __forceinline__ void product(
    int* d, const unsigned (&a)[4], uint2 b) {PRODUCTS
}
"""
"""What the multiplication of a step takes."""

FINISH = r"""
// What all rows share. Of one scale `first` has the first words of `words.ONE_SCALE`: the form, of
// which PACK is the shorter one, the scale, what is added, and what sums start from.
__device__ __forceinline__ Channels terms_of(const Constants& from) {
  if constexpr (!ONE_SCALE) return shared_terms(from);
  Channels own = {};
  own.first = __ldg(reinterpret_cast<const float4*>(from.scalars));
  own.form = own.first.x == IS_ONE_SCALE ? Form::PACK : Form::ANY;
  return own;
}
__device__ __forceinline__ int start_of(const Channels& own) {
  return ONE_SCALE ? __float_as_int(own.first.w) : 0;
}
// The forms that a kernel holds: of one scale PACK and ANY.
constexpr bool SHORT = SATURATES || ONE_SCALE, SHIFTS = SATURATES && !ONE_SCALE;
constexpr Form LAST = SHIFTS ? Form::CLAMP : Form::ANY;
template <bool FUSED> __device__ __forceinline__ Raw<OUT, V> of_one_scale(
    const int (&acc)[V], const float4& numbers) {
  float value[V];
  #pragma unroll
  for (int i = 0; i < V; ++i)
    value[i] = FUSED ? __fmaf_rn(__int_as_float(acc[i]), numbers.y, numbers.z)
                     : element::scaled(acc[i], numbers.y);
  if constexpr (V == 4)
    return {element::converted4(value[0], value[1], value[2], value[3])};
  else
    return quantise<OUT, V>(value, LEAST, MOST, 0.f);
}
// What the epilogue takes for a lane's two rows of a group.
__device__ __forceinline__ Rows rows_from(const Constants& from, int group, const Lane& lane) {
  Rows rows = {};
  if constexpr (ONE_SCALE) return rows;
  const int pair = group * 4 + lane.number % 4;
  const auto bias = __ldg(reinterpret_cast<const Sum<SIXTY_FOUR>::pair*>(from.bias) + pair);
  rows.bias[0] = bias.x, rows.bias[1] = bias.y;
  if constexpr (!WIDE) {
    const float2 scale = __ldg(reinterpret_cast<const float2*>(from.scale) + pair);
    rows.scale[0] = scale.x, rows.scale[1] = scale.y;
  }
  if constexpr (FLOAT_BIAS) {
    const float2 shift = __ldg(reinterpret_cast<const float2*>(from.scale + TERMS) + pair);
    rows.shift[0] = shift.x, rows.shift[1] = shift.y;
  }
  return rows;
}

template <class T, int W> __device__ __forceinline__ void stream(T* to, const Raw<T, W>& raw) {
  constexpr int BYTES = W * BITS<T> / 8;
  const unsigned* w = raw.word;
  if constexpr (BYTES == 16) __stcs((uint4*)to, make_uint4(w[0], w[1], w[2], w[3]));
  else if constexpr (BYTES == 8) __stcs(reinterpret_cast<uint2*>(to), make_uint2(w[0], w[1]));
  else if constexpr (BYTES == 4) __stcs(reinterpret_cast<unsigned*>(to), w[0]);
  else if constexpr (BYTES == 2)
    __stcs(reinterpret_cast<unsigned short*>(to), (unsigned short)w[0]);
  else store<T, W>(to, raw);
}

// V neighbouring outputs of row r of a lane's two, from where `at` is in y, of the sums of planes.
template <Form FORM> __device__ __forceinline__ Raw<OUT, V> group_outputs(
    const int (&sums)[PLANES][V], const Rows& rows, int r, Channels own, const Constants& from,
    int at) {
  Raw<ACC, V> bias;
  int acc[V];
  #pragma unroll
  for (int j = 0; j < V; ++j) {
    bias.word[j] = SIXTY_FOUR || FLOATS ? 0 : (unsigned)rows.bias[r];
    own.scale.word[j] = __float_as_uint(rows.scale[r]);SHIFT;
    Total total = SIXTY_FOUR ? rows.bias[r] : 0;
    #pragma unroll
    for (int plane = 0; plane < PLANES; ++plane)
      total += (Total)sums[plane][j] << (DIGIT_BITS * plane);
    acc[j] = total;
    if constexpr (SIXTY_FOUR)
      acc[j] = __float_as_int(__fmul_rn(__ll2float_rn(total), rows.scale[r]));
    if constexpr (FLOATS)
      acc[j] = __float_as_int(
          __fmul_rn(__int_as_float(added(acc[j], (int)rows.bias[r])), rows.scale[r]));
  }
  Raw<ADDEND, V> addends = {};
  if constexpr (RESIDUAL) addends = load<ADDEND, V>(from.residual + at);
  if constexpr (ONE_SCALE) return of_one_scale<FORM == Form::PACK>(acc, own.first);
  else return outputs<FORM>(acc, bias, addends, own);
}
// Where a sum of a lane's column c of row r of its two is.
__device__ __forceinline__ constexpr int place_of_sum(int plane, int c, int r) {
  return plane * SUMS + c / 2 * 4 + c % 2 * 2 + r;
}

// W neighbouring outputs of row r of a lane's two; sum(plane, j): of the j-th.
template <Form FORM, int W, class SumOf> __device__ __forceinline__ Raw<OUT, W> row_outputs(
    const SumOf& sum, const Rows& rows, int r, const Channels& own, const Constants& from, int at) {
  Raw<OUT, W> all;
  #pragma unroll
  for (int first = 0; first < W; first += V) {
    int planes[PLANES][V];
    #pragma unroll
    for (int plane = 0; plane < PLANES; ++plane)
      #pragma unroll
      for (int j = 0; j < V; ++j) planes[plane][j] = sum(plane, first + j);
    const Raw<OUT, V> found = group_outputs<FORM>(planes, rows, r, own, from, at + first);
    if constexpr (W == V) return found;
    constexpr int WORDS = V * BITS<OUT> / 32;
    #pragma unroll
    for (int w = 0; w < WORDS; ++w) all.word[first / V * WORDS + w] = found.word[w];
  }
  return all;
}
// Columns of a lane that are stored together: sectors of which several stores have a part each cost
// the L2 as much as whole ones. They take registers, which not all kernels have.
constexpr int FULL = 128 / BITS<OUT>;
constexpr int WIDEST = STORES_WIDE && V == 4 && OWN % V == 0 && N % OWN == 0
    ? (FULL < V ? V : FULL < OWN ? FULL : OWN) : V;
// The outputs of a group of eight rows, of which a lane has two: to y, or, with a pitch, to
// rows so far apart, of which y points to the lane's first column and which may lie outside of y.
template <Form FORM, int STAGED_PITCH = 0>
__device__ __forceinline__ void finish_group(
    const int (&sums)[ALL_SUMS], const Rows& rows, const Channels& own, const Constants& from,
    OUT* y, int first_row, const Lane& lane) {
  constexpr bool ANYWHERE = STAGED_PITCH && !RESIDUAL;
  constexpr int STORED = STAGED_PITCH ? V : WIDEST;
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + 2 * (lane.number % 4) + r;
    if (!ANYWHERE && !ROWS_INSIDE && row >= M) continue;
    #pragma unroll
    for (int c = 0; c < OWN; c += STORED) {
      if (!ANYWHERE && !COLUMNS_INSIDE && lane.column + c * APART >= N) continue;
      const int at = row * N + lane.column + c * APART;
      OUT* to = STAGED_PITCH ? y + (row - first_row) * STAGED_PITCH + c * APART : y + at;
      const auto found = row_outputs<FORM, STORED>(
          [&](int plane, int j) { return sums[place_of_sum(plane, c + j, r)]; }, rows, r, own,
          from, at);
      if constexpr (STREAMED && STAGED_PITCH == 0) stream<OUT, STORED>(to, found);
      else store<OUT, STORED>(to, found);
    }
  }
}
__device__ __forceinline__ void finish(
    const int (&sums)[ALL_SUMS], const Rows& rows, const Channels& own, const Constants& from,
    OUT* y, int first_row, const Lane& lane) {
  if (SHORT && own.form == Form::PACK)
    finish_group<SHORT ? Form::PACK : Form::ANY>(sums, rows, own, from, y, first_row, lane);
  else if (SHIFTS && own.form == Form::SHIFT)
    finish_group<SHIFTS ? Form::SHIFT : Form::ANY>(sums, rows, own, from, y, first_row, lane);
  else
    finish_group<LAST>(sums, rows, own, from, y, first_row, lane);
}

__device__ __forceinline__ void clear(int (&sums)[ALL_SUMS], int start) {
  #pragma unroll
  for (int i = 0; i < ALL_SUMS; ++i) sums[i] = start;
}
"""
"""What follows the last step of a group."""

RUNS = r"""
// Sums of a lane's column c of row r of its two are at 4 (c / 2) + 2 (c % 2) + r of a plane; the
// product of digits i and j belongs to plane i + j. Loads stay behind the last use of what they
// replace, or the copies that moving them ahead takes would wait for them.
__device__ __forceinline__ void fetch(
    Step& step, const uint2* values, const Place* places, int number) {
  #pragma unroll
  for (int i = 0; i < LEFT_DIGITS; ++i)
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];"
                 : "=r"(step.values[i].x), "=r"(step.values[i].y)
                 : "l"(values + (number * LEFT_DIGITS + i) * 32));
  fetch_places(step, places, number);
}
// The first steps, in front of the barrier behind the panel: ptxas moves loads by way of the
// non-coherent path behind it, where all warps wait for them.
__device__ __forceinline__ void fetch_first(
    Step& step, const uint2* values, const Place* places, int number) {
  #pragma unroll
  for (int i = 0; i < LEFT_DIGITS; ++i)
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(step.values[i].x), "=r"(step.values[i].y)
                 : "l"(values + (number * LEFT_DIGITS + i) * 32) : "memory");
  fetch_first_places(step, places, number);
}
// A warp takes its run of steps. A group that began in an earlier warp's run is left in shared
// memory to that warp, which adds up what others have of its last group when all are done.
__device__ __forceinline__ void multiply_sparse(
    unsigned char* smem, const B* b, const int* values, const void* places, const int* starts,
    const int* rows_of, const int* runs, const int* firsts, const Constants& from, OUT* y,
    int block, int thread) {
  const int part = block / PANELS, warp = thread / 32, number = thread % 32;
  const int first_column = block % PANELS * COLUMNS;
  const Lane lane = {number, first_column + number / 4 * OWN};
  int* pieces = reinterpret_cast<int*>(smem + PANEL_BYTES);
  const int* run = runs + part * (WARPS + 1) + warp;
  const int start = __ldg(run), stop = __ldg(run + 1);
  int group = __ldg(firsts + part * WARPS + warp);
  PanelPieces of_panel;
  start_panel(of_panel, b, first_column, thread);
  unsigned panel;  // kept in a register: the compiler would find the address anew in each step
  asm volatile("mov.u32 %0, %1;" : "=r"(panel) : "r"((unsigned)__cvta_generic_to_shared(smem)));
  const uint2* next_values = reinterpret_cast<const uint2*>(values);
  next_values += start * LEFT_DIGITS * 32 + number;
  const Place* next_places = own_places(places, start, number);
  Step ahead[PREFETCH];
  #pragma unroll
  for (int p = 0; p < PREFETCH; ++p) fetch_first(ahead[p], next_values, next_places, p);
  int begin = __ldg(starts + group), end = __ldg(starts + group + 1), row = __ldg(rows_of + group);
  const Channels own = terms_of(from);
  Rows rows = rows_from(from, group, lane);
  load_panel(smem, of_panel, b, first_column, thread);
  if constexpr (STAGED) __syncthreads();
  int sums[ALL_SUMS];
  const int origin = start_of(own);  // of a group that several runs have the first one's alone
  clear(sums, begin < start ? 0 : origin);
  int base = start, at = start;
  bool unfinished = false;
  while (at < stop) {
    const int last = min(end, stop);
    const int next_end = __ldg(starts + group + 2), next_row = __ldg(rows_of + group + 1);
    const Rows next_rows = rows_from(from, group + 1, lane);
    do {
      #pragma unroll
      for (int p = 0; p < PREFETCH; ++p) {
        if ((unsigned)(base + p - at) < (unsigned)(last - at)) {
          multiply_step(sums, ahead[p], panel, b, lane);
          fetch(ahead[p], next_values, next_places, p + PREFETCH);
        }
      }
      if (base + PREFETCH > last) break;
      base += PREFETCH, next_values += PREFETCH * LEFT_DIGITS * 32;
      next_places = own_places(next_places, PREFETCH, 0);
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
    clear(sums, origin);
    begin = end, end = next_end, row = next_row, rows = next_rows, ++group;
  }
  __syncthreads();
  if (!unfinished) return;
  for (int other = 1; warp + other < WARPS; ++other) {
    const int from_step = __ldg(run + other);
    if (from_step >= end) break;
    if (from_step == __ldg(run + other + 1)) continue;
    #pragma unroll
    for (int i = 0; i < ALL_SUMS; ++i)
      sums[i] = added(sums[i], pieces[((warp + other) * ALL_SUMS + i) * 32 + number]);
  }
  finish(sums, rows, own, from, y, row, lane);
}
"""
