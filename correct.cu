
#ifdef __CUDACC_RTC__
  #include <cuda/std/cstdint>
  using cuda::std::uint8_t;
  using cuda::std::uint16_t;
  using cuda::std::uint32_t;
  using cuda::std::uint64_t;
  using cuda::std::int8_t;
  using cuda::std::int16_t;
  using cuda::std::int32_t;
  using cuda::std::int64_t;

  #include <cuda/std/type_traits>
  namespace std {
    using cuda::std::is_same;
    using cuda::std::is_same_v;
    using cuda::std::is_integral;
    using cuda::std::is_signed;
    using cuda::std::is_unsigned;
    using cuda::std::is_floating_point;
    using cuda::std::enable_if;
    using cuda::std::conditional;
  }

  // NVRTC uses asm/volatile instead of __asm__/__volatile__ (gcc extension).
  #ifndef __asm__
  #define __asm__ asm
  #endif
  #ifndef __volatile__
  #define __volatile__ volatile
  #endif
#else
  #include <cstdint>
  #include <type_traits>
  #include <cuda.h>
#endif

#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 700)
#define __shfl_sync(mask, var, lane, width) \
        __shfl((var), (lane), (width))

#define __shfl_down_sync(mask, var, offset, width) \
        __shfl_down((var), (offset), (width))

#define __shfl_up_sync(mask, var, offset, width) \
        __shfl_up((var), (offset), (width))
#endif

#if (((__CUDACC_VER_MAJOR__ == 11) && (__CUDACC_VER_MINOR__ >= 4)) || \
     (__CUDACC_VER_MAJOR__ > 11))
#define TVM_ENABLE_L2_PREFETCH 1
#else
#define TVM_ENABLE_L2_PREFETCH 0
#endif

#ifdef _WIN32
  using uint = unsigned int;
  using uchar = unsigned char;
  using ushort = unsigned short;
  using int64_t = long long;
  using uint64_t = unsigned long long;
#else
  #define uint unsigned int
  #define uchar unsigned char
  #define ushort unsigned short
#endif
#ifndef AUTOQ_CORRECT_B11C5D147F
#define AUTOQ_CORRECT_B11C5D147F
namespace correct_b11c5d147f {

template <bool> struct Nibbles { unsigned char pair; };
struct Half { unsigned short bits; };
struct Brain { unsigned short bits; };
template <class T> struct Format {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr int bits = 8 * sizeof(T);
};
template <bool S> struct Format<Nibbles<S>> {
  static constexpr bool is_signed = S;
  static constexpr int bits = 4;
};
template <> struct Format<Half> {
  static constexpr bool is_signed = true;
  static constexpr int bits = 16;
};
template <> struct Format<Brain> : Format<Half> {};
template <class T> constexpr bool IS_HALF = false;
template <> constexpr bool IS_HALF<Half> = true;
template <class T> constexpr bool IS_BRAIN = false;
template <> constexpr bool IS_BRAIN<Brain> = true;
template <class T> constexpr bool SIGNED = Format<T>::is_signed;
template <class T> constexpr int BITS = Format<T>::bits;

template <class T> struct From {
  const void* start;
  __device__ __forceinline__ From(const void* pointer) : start(pointer) {}
  __device__ __forceinline__ const T* operator+(int i) const {
    return static_cast<const T*>(start) + (BITS<T> == 4 ? i / 2 : i);
  }
};
template <class T> struct To {
  void* start;
  __device__ __forceinline__ To(void* pointer) : start(pointer) {}
  __device__ __forceinline__ T* operator+(int i) const {
    return static_cast<T*>(start) + (BITS<T> == 4 ? i / 2 : i);
  }
};

template <class T, int V> struct Raw { unsigned word[(V * BITS<T> + 31) / 32]; };

template <class T, int V> __device__ __forceinline__ Raw<T, V> load(const T* from) {
  constexpr int bytes = V * BITS<T> / 8, unit = bytes % 16 == 0 ? 16 : bytes & -bytes;
  Raw<T, V> raw;
  #pragma unroll
  for (int i = 0; i < (bytes + 3) / 4; ++i) raw.word[i] = 0;
  #pragma unroll
  for (int i = 0; i < bytes / unit; ++i) {
    if constexpr (unit == 16) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(from) + i);
      raw.word[4 * i] = v.x, raw.word[4 * i + 1] = v.y;
      raw.word[4 * i + 2] = v.z, raw.word[4 * i + 3] = v.w;
    } else if constexpr (unit == 8) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(from) + i);
      raw.word[2 * i] = v.x, raw.word[2 * i + 1] = v.y;
    } else if constexpr (unit == 4) {
      raw.word[i] = __ldg(reinterpret_cast<const unsigned*>(from) + i);
    } else if constexpr (unit == 2) {
      const unsigned v = __ldg(reinterpret_cast<const unsigned short*>(from) + i);
      raw.word[i / 2] |= v << (16 * (i % 2));
    } else {
      const unsigned v = __ldg(reinterpret_cast<const unsigned char*>(from) + i);
      raw.word[i / 4] |= v << (8 * (i % 4));
    }
  }
  return raw;
}

template <class T, int V> __device__ __forceinline__ void store(T* to, const Raw<T, V>& raw) {
  constexpr int bytes = V * BITS<T> / 8, unit = bytes % 16 == 0 ? 16 : bytes & -bytes;
  const unsigned* w = raw.word;
  #pragma unroll
  for (int i = 0; i < bytes / unit; ++i) {
    if constexpr (unit == 16) {
      reinterpret_cast<uint4*>(to)[i] =
          make_uint4(w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]);
    } else if constexpr (unit == 8) {
      reinterpret_cast<uint2*>(to)[i] = make_uint2(w[2 * i], w[2 * i + 1]);
    } else if constexpr (unit == 4) {
      reinterpret_cast<unsigned*>(to)[i] = w[i];
    } else if constexpr (unit == 2) {
      reinterpret_cast<unsigned short*>(to)[i] = (unsigned short)(w[i / 2] >> (16 * (i % 2)));
    } else {
      reinterpret_cast<unsigned char*>(to)[i] = (unsigned char)(w[i / 4] >> (8 * (i % 4)));
    }
  }
}

template <class T> __device__ __forceinline__ Raw<T, 1> load_one(From<T> from, int i) {
  if constexpr (BITS<T> == 4) {
    return {(unsigned)__ldg(reinterpret_cast<const unsigned char*>(from + i)) >> (4 * (i % 2))};
  } else {
    return load<T, 1>(from + i);
  }
}

constexpr int M = 8192;
constexpr int N = 8192;
constexpr int MOST = 127;
constexpr int LISTS = 1;
constexpr int BIAS = 0;
constexpr int PITCH_A = 8192;
constexpr int PITCH_B = 8192;
constexpr int TILE_ROWS = 64;
constexpr int GROUP = 32;
constexpr int TILES_M = 128;
constexpr int TILES_N = 64;
constexpr int WARPS = 8;

// ONCE: they leave the cache first, to what is gathered again.
template <bool ONCE> __device__ __forceinline__ int4 read_sums(const int* row, int column) {
  if constexpr (N % 4 == 0) {
    const int4* four = reinterpret_cast<const int4*>(row + column);
    if (column >= N) return make_int4(0, 0, 0, 0);
    if constexpr (ONCE) return __ldcs(four);
    else return __ldg(four);
  } else {
    return make_int4(column < N ? __ldg(row + column) : 0,
                     column + 1 < N ? __ldg(row + column + 1) : 0,
                     column + 2 < N ? __ldg(row + column + 2) : 0,
                     column + 3 < N ? __ldg(row + column + 3) : 0);
  }
}

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

constexpr int TOGETHER = 8;
__device__ __forceinline__ void add_product(const int* product, int (&sums)[4], int column) {
  const int4 q = read_sums<true>(product, column);
  sums[0] += q.x, sums[1] += q.y, sums[2] += q.z, sums[3] += q.w;
}
__device__ __forceinline__ void write_row(
    float* y, int4 p, const int (&sums)[4], float row_scale, const float (&scale)[4],
    const float (&bias)[4], int column) {
  const int whole[4] = {p.x, p.y, p.z, p.w};
  float value[4];
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float unit = 1.f / (2 * MOST);
    const float all = __fadd_rn((float)whole[c], __fmul_rn((float)sums[c], unit));
    value[c] = __fmul_rn(__fmul_rn(all, scale[c]), row_scale);
    if constexpr (BIAS) value[c] = __fadd_rn(value[c], bias[c]);
  }
  if constexpr (N % 4 == 0) {
    if (column < N)
      __stcs(reinterpret_cast<float4*>(y + column),
             make_float4(value[0], value[1], value[2], value[3]));
  } else {
    #pragma unroll
    for (int c = 0; c < 4; ++c)
      if (column + c < N) y[column + c] = value[c];
  }
}
__device__ __forceinline__ void correct(
    const int* sums, const int* by_a, const int* by_b, const float* rows, const float* columns,
    const float* bias, const void* residual_b, const void* residual_a, const unsigned* entries_of_a,
    const int* rows_of_a, const unsigned* entries_of_b, const int* columns_of_b, const int* whole,
    float* y, int* tile, int block, int thread) {
  const int band = block / (GROUP * TILES_M), within = block - band * (GROUP * TILES_M);
  const int beside = min(GROUP, TILES_N - band * GROUP);
  const int top = within / beside * TILE_ROWS, left = (band * GROUP + within % beside) * 128;
  const int lane = thread % 32, column = left + 4 * lane;
  const bool whole_a = !LISTS || __ldg(whole), whole_b = !LISTS || __ldg(whole + 1);
  const int own_rows = thread / 32 * OWN_ROWS, first = top + own_rows;
  if constexpr (LISTS)
    add_lists(sums, static_cast<const unsigned char*>(residual_b),
              static_cast<const unsigned char*>(residual_a), entries_of_a, rows_of_a, entries_of_b,
              columns_of_b, whole_a, whole_b, tile, top, left, thread);
  float scale[4], more[4];
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    scale[c] = column + c < N ? __ldg(columns + column + c) : 0.f;
    more[c] = BIAS && column + c < N ? __ldg(bias + column + c) : 0.f;
  }
  const float row_scales = lane < OWN_ROWS && first + lane < M ? __ldg(rows + first + lane) : 0.f;
  // A warp's rows are neighbours, and sums of several are asked for at a time.
  constexpr int ROWS = OWN_ROWS < TOGETHER ? OWN_ROWS : TOGETHER;
  for (int start = 0; start < OWN_ROWS; start += ROWS) {
    int4 p[ROWS];
    #pragma unroll
    for (int i = 0; i < ROWS; ++i)
      if (first + start + i < M)
        p[i] = read_sums<true>(sums + (size_t)(first + start + i) * N, column);
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const float row_scale = __shfl_sync(0xffffffffu, row_scales, start + i);
      if (first + start + i >= M) continue;
      const size_t at = (size_t)(first + start + i) * N;
      int added[4] = {};
      if (whole_b) add_product(by_b + at, added, column);
      if (whole_a) add_product(by_a + at, added, column);
      if (!(whole_a && whole_b)) {
        const int4 q = *reinterpret_cast<const int4*>(
            tile + place(own_rows + start + i, 4 * lane));
        added[0] += q.x, added[1] += q.y, added[2] += q.z, added[3] += q.w;
      }
      write_row(y + at, p[i], added, row_scale, scale, more, column);
    }
  }
}

}
#endif
__forceinline__ __device__ void tvm_builtin_ptx_griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" :  :  : "memory");
}
__forceinline__ __device__ void tvm_builtin_ptx_griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" :  :  : "memory");
}
extern "C" __global__ void __launch_bounds__(256) main_kernel(int* __restrict__ _ptr, int* __restrict__ _ptr_1, int* __restrict__ _ptr_2, float* __restrict__ _ptr_3, float* __restrict__ _ptr_4, signed char* __restrict__ _ptr_5, signed char* __restrict__ _ptr_6, uint* __restrict__ _ptr_7, int* __restrict__ _ptr_8, uint* __restrict__ _ptr_9, int* __restrict__ _ptr_10, int* __restrict__ _ptr_11, float* __restrict__ _ptr_12);
extern "C" __global__ void __launch_bounds__(256) main_kernel(int* __restrict__ _ptr, int* __restrict__ _ptr_1, int* __restrict__ _ptr_2, float* __restrict__ _ptr_3, float* __restrict__ _ptr_4, signed char* __restrict__ _ptr_5, signed char* __restrict__ _ptr_6, uint* __restrict__ _ptr_7, int* __restrict__ _ptr_8, uint* __restrict__ _ptr_9, int* __restrict__ _ptr_10, int* __restrict__ _ptr_11, float* __restrict__ _ptr_12) {
  int warp_id_in_cta = __shfl_sync((uint)4294967295, (((int)threadIdx.x) >> 5), 0, 32);
  int v = ((int)blockIdx.x);
  int v_1 = ((int)threadIdx.x);
  ((int)blockIdx.x);
  ((int)threadIdx.x);
  tvm_builtin_ptx_griddepcontrol_wait();
  tvm_builtin_ptx_griddepcontrol_launch_dependents();
  extern __shared__ __align__(128) int _ptr_13[];
  correct_b11c5d147f::correct(_ptr, _ptr_1, _ptr_2, _ptr_3, _ptr_4, 0, _ptr_5, _ptr_6, _ptr_7, _ptr_8, _ptr_9, _ptr_10, _ptr_11, _ptr_12, _ptr_13, ((int)blockIdx.x), ((int)threadIdx.x));
}

