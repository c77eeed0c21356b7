"""CUDA source of products with single weights, with sums in registers over chunks of x."""

from __future__ import annotations

SOURCE = r"""
constexpr int E = 16 / SIZE, ROW_BYTES = LANES * 16, GROUPS = THREADS / LANES;
constexpr int COLUMNS = GROUPS * OUTPUTS, ROWS = LANES * E, STAGED = GROUPS + 4;
struct alignas(16) Unit { unsigned word[4]; };
__device__ __forceinline__ int bits_of(int v) { return v; }
__device__ __forceinline__ int bits_of(float v) { return __float_as_int(v); }
template <class T> __device__ __forceinline__ T number_of(int bits);
template <> __device__ __forceinline__ int number_of<int>(int bits) { return bits; }
template <> __device__ __forceinline__ float number_of<float>(int bits) {
  return __int_as_float(bits);
}
__device__ __forceinline__ Unit row_of(const unsigned char* panel, int at) {
  const uint4 v = *reinterpret_cast<const uint4*>(panel + at);
  return {{v.x, v.y, v.z, v.w}};
}
__device__ __forceinline__ void widen(const Unit& unit, float (&value)[E]) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (SIZE == 4) {
      value[i] = __uint_as_float(unit.word[i]);
    } else if constexpr (BRAIN) {
      value[2 * i] = __uint_as_float(unit.word[i] << 16);
      value[2 * i + 1] = __uint_as_float(unit.word[i] & 0xFFFF0000u);
    } else if constexpr (SIZE == 2) {
      asm("{.reg .b16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi;}"
          : "=f"(value[2 * i]), "=f"(value[2 * i + 1]) : "r"(unit.word[i]));
    }
  }
}

// Sums of four weights more: of bytes four products are one instruction.
__device__ __forceinline__ void add_step(
    SUM (&sum)[E], const unsigned char* panel, const int4& at, const STEP* weights, int step) {
  if constexpr (SIZE == 1) {
    const unsigned weight = __ldg(reinterpret_cast<const unsigned*>(weights) + step);
    const Unit a = row_of(panel, at.x), b = row_of(panel, at.y);
    const Unit c = row_of(panel, at.z), d = row_of(panel, at.w);
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned four[4] = {a.word[i], b.word[i], c.word[i], d.word[i]};
      unsigned turned[4];
      turn_bytes(four, turned);
      #pragma unroll
      for (int j = 0; j < 4; ++j)
        sum[4 * i + j] = multiply_bytes<X, WEIGHT>(turned[j], weight, (int)sum[4 * i + j]);
    }
  } else {
    const float4 weight = __ldg(reinterpret_cast<const float4*>(weights) + step);
    const int places[4] = {at.x, at.y, at.z, at.w};
    const float factors[4] = {weight.x, weight.y, weight.z, weight.w};
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      float value[E];
      widen(row_of(panel, places[j]), value);
      #pragma unroll
      for (int i = 0; i < E; ++i) sum[i] = fmaf(value[i], factors[j], (float)sum[i]);
    }
  }
}

// Rows [first, first + CHUNK) of x transposed, ROW_BYTES of each.
__device__ __forceinline__ void read_chunk(
    unsigned char* panel, const unsigned char* x, int first, int thread) {
  constexpr int UNITS = CHUNK * LANES, EACH = (UNITS + THREADS - 1) / THREADS;
  #pragma unroll 8
  for (int i = 0; i < EACH; ++i) {
    const int unit = i * THREADS + thread, row = unit / LANES;
    if ((UNITS % THREADS && unit >= UNITS) || first + row >= K) continue;
    const long long at = (long long)(first + row) * PITCH * SIZE + unit % LANES * 16;
    *reinterpret_cast<uint4*>(panel + unit * 16) =
        __ldg(reinterpret_cast<const uint4*>(x + at));
  }
}

// The columns of y of one output of each group, whose sums lie in shared memory.
__device__ __forceinline__ void store_columns(
    const unsigned* staged, const SUM* before, const Constants& from, OUT* y, int first_row,
    int first_column, int thread) {
  constexpr int ACROSS = GROUPS / V;
  const int part = thread % ACROSS * V, column = first_column + part;
  if (column >= N) return;
  Channels own = channels(from, column);
  const Raw<ACC, V> bias = load<ACC, V>(from.bias + column);
  for (int m = thread / ACROSS; m < ROWS; m += THREADS / ACROSS) {
    const int row = first_row + m, at = row * N + column;
    if (row >= M) break;
    const unsigned* own_sums = staged + m * STAGED + (part + 4 * (m / E)) % GROUPS;
    ACC acc[V];
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      SUM sum = number_of<SUM>(own_sums[i]);
      if constexpr (ADDS) sum = __ldg(before + at + i) + sum;
      if constexpr (FLOATING) acc[i] = (ACC)sum;
      else acc[i] = (ACC)bits_of(sum);
    }
    Raw<ADDEND, V> addends = {};
    if constexpr (RESIDUAL) addends = load<ADDEND, V>(from.residual + at);ROW_SCALE;
    store<OUT, V>(y + at, outputs<Form::ANY>(acc, bias, addends, own));
  }
}

__device__ __forceinline__ void multiply_elements(
    unsigned char* panel, const unsigned char* x, const SUM* before, const int* starts,
    const int4* places, const STEP* weights, const Constants& from, OUT* y, int block,
    int thread) {
  const int first_row = block % ROW_TILES * ROWS, first_column = block / ROW_TILES * COLUMNS;
  const int group = thread / LANES, lane = thread % LANES;
  SUM sums[OUTPUTS][E];
  #pragma unroll
  for (int r = 0; r < OUTPUTS; ++r) {
    #pragma unroll
    for (int i = 0; i < E; ++i) sums[r][i] = 0;
  }
  x += (long long)first_row * SIZE;
  const int* own = starts + first_column + group;
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    __syncthreads();
    read_chunk(panel, x, chunk * CHUNK, thread);
    __syncthreads();
    #pragma unroll
    for (int r = 0; r < OUTPUTS; ++r) {
      const int last = __ldg(own + r * GROUPS + 1);
      for (int step = __ldg(own + r * GROUPS); step < last; ++step)
        add_step(sums[r], panel + lane * 16, __ldg(places + step), weights, step);
    }
    own += COLUMN_TILES * COLUMNS;
  }
  unsigned* staged = reinterpret_cast<unsigned*>(panel);
  #pragma unroll
  for (int r = 0; r < OUTPUTS; ++r) {
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < E; ++i)
      staged[(lane * E + i) * STAGED + (group + 4 * lane) % GROUPS] = bits_of(sums[r][i]);
    __syncthreads();
    store_columns(staged, before, from, y, first_row, first_column + r * GROUPS, thread);
  }
}
"""
"""multiply_elements(panel, x transposed, sums to add to, starts, places, weights, ..., y, ...)."""
