"""CUDA source of attention over listed keys: scores, shares and values of a step of 32 keys.

Scores are a product of the tensor core whose left rows are the 8 queries of a group, twice, and
whose columns are keys: each lane then has the scores of one query, and as bytes they are the right
factor of the second product, whose left one is the values. ldmatrix transposes these by pairs of
columns, and a word has such pairs of two keys: with zeros between shares, a product takes the even
columns or the odd ones of 16 keys, and no byte of a value has to move. Sums stay integers; they are
shifted where a score is larger than what shares have been relative to.

`load_matrices` clobbers no memory. Queries are written once, in front of a barrier, and the ring by
asynchronous copies alone: waits, copies and loads are volatile statements, which keep their order.
"""

from __future__ import annotations

ATTEND_SOURCE = r"""
constexpr int ROW_BYTES = 2 * WIDE;
constexpr int THREADS = 32 * WARPS, OF_BLOCK = WARPS * GROUPS, KEY_BLOCKS = PADDED_KEYS / SLOT;
constexpr int Q_BYTES = OF_BLOCK * 8 * WIDE, RING_BYTES = SLOTS * SLOT * ROW_BYTES;
constexpr int PLANES = SOFTMAX_BITS / 8, MAGIC = 0x4b400000;
constexpr float MAGIC_VALUE = 12582912.0f, LOG2E = 1.4426950408889634f, NONE = 1e30f;
constexpr float MOST_SHARE = (1 << SOFTMAX_BITS) - 1;
constexpr unsigned EXCESS = SOFTMAX_BITS == 8 ? 0x34ffff00 : 0x34ff0000;

__device__ __forceinline__ float power(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
template <bool TRANSPOSED> __device__ __forceinline__ void load_matrices(
    unsigned (&r)[4], unsigned at) {
  if constexpr (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
template <bool SHARES> __device__ __forceinline__ void product(
    int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (SHARES)
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// What a warp knows of a group: what turns scores into powers of its shares, the sum of a lane's
// shares, and the sums of values: for each 32 columns those of the even ones, then of the odd ones,
// of pairs g and g + 8 for two queries.
struct Group {
  float shift;
  int total;
  int sums[PLANES][CHUNKS][4];
};

// The shares of a lane as integers on top of 2^23. REFERRED: no score exceeds what they are
// relative to. Where shares have no headroom, roundings would: that of a shift of 12 million
// factors alone may be more than one of 16 bits.
template <bool REFERRED> __device__ __forceinline__ unsigned shares_of(
    unsigned (&shares)[8], const float (&scores)[8], float factor, float shift) {
  unsigned excess = 0;
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    float share = power(__fmaf_rn(scores[i], factor, shift));
    if constexpr (REFERRED && !HEADROOM) share = fminf(share, MOST_SHARE);
    shares[i] = __float_as_uint(share + 8388608.0f);
    excess |= shares[i];
  }
  return excess & EXCESS;
}
// Shares by two as words: one of their bytes each, in the lower or the upper byte of a half of it,
// and zeros beside them.
__device__ __forceinline__ void words_of(
    unsigned (&words)[2][4], const unsigned (&shares)[8], int plane) {
  #pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const unsigned bytes = plane ? (upper ? 0x5612 : 0x6521) : (upper ? 0x4602 : 0x6420);
    #pragma unroll
    for (int i = 0; i < 4; ++i)
      words[upper][i] = __byte_perm(shares[2 * i], shares[2 * i + 1], bytes);
  }
}
// Raises what shares are relative to by as many powers of two as bring it next to the largest score
// (not below it, where shares have no headroom); what was summed is shifted.
__device__ __forceinline__ void refer(
    Group& group, const float (&scores)[8], float factor, int lane) {
  // Factors are positive, so that the largest score is that of the largest sum.
  float pairs[4];
  #pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = fmaxf(scores[2 * i], scores[2 * i + 1]);
  float most = fmaxf(fmaxf(pairs[0], pairs[1]), fmaxf(pairs[2], pairs[3]));
  #pragma unroll
  for (int step = 1; step < 4; step *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  // Above what shares are relative to; where no query sees a key, far below.
  const float over = __fmaf_rn(most, factor, group.shift) - LOG_TOP + (HEADROOM ? 0.0f : 0.5f);
  const float whole = __fadd_rn(fminf(fmaxf(over, 0.0f), 31.0f), MAGIC_VALUE);
  group.shift = over > 31.0f ? __fmaf_rn(most, -factor, LOG_TOP)
                             : group.shift - (whole - MAGIC_VALUE);
  const int shift = __float_as_int(whole) & 31;
  group.total >>= shift;
  const int of[2] = {__shfl_sync(~0u, shift, lane % 4 * 8),
                     __shfl_sync(~0u, shift, lane % 4 * 8 + 4)};
  #pragma unroll
  for (int i = 0; i < 4 * CHUNKS; ++i) {
    int& low = group.sums[0][i / 4][i % 4];
    low >>= of[i % 2];
    if constexpr (PLANES == 2) {
      // What the higher bytes' sum loses is worth up to 255 of the lower ones'.
      int& high = group.sums[PLANES - 1][i / 4][i % 4];
      low += __funnelshift_r(0, high, of[i % 2]) >> 24;
      high >>= of[i % 2];
    }
  }
}

// Which of its scores a lane's query sees, behind the word of the lane.
__device__ __forceinline__ unsigned seen_of(const unsigned* row) {
  unsigned y;
  asm volatile("ld.global.nc.u32 %0, [%1 + 128];" : "=r"(y) : "l"(row));
  return y;
}
// The keys of a step: a lane's rows of keys X and Y, then of Z and W, in chunks of the ring, as
// ldmatrix takes them. partly: some query does not see them all; a row of words holds in its second
// half which of its scores a lane's does.
__device__ __forceinline__ void attend_step(
    Group& group, const unsigned (&q)[CHUNKS / 2][4], float factor, unsigned ring, unsigned word,
    bool partly, const unsigned* row, int lane) {
  const unsigned first = word << 4 & 0x7fff0, second = word >> 12 & 0x7fff0;
  // On its way while scores are computed: a warp that waits for it holds up its block.
  unsigned seen;
  if (PLANES == 1 && partly) seen = seen_of(row);
  int products[4][4];
  #pragma unroll
  for (int i = 0; i < 16; ++i) products[i / 4][i % 4] = MAGIC;
  #pragma unroll
  for (int c = 0; c < CHUNKS / 2; ++c) {
    unsigned keys[2][4];
    load_matrices<false>(keys[0], ring + (first ^ c * 32));
    load_matrices<false>(keys[1], ring + (second ^ c * 32));
    #pragma unroll
    for (int i = 0; i < 4; ++i)
      product<false>(products[i], q[c], keys[i / 2][i % 2 * 2], keys[i / 2][i % 2 * 2 + 1]);
  }
  // Values are on their way to registers while shares are computed; they lie behind all keys of a
  // slot, in the order of these.
  unsigned values[CHUNKS][4];
  #pragma unroll
  for (int c = 0; c < CHUNKS; c += 2) {
    load_matrices<true>(values[c], ring + SLOT * WIDE + (first ^ c * 16));
    load_matrices<true>(values[c + 1], ring + SLOT * WIDE + (second ^ c * 16));
  }
  float scores[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) scores[i] = __int_as_float(products[i / 2][i % 2]);
  if (partly) {
    // Sums of two bytes leave no register for it until here.
    if (PLANES == 2) seen = seen_of(row);
    #pragma unroll
    for (int i = 0; i < 8; ++i)
      if (!(seen >> i & 1)) scores[i] = __int_as_float(0xff800000);
  }
  unsigned shares[8], words[2][4];
  const unsigned excess = shares_of<false>(shares, scores, factor, group.shift);
  // Before it is known whether these shares hold, which takes as long as to make words of them.
  words_of(words, shares, 0);
  if (__any_sync(~0u, excess)) {
    refer(group, scores, factor, lane);
    shares_of<true>(shares, scores, factor, group.shift);
    words_of(words, shares, 0);
  }
  #pragma unroll
  for (int p = 0; p < PLANES; ++p) {
    if (p) words_of(words, shares, p);
    #pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      #pragma unroll
      for (int c = 0; c < CHUNKS; ++c)
        product<true>(group.sums[p][c / 2 * 2 + upper], values[c], words[upper][c % 2 * 2],
                      words[upper][c % 2 * 2 + 1]);
    }
    unsigned sum = p ? 0 : group.total;
    #pragma unroll
    for (int i = 0; i < 4; ++i) sum = __dp4a(words[0][i], 0x01010101u, sum);
    group.total = p ? group.total + (sum << 8) : sum;
  }
}
"""
