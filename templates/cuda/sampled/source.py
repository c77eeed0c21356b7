"""CUDA source of the sampled product: gathered rows of b on the left, rows of a on the right.

mma.sync multiplies 16 rows of b by the 2, 4 or 8 rows of a that a vector row has. Both factors lie
along k, so that a lane reads 16 bytes of its rows where they are: which k a register holds does not
matter as long as both sides agree. Nibbles become bytes in the high half of each, 16 times as
large; values of 16 bits are parted into digits, bytes of which the higher alone has a sign.
"""

from __future__ import annotations

SOURCE = r"""
constexpr int LANE_WORDS = LANE_BYTES / 4, CHUNK_BYTES = 4 * LANE_BYTES;
constexpr int CHUNKS = (ROW_BYTES + CHUNK_BYTES - 1) / CHUNK_BYTES;
constexpr int ROUNDS = (CHUNKS + TOGETHER - 1) / TOGETHER;
constexpr int LINE = STRIDE ? STRIDE : 1;
constexpr bool WHOLE = ROW_BYTES % (CHUNK_BYTES * TOGETHER) == 0;
using Words = unsigned[LANE_WORDS];

// The bytes of a row from `at` on; 0 behind its end.
__device__ __forceinline__ void read(Words& words, const unsigned char* row, int at) {
  #pragma unroll
  for (int i = 0; i < LANE_WORDS; ++i) words[i] = 0;
  #pragma unroll
  for (int i = 0; i < LANE_BYTES / ALIGNED; ++i) {
    const int from = at + i * ALIGNED;
    if (!WHOLE && from >= ROW_BYTES) break;
    const unsigned char* place = row + from;
    if constexpr (ALIGNED == 16) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(place));
      words[0] = v.x, words[1] = v.y, words[2 % LANE_WORDS] = v.z, words[3 % LANE_WORDS] = v.w;
    } else if constexpr (ALIGNED == 8) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(place));
      words[2 * i] = v.x, words[2 * i + 1] = v.y;
    } else if constexpr (ALIGNED == 4) {
      words[i] = __ldg(reinterpret_cast<const unsigned*>(place));
    } else if constexpr (ALIGNED == 2) {
      const unsigned v = __ldg(reinterpret_cast<const unsigned short*>(place));
      words[i / 2] |= v << 16 * (i % 2);
    } else {
      words[i / 4] |= (unsigned)__ldg(place) << 8 * (i % 4);
    }
  }
}

PRODUCTS

// Adds the products of two gathered rows and a row of a, of a lane's bytes of a chunk.
__device__ __forceinline__ void multiply(
    SUM (&sums)[4 * PLANES], const Words& first, const Words& second, const Words& right) {
  if constexpr (KIND == 4) {
    #pragma unroll
    for (int i = 0; i < LANE_WORDS; ++i) {
      constexpr unsigned HIGH = 0xf0f0f0f0;
      const unsigned left[4] = {first[i] << 4 & HIGH, second[i] << 4 & HIGH, first[i] & HIGH,
                                second[i] & HIGH};
      product<0>(sums, left, right[i] << 4 & HIGH, right[i] & HIGH);
    }
  } else if constexpr (KIND == 16) {
    unsigned left[2][4], other[2][2];
    #pragma unroll
    for (int digit = 0; digit < 2; ++digit) {
      const unsigned halves = digit ? 0x7531 : 0x6420;
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        left[digit][2 * i] = __byte_perm(first[2 * i], first[2 * i + 1], halves);
        left[digit][2 * i + 1] = __byte_perm(second[2 * i], second[2 * i + 1], halves);
        other[digit][i] = __byte_perm(right[2 * i], right[2 * i + 1], halves);
      }
    }
    product<0>(sums, left[0], other[0][0], other[0][1]);
    product<1>(sums + 4, left[1], other[0][0], other[0][1]);
    product<2>(sums + 4, left[0], other[1][0], other[1][1]);
    product<3>(sums + 8 % (4 * PLANES), left[1], other[1][0], other[1][1]);
  } else {
    #pragma unroll
    for (int i = 0; i < LANE_WORDS; i += 2) {
      const unsigned left[4] = {first[i], second[i], first[i + 1], second[i + 1]};
      product<0>(sums, left, right[i], right[i + 1]);
    }
  }
}

// The sum of an output from those of its planes.
__device__ __forceinline__ TOTAL total(const SUM (&sums)[4 * PLANES], int i) {
  if constexpr (KIND == 4) return (int)sums[i] >> 8;
  if constexpr (KIND == 16) {
    TOTAL high = sums[8 % (4 * PLANES) + i], middle = sums[4 % (4 * PLANES) + i];
    return (TOTAL)sums[i] + middle * 256 + high * 65536;
  }
  return sums[i];
}

__device__ __forceinline__ OUT finished(TOTAL sum, float row_scale, float column_scale) {
  if constexpr (SCALED) {
    const float y = __fmul_rn(__fmul_rn((float)sum, row_scale), column_scale);
    ROUND
  } else {
    return (OUT)sum;
  }
}

struct alignas(2 * sizeof(OUT)) Pair { OUT first, second; };

__device__ __forceinline__ void write(OUT* y, int place, int row, OUT first, OUT second) {
  if constexpr (STRIDE == 0) {
    *reinterpret_cast<Pair*>(y + place * VECTOR + row) = Pair{first, second};
  } else {
    OUT* to = y + (place / LINE * VECTOR + row) * LINE + place % LINE;
    to[0] = first, to[LINE] = second;
  }
}

__device__ __forceinline__ void sample(
    const void* a_of, const void* b_of, const int* items, const int* columns,
    const float* row_scale, const float* column_scale, void* y_of, int block, int thread) {
  const int item = block * WARPS + thread / 32, lane = thread % 32, t = lane % 4;
  if (item >= ITEMS) return;
  // The first row, the first place, how many vectors there are, and how many places.
  const int4 work = __ldg(reinterpret_cast<const int4*>(items) + item);
  if (work.w == 0) return;
  const unsigned char* b = reinterpret_cast<const unsigned char*>(b_of);
  const int own_row = work.x + lane / 4;
  const bool has_row = lane / 4 < VECTOR && own_row < M;
  const unsigned char* a = reinterpret_cast<const unsigned char*>(a_of);
  a += (has_row ? own_row : 0) * ROW_BYTES;
  int of[TILES][2];
  #pragma unroll
  for (int i = 0; i < 2 * TILES; ++i) {
    const int place = i * 8 + lane / 4;
    of[i / 2][i % 2] = place < work.z ? __ldg(columns + work.y + place) : 0;
  }
  SUM sums[TILES][4 * PLANES] = {};
  Words right[TOGETHER], next[TOGETHER];
  #pragma unroll
  for (int c = 0; c < TOGETHER; ++c) {
    if constexpr (AHEAD) read(right[c], a, c * CHUNK_BYTES + t * LANE_BYTES);
  }
  #pragma unroll 1
  for (int turn = 0; turn < ROUNDS; ++turn) {
    const int start = turn * TOGETHER * CHUNK_BYTES + t * LANE_BYTES;
    Words left[TILES][TOGETHER][2];
    #pragma unroll
    for (int i = 0; i < TILES; ++i) {
      if (i * 16 >= work.z) break;
      #pragma unroll
      for (int c = 0; c < 2 * TOGETHER; ++c)
        read(left[i][c / 2][c % 2], b + of[i][c % 2] * ROW_BYTES, start + c / 2 * CHUNK_BYTES);
    }
    #pragma unroll
    for (int c = 0; c < TOGETHER; ++c) {
      const int at = start + c * CHUNK_BYTES;
      if constexpr (AHEAD) {
        if (turn + 1 < ROUNDS) read(next[c], a, at + TOGETHER * CHUNK_BYTES);
      } else {
        read(right[c], a, at);
      }
    }
    #pragma unroll
    for (int i = 0; i < TILES; ++i) {
      if (i * 16 >= work.z) break;
      #pragma unroll
      for (int c = 0; c < TOGETHER; ++c)
        multiply(sums[i], left[i][c][0], left[i][c][1], right[c]);
    }
    #pragma unroll
    for (int c = 0; c < TOGETHER; ++c) {
      #pragma unroll
      for (int i = 0; i < LANE_WORDS; ++i)
        if constexpr (AHEAD) right[c][i] = next[c][i];
    }
  }
  const int row = 2 * t;
  if (row >= VECTOR) return;
  float scales[2] = {};
  bool has[2];
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    has[i] = work.x + row + i < M;
    if (SCALED && has[i]) scales[i] = __ldg(row_scale + work.x + row + i);
  }
  #pragma unroll
  for (int i = 0; i < 2 * TILES; ++i) {
    const int place = i * 8 + lane / 4;
    if (place >= work.w) continue;
    OUT found[2] = {};
    if (place < work.z) {
      const float scale = SCALED ? __ldg(column_scale + of[i / 2][i % 2]) : 0.0f;
      #pragma unroll
      for (int j = 0; j < 2; ++j)
        if (has[j]) found[j] = finished(total(sums[i / 2], i % 2 * 2 + j), scales[j], scale);
    }
    write(reinterpret_cast<OUT*>(y_of), work.y + place, row, found[0], found[1]);
  }
}
"""

PRODUCT = r"""
  if constexpr (WHICH == NUMBER)
    asm volatile("INSTRUCTION {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+KIND_OF_D"(d[0]), "+KIND_OF_D"(d[1]),
                   "+KIND_OF_D"(d[2]), "+KIND_OF_D"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));"""

ROUNDINGS = {
    "float32": "return y;",
    "float16": 'unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(y)); '
    "return bits;",
    "bfloat16": 'unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(y)); '
    "return bits;",
    "int32": "return 0;",
}
"""C++ that returns a float32 `y` as each output's bits."""
