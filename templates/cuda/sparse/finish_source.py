"""CUDA source of the end of a sparse product: from sums to outputs, whatever the kernel.

A lane has sums of two rows, whose terms, bias and scale, are read by whoever calls. Of bytes they
are what `of_read_sums` takes, where that is exact.
"""

from __future__ import annotations

FINISH = r"""
// What all rows share. Of one scale `first` has the first words of `words.ONE_SCALE`: the form, of
// which PACK is the shorter one, the scale, what is added, and what sums start from. Of scales of
// rows it has the last words of a `words.READ`, among them where sums start, 0 for the other form.
__device__ __forceinline__ Channels terms_of(const Constants& from) {
  if constexpr (!ONE_SCALE && !ROW_SCALES) return shared_terms(from);
  Channels own = {};
  own.first = __ldg(reinterpret_cast<const float4*>(from.scalars) + (ROW_SCALES ? 3 : 0));
  if constexpr (ONE_SCALE) own.form = own.first.x == IS_ONE_SCALE ? Form::PACK : Form::ANY;
  return own;
}
__device__ __forceinline__ int start_of(const Channels& own) {
  if constexpr (ROW_SCALES) return __float_as_int(own.first.y);
  return ONE_SCALE ? __float_as_int(own.first.w) : 0;
}
// Whether outputs are made in the form PACK. Where sums start says so too, in a register less.
__device__ __forceinline__ bool is_short(const Channels& own) {
  return ROW_SCALES ? start_of(own) != 0 : own.form == Form::PACK;
}
// The forms that a kernel holds: of one scale PACK and ANY, of scales of rows PACK and CLAMP.
constexpr bool SHORT = SATURATES || ONE_SCALE, SHIFTS = SATURATES && !ONE_SCALE && !ROW_SCALES;
constexpr Form LAST = SATURATES && !ONE_SCALE ? Form::CLAMP : Form::ANY;
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
// Sums that began at the bits of 1.5 * 2^23: the bias is a float less that, and scaled totals are
// read as `read_sums.py` says. numbers: the last of the words of a READ.
__device__ __forceinline__ Raw<OUT, V> of_read_sums(
    const int (&acc)[V], const float (&bias)[V], const float (&scale)[V], const float4& numbers) {
  unsigned n[V];
  #pragma unroll
  for (int i = 0; i < V; ++i) {
    const float value = __fmul_rn(__fadd_rn(__int_as_float(acc[i]), bias[i]), scale[i]);
    n[i] = __float_as_uint(__saturatef(__fmaf_rn(value, __int_as_float(1), numbers.z)));
  }
  if constexpr (V == 4)
    return {saturated4_read(n[0], n[1], n[2], n[3]) ^ __float_as_uint(numbers.w)};
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

// V outputs, from where `at` is in y, of the sums of planes: neighbours in row r of a lane's two,
// or for BOTH_ROWS half as many of each.
constexpr int BOTH_ROWS = 2;
template <Form FORM> __device__ __forceinline__ Raw<OUT, V> group_outputs(
    const int (&sums)[PLANES][V], const Rows& rows, int r, Channels own, const Constants& from,
    int at) {
  const auto row_of = [&](int j) { return r < BOTH_ROWS ? r : 2 * j / V; };
  if constexpr (ROW_SCALES && FORM == Form::PACK) {
    float added[V], scale[V];
    #pragma unroll
    for (int j = 0; j < V; ++j) {
      added[j] = __int_as_float((int)rows.bias[row_of(j)]);
      scale[j] = rows.scale[row_of(j)];
    }
    return of_read_sums(sums[0], added, scale, own.first);
  }
  // Read where they are used: the form that all rows mostly have does without.
  if constexpr (ROW_SCALES) own.second = __ldg(reinterpret_cast<const float4*>(from.scalars) + 1);
  Raw<ACC, V> bias;
  int acc[V];
  #pragma unroll
  for (int j = 0; j < V; ++j) {
    const int row = row_of(j);
    bias.word[j] = SIXTY_FOUR || FLOATS ? 0 : (unsigned)rows.bias[row];
    own.scale.word[j] = __float_as_uint(rows.scale[row]);SHIFT;
    Total total = SIXTY_FOUR ? rows.bias[row] : 0;
    #pragma unroll
    for (int plane = 0; plane < PLANES; ++plane)
      total += (Total)sums[plane][j] << (DIGIT_BITS * plane);
    acc[j] = total;
    if constexpr (SIXTY_FOUR)
      acc[j] = __float_as_int(__fmul_rn(__ll2float_rn(total), rows.scale[row]));
    if constexpr (FLOATS)
      acc[j] = __float_as_int(
          __fmul_rn(__int_as_float(added(acc[j], (int)rows.bias[row])), rows.scale[row]));
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
  if (SHORT && is_short(own))
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
