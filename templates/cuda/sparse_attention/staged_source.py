"""CUDA source of attention in kernels of its own: scores, shares, then values.

Scores and shares lie in steps of 32 keys, [pairs, steps, 8 queries, 32], SR-BCRS with a stride of
32; shares of 16 bits in two planes of bytes, the lower one first. Keys and values are gathered from
where quantisation left them, and values are turned in registers, four bytes of four rows at a time.
"""

from __future__ import annotations

STAGED_SOURCE = r"""
constexpr int CHUNKS = WIDE / 16, UNITS = 2 * CHUNKS, PLANES = SOFTMAX_BITS / 8;
constexpr float LOG2E = 1.4426950408889634f, UNSEEN = -65504.0f;

__device__ __forceinline__ float power(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ unsigned halves(float low, float high) {
  unsigned y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
__device__ __forceinline__ unsigned rounded(float low, float high) {
  if constexpr (!BRAIN) return halves(low, high);
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
__device__ __forceinline__ float value_of(unsigned bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)bits));
  return y;
}
template <bool SHARES> __device__ __forceinline__ void product(
    int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  if constexpr (SHARES)
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Scores of a step as floats of 16 bits; keys that a query does not see are the least of these.
__device__ __forceinline__ void score(
    const void* q_bytes, const void* q_steps, const void* kv_bytes, const void* kv_steps,
    const void* groups, const void* columns, const void* kept, const void* scale, void* scores,
    int block, int thread) {
  const int item = block * WARPS + thread / 32, pair = item / STEPS, step = item % STEPS;
  if (pair >= PAIRS) return;
  const int lane = thread % 32, g = lane / 4, t = lane % 4;
  const int group = __ldg(reinterpret_cast<const int*>(groups) + step);
  if (group < 0) return;
  const long long row = (long long)pair * GROUP_ROWS + group * 8 + g;
  const uint4* q = reinterpret_cast<const uint4*>(q_bytes) + row * CHUNKS;
  const uint4* kv = reinterpret_cast<const uint4*>(kv_bytes);
  kv += (long long)pair * PADDED_KEYS * UNITS;
  int sums[4][4] = {};
  #pragma unroll
  for (int c = t; c < CHUNKS; c += 4) {
    const uint4 own = __ldg(q + c);
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = __ldg(reinterpret_cast<const int*>(columns) + step * 32 + i * 8 + g);
      const uint4 other = __ldg(kv + (key * UNITS + c));
      product<false>(sums[i], own.x, 0, own.y, 0, other.x, other.y);
      product<false>(sums[i], own.z, 0, own.w, 0, other.z, other.w);
    }
  }
  const float factor = __ldg(reinterpret_cast<const float*>(q_steps) + row) *
                       __ldg(reinterpret_cast<const float*>(kv_steps) + pair * 2) *
                       __ldg(reinterpret_cast<const float*>(scale));
  const unsigned seen = __ldg(reinterpret_cast<const unsigned*>(kept) + step * 8 + g);
  unsigned* to = reinterpret_cast<unsigned*>(scores);
  to += (((long long)pair * STEPS + step) * 8 + g) * 16 + t;
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    float pair_of[2];
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float y = fmaxf(fminf((float)sums[i][j] * factor, 65504.0f), -65472.0f);
      pair_of[j] = seen >> (i * 8 + t * 2 + j) & 1 ? y : UNSEEN;
    }
    to[i * 4] = halves(pair_of[0], pair_of[1]);
  }
}

// Shares of a group's queries, relative to the largest, and what a value's sum is multiplied by.
__device__ __forceinline__ void share(
    const void* scores, const void* kv_steps, const void* starts, void* shares, void* factors,
    int block, int thread) {
  const int item = block * WARPS + thread / 32, pair = item / GROUPS, group = item % GROUPS;
  if (pair >= PAIRS) return;
  const int lane = thread % 32;
  const int begin = __ldg(reinterpret_cast<const int*>(starts) + group);
  const int end = __ldg(reinterpret_cast<const int*>(starts) + group + 1);
  const uint4* from = reinterpret_cast<const uint4*>(scores);
  from += (long long)pair * STEPS * 32 + lane;
  float most = UNSEEN;
  for (int step = begin; step < end; ++step) {
    const uint4 v = from[step * 32];
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
    #pragma unroll
    for (int i = 0; i < 8; ++i)
      most = fmaxf(most, value_of(words[i / 2] >> 16 * (i % 2) & 0xffff));
  }
  most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
  most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
  unsigned total = 0;
  for (int step = begin; step < end; ++step) {
    const uint4 v = from[step * 32];
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
    unsigned bytes[PLANES][2] = {};
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float y = value_of(words[i / 2] >> 16 * (i % 2) & 0xffff);
      const float found = y > UNSEEN ? power((y - most) * LOG2E) * MOST_SHARE : 0.0f;
      const unsigned whole = __float2int_rn(found);
      total += whole;
      #pragma unroll
      for (int p = 0; p < PLANES; ++p)
        bytes[p][i / 4] |= (whole >> 8 * p & 255) << 8 * (i % 4);
    }
    #pragma unroll
    for (int p = 0; p < PLANES; ++p) {
      uint2* to = reinterpret_cast<uint2*>(shares);
      to[(((long long)pair * STEPS + step) * PLANES + p) * 32 + lane] =
          make_uint2(bytes[p][0], bytes[p][1]);
    }
  }
  total += __shfl_xor_sync(~0u, total, 1);
  total += __shfl_xor_sync(~0u, total, 2);
  if (lane % 4 == 0) {
    const float step = __ldg(reinterpret_cast<const float*>(kv_steps) + pair * 2 + 1);
    reinterpret_cast<float*>(factors)[(long long)pair * GROUP_ROWS + group * 8 + lane / 4] =
        total > 0 ? __fdividef(step, (float)total) : 0.0f;
  }
}

// Four words of four rows, a byte of each row in every word: columns 4g to 4g + 3.
__device__ __forceinline__ void turn(unsigned (&w)[4]) {
  const unsigned a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[2], w[3], 0x5140);
  const unsigned c = __byte_perm(w[0], w[1], 0x7362), d = __byte_perm(w[2], w[3], 0x7362);
  w[0] = __byte_perm(a, b, 0x5410), w[1] = __byte_perm(a, b, 0x7632);
  w[2] = __byte_perm(c, d, 0x5410), w[3] = __byte_perm(c, d, 0x7632);
}

// Values of a group's keys by its shares.
__device__ __forceinline__ void weigh(
    const void* shares, const void* factors, const void* kv_bytes, const void* starts,
    const void* columns, void* y_of, int block, int thread) {
  const int item = block * WARPS + thread / 32, pair = item / GROUPS, group = item % GROUPS;
  if (pair >= PAIRS) return;
  const int lane = thread % 32, g = lane / 4, t = lane % 4;
  const int begin = __ldg(reinterpret_cast<const int*>(starts) + group);
  const int end = __ldg(reinterpret_cast<const int*>(starts) + group + 1);
  const unsigned char* kv = reinterpret_cast<const unsigned char*>(kv_bytes);
  kv += (long long)pair * PADDED_KEYS * UNITS * 16;
  const unsigned* own = reinterpret_cast<const unsigned*>(shares);
  own += (long long)pair * STEPS * PLANES * 64 + g * 8 + t;
  int sums[PLANES][WIDE / 32][2][4] = {};
  #pragma unroll 1
  for (int step = begin; step < end; ++step) {
    unsigned right[PLANES][2];
    #pragma unroll
    for (int p = 0; p < 2 * PLANES; ++p)
      right[p / 2][p % 2] = own[(step * PLANES + p / 2) * 64 + p % 2 * 4];
    const int4* names = reinterpret_cast<const int4*>(columns) + step * 8 + t;
    const int4 low = __ldg(names), high = __ldg(names + 4);
    const int keys[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    #pragma unroll
    for (int c = 0; c < WIDE / 32; ++c) {
      unsigned words[2][4];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int unit = CHUNKS + 2 * c + g / 4;
        const unsigned char* place = kv + (keys[i] * UNITS + unit) * 16 + g % 4 * 4;
        words[i / 4][i % 4] = __ldg(reinterpret_cast<const unsigned*>(place));
      }
      turn(words[0]), turn(words[1]);
      #pragma unroll
      for (int p = 0; p < PLANES; ++p) {
        #pragma unroll
        for (int j = 0; j < 2; ++j)
          product<true>(sums[p][c][j], words[0][2 * j], words[0][2 * j + 1], words[1][2 * j],
                        words[1][2 * j + 1], right[p][0], right[p][1]);
      }
    }
  }
  unsigned* y = reinterpret_cast<unsigned*>(y_of);
  y += ((long long)(pair / ROW_STEP) * QUERIES * ROW_STEP + pair % ROW_STEP) * (DEPTH / 2);
  #pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int row = group * 8 + 2 * t + j;
    const float factor = __ldg(
        reinterpret_cast<const float*>(factors) + (long long)pair * GROUP_ROWS + row);
    #pragma unroll
    for (int c = 0; c < WIDE / 32; ++c) {
      const int column = c * 32 + g * 4, at = (row * ROW_STEP * DEPTH + column) / 2;
      if (row >= QUERIES || column >= DEPTH) continue;
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        float found[2];
        #pragma unroll
        for (int k = 0; k < 2; ++k) {
          found[k] = (float)sums[0][c][i][2 * k + j];
          if constexpr (PLANES == 2) found[k] += 256.0f * (float)sums[PLANES - 1][c][i][2 * k + j];
        }
        y[at + i] = rounded(found[0] * factor, found[1] * factor);
      }
    }
  }
}
"""
