"""CUDA source that quantises q, k and v: largest magnitudes, then bytes as attention reads them.

Keys and values of a row lie together, 16-byte chunks of them changing places by the row's number
modulo 8, so that the same chunk of eight rows that differ so lies in different banks.
"""

from __future__ import annotations

VALUES_SOURCE = r"""
constexpr int CHUNKS = WIDE / 16, UNITS = 2 * CHUNKS, OCTETS = DEPTH / 8;

__device__ __forceinline__ float value(unsigned bits) {
  if constexpr (BRAIN) return __uint_as_float(bits << 16);
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)bits));
  return y;
}
// Both values of a word.
__device__ __forceinline__ void values_of(float (&pair)[2], unsigned word) {
  if constexpr (BRAIN) {
    pair[0] = __uint_as_float(word << 16), pair[1] = __uint_as_float(word & 0xffff0000);
  } else {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low;"
        " cvt.f32.f16 %1, high; }" : "=f"(pair[0]), "=f"(pair[1]) : "r"(word));
  }
}
// The largest magnitudes of eight values, of the first of each two and of the second; those of
// floats rise with their bits.
__device__ __forceinline__ unsigned largest_pair(const uint4& v) {
  constexpr unsigned MAGNITUDES = 0x7fff7fff;
  return __vmaxu2(__vmaxu2(v.x & MAGNITUDES, v.y & MAGNITUDES),
                  __vmaxu2(v.z & MAGNITUDES, v.w & MAGNITUDES));
}
__device__ __forceinline__ int largest_of(unsigned pair) {
  return max((int)(pair & 0xffff), (int)(pair >> 16));
}
__device__ __forceinline__ int largest_of_lanes(int most, int from) {
  #pragma unroll
  for (int step = from; step > 0; step /= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
  return most;
}

// Where a row of a pair lies, in octets of values; pairs are heads of a batch.
__device__ __forceinline__ int place_of(int pair, int row, int rows) {
  if constexpr (ROW_STEP == 1) return (pair * rows + row) * OCTETS;
  return ((pair / ROW_STEP * rows + row) * ROW_STEP + pair % ROW_STEP) * OCTETS;
}

// Sixteen values as bytes: the low ones of numbers on top of 1.5 * 2^23, of at most MOST.
__device__ __forceinline__ uint4 as_bytes(const uint4 (&halves)[2], float inverse) {
  unsigned bytes[4];
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4 v = halves[i / 2];
    const unsigned words[2] = {i % 2 ? v.z : v.x, i % 2 ? v.w : v.y};
    unsigned whole[4];
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      float pair[2];
      values_of(pair, words[j]);
      #pragma unroll
      for (int k = 0; k < 2; ++k)
        whole[2 * j + k] = __float_as_uint(__fadd_rn(__fmul_rn(pair[k], inverse), 12582912.0f));
    }
    bytes[i] = __byte_perm(__byte_perm(whole[0], whole[1], 0x0040),
                           __byte_perm(whole[2], whole[3], 0x0040), 0x5410);
  }
  return make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
}
// Sixteen values of a row of `rows`; zeros behind its depth and, BOUNDED, behind the last row.
template <bool BOUNDED = true, bool STAYS = false> __device__ __forceinline__ void read_chunk(
    uint4 (&halves)[2], const void* from, int pair, int row, int rows, int chunk) {
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    // Without a branch, so that the loads of several chunks are under way together.
    const int octet = 2 * chunk + i, near = BOUNDED ? min(row, rows - 1) : row;
    const int own = DEPTH == WIDE ? octet : min(octet, OCTETS - 1);
    const uint4* place = reinterpret_cast<const uint4*>(from) + place_of(pair, near, rows);
    uint4 found;
    // A load that stays where it is: others are sunk behind the next barrier.
    if constexpr (STAYS)
      asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w) : "l"(place + own));
    else
      found = __ldg(place + own);
    const bool there = (!BOUNDED || row < rows) && (DEPTH == WIDE || octet < OCTETS);
    halves[i] = there ? found : make_uint4(0, 0, 0, 0);
  }
}
// A correctly rounded quotient of numbers that are far from the ends of floats' range, as those of
// halves are. Others take a call, after which a compiler knows less of what a warp's lanes share.
__device__ __forceinline__ float quotient(float x, float y) {
  if constexpr (BRAIN) return __fdiv_rn(x, y);
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
  inverse = __fmaf_rn(__fmaf_rn(-y, inverse, 1.0f), inverse, inverse);
  float found = __fmul_rn(x, inverse);
  found = __fmaf_rn(__fmaf_rn(-y, found, x), inverse, found);
  return __fmaf_rn(__fmaf_rn(-y, found, x), inverse, found);
}
__device__ __forceinline__ float inverse_of(float most) {
  return most > 0 ? quotient((float)MOST, fmaxf(most, 1e-30f)) : 0.0f;
}
__device__ __forceinline__ float step_of(float most) {
  return most > 0 ? quotient(most, (float)MOST) : 1.0f;
}
// Where a chunk of a key or of its value lies: SLOT keys lie together, their values behind them.
// Rows that are read together lie in different banks where they differ modulo 8.
__device__ __forceinline__ uint4* chunk_of(
    void* kv_bytes, int pair, int place, int chunk, bool of_v) {
  const int turned = SLOT == 1 ? 0 : place % 8 * CHUNKS / 8;
  const long long first = (long long)pair * PADDED_KEYS + place / SLOT * SLOT;
  return reinterpret_cast<uint4*>(kv_bytes) + first * UNITS
      + (of_v * SLOT + place % SLOT) * CHUNKS + (chunk ^ turned);
}
// The largest magnitude of a query of which neighbouring lanes have sixteen values each.
__device__ __forceinline__ float largest_of_query(const uint4 (&halves)[2]) {
  const int bits = largest_of(__vmaxu2(largest_pair(halves[0]), largest_pair(halves[1])));
  return value(largest_of_lanes(bits, CHUNKS / 2));
}
"""
"""What turns 16-bit floats into bytes, of which the attending kernel does its queries itself."""

QUANTISE_SOURCE = r"""
// Bits of the largest magnitudes of a part of a pair's keys and values, [pairs, PARTS, 2].
__device__ __forceinline__ void measure(
    unsigned char* smem, const void* k, const void* v, void* maxima, int block, int thread) {
  const int pair = block / PARTS, part = block % PARTS;
  constexpr int EACH = (KEYS * OCTETS + PARTS - 1) / PARTS;
  const uint4* of[2] = {reinterpret_cast<const uint4*>(k), reinterpret_cast<const uint4*>(v)};
  unsigned pairs[2] = {0, 0};
  // Four rounds of loads are under way at a time.
  #pragma unroll 1
  for (int first = thread; first < EACH; first += 4 * THREADS) {
    uint4 found[4][2];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int within = first + i / 2 * THREADS, at = part * EACH + within;
      const int place = place_of(pair, at / OCTETS, KEYS) + at % OCTETS;
      const bool there = within < EACH && at < KEYS * OCTETS;
      found[i / 2][i % 2] = there ? __ldg(of[i % 2] + place) : make_uint4(0, 0, 0, 0);
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
      pairs[i % 2] = __vmaxu2(pairs[i % 2], largest_pair(found[i / 2][i % 2]));
  }
  int* shared = reinterpret_cast<int*>(smem);
  #pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int most = largest_of_lanes(largest_of(pairs[j]), 16);
    if (thread % 32 == 0) shared[j * (THREADS / 32) + thread / 32] = most;
  }
  __syncthreads();
  if (thread < 2) {
    int whole = 0;
    for (int i = 0; i < THREADS / 32; ++i) whole = max(whole, shared[thread * (THREADS / 32) + i]);
    reinterpret_cast<int*>(maxima)[block * 2 + thread] = whole;
  }
}

// A block of keys with their values: bytes, and steps of k and v, [pairs, 2]. places: where keys
// lie, or none where they lie in their order.
__device__ __forceinline__ void quantise_keys(
    const void* k, const void* v, const void* maxima, const int* places, void* kv_bytes,
    void* kv_steps, int pair, int number, int thread) {
  static_assert(PARTS == 32, "a lane reads what one part has found");
  const int item = number * THREADS + thread, row = item / UNITS, unit = item % UNITS;
  const bool of_v = unit >= CHUNKS;
  uint4 halves[2];
  read_chunk(halves, of_v ? v : k, pair, row, KEYS, unit % CHUNKS);
  const int2 found = __ldg(reinterpret_cast<const int2*>(maxima) + pair * PARTS + thread % 32);
  const float most[2] = {value(largest_of_lanes(found.x, 16)),
                         value(largest_of_lanes(found.y, 16))};
  if (number == 0 && thread < 2)
    reinterpret_cast<float*>(kv_steps)[pair * 2 + thread] = step_of(most[thread]);
  if (row >= PADDED_KEYS) return;
  const int place = places ? __ldg(places + row) : row;
  *chunk_of(kv_bytes, pair, place, unit % CHUNKS, of_v) =
      as_bytes(halves, inverse_of(of_v ? most[1] : most[0]));
}
constexpr int OF_KV = (PADDED_KEYS * UNITS + THREADS - 1) / THREADS;
constexpr int OF_Q = (GROUP_ROWS * CHUNKS + THREADS - 1) / THREADS;

__device__ __forceinline__ void quantise_keys_alone(
    const void* k, const void* v, const void* maxima, const void* places, void* kv_bytes,
    void* kv_steps, int block, int thread) {
  const int* of_keys = reinterpret_cast<const int*>(places);
  quantise_keys(k, v, maxima, of_keys, kv_bytes, kv_steps, block / OF_KV, block % OF_KV, thread);
}
// A block of keys with their values, or of queries: bytes, and steps of rows of q, [pairs,
// GROUP_ROWS].
__device__ __forceinline__ void quantise(
    const void* q, const void* k, const void* v, const void* maxima, void* q_bytes, void* q_steps,
    void* kv_bytes, void* kv_steps, int block, int thread) {
  const int pair = block / (OF_KV + OF_Q), number = block % (OF_KV + OF_Q);
  if (number < OF_KV)
    return quantise_keys(k, v, maxima, nullptr, kv_bytes, kv_steps, pair, number, thread);
  const int item = (number - OF_KV) * THREADS + thread, row = item / CHUNKS;
  uint4 halves[2];
  read_chunk(halves, q, pair, row, QUERIES, item % CHUNKS);
  const float most = largest_of_query(halves);
  const uint4 bytes = as_bytes(halves, inverse_of(most));
  if (row >= GROUP_ROWS) return;
  const long long at = (long long)pair * GROUP_ROWS + row;
  reinterpret_cast<uint4*>(q_bytes)[at * CHUNKS + item % CHUNKS] = bytes;
  if (item % CHUNKS == 0) reinterpret_cast<float*>(q_steps)[at] = step_of(most);
}
"""
