"""CUDA source of a block of attention over listed keys: a ring of keys that its groups go along.

All keys and values of a pair pass through shared memory once, block after block; a group's steps
are done while all of their keys are there, as the schedule says.
"""

from __future__ import annotations

BLOCK_SOURCE = r"""
__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned y;
  if constexpr (BRAIN) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// A word by a load that stays where it is: one by the other path is sunk behind the next barrier.
__device__ __forceinline__ unsigned load(const unsigned* from) {
  unsigned y;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(y) : "l"(from));
  return y;
}

// Where the first query of a pair lies, in words of two values.
__device__ __forceinline__ long long start_of(int pair) {
  const int batch = pair / ROW_STEP, head = pair % ROW_STEP;
  return ((long long)batch * QUERIES * ROW_STEP + head) * (DEPTH / 2);
}

// Divides a group's sums by its shares and writes its queries; number: the group's, none below 0.
__device__ __forceinline__ void finish(
    const Group& group, unsigned* y, float value_step, int number, int lane) {
  float total = (float)group.total;
  #pragma unroll
  for (int step = 1; step < 4; step *= 2) total += __shfl_xor_sync(~0u, total, step);
  const float own = total > 0 ? __fdividef(value_step, total) : 0.0f;
  // Words of two neighbouring columns.
  constexpr int ROW_WORDS = ROW_STEP * DEPTH / 2;
  const int row = max(number, 0) * 8 + lane % 4 * 2, word = lane / 4;
  y += row * ROW_WORDS + word;
  #pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float factor = __shfl_sync(~0u, own, lane % 4 * 8 + j * 4);
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      float pair[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int odd = c / 2 * 2 + i, at = c % 2 * 2 + j;
        pair[i] = (float)group.sums[0][odd][at];
        if constexpr (PLANES == 2) pair[i] += 256.0f * (float)group.sums[PLANES - 1][odd][at];
      }
      const bool there = number >= 0 && (QUERIES % 8 == 0 || row + j < QUERIES)
          && (DEPTH == WIDE || c * 8 + word < DEPTH / 2);
      if (there) y[j * ROW_WORDS + c * 8] = rounded(pair[0] * factor, pair[1] * factor);
    }
  }
}

// Makes bytes of a warp's own queries, and of each query the factor of its scores. order: the
// groups of the warp's places.
__device__ __forceinline__ void take_queries(
    unsigned char* smem, float* factors, const void* q, const int* order, float common, int pair,
    int warp, int lane) {
  // Neighbouring lanes have a query together, and all loads of a lane are under way together.
  constexpr int AT_ONCE = 32 / CHUNKS, EACH = GROUPS * 8 / AT_ONCE;
  const int row = lane / CHUNKS, chunk = lane % CHUNKS, first = warp * GROUPS * 8 + row;
  uint4 halves[EACH][2];
  #pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int group = max(__ldg(order + n * AT_ONCE / 8), 0);
    const int query = group * 8 + n * AT_ONCE % 8 + row;
    read_chunk<QUERIES % 8 != 0>(halves[n], q, pair, query, QUERIES, chunk);
  }
  // Of the lanes that have a query's values, each divides for another of their queries.
  static_assert(EACH <= CHUNKS, "as many lanes as queries");
  float most[EACH];
  #pragma unroll
  for (int n = 0; n < EACH; ++n) most[n] = largest_of_query(halves[n]);
  float own_most = most[0];
  #pragma unroll
  for (int n = 1; n < EACH; ++n) own_most = chunk == n ? most[n] : own_most;
  const float own_inverse = inverse_of(own_most);
  if (chunk < EACH) factors[first + chunk * AT_ONCE] = fmaxf(step_of(own_most) * common, 1e-30f);
  #pragma unroll
  for (int n = 0; n < EACH; ++n) {
    const int own = first + n * AT_ONCE, turned = CHUNKS == 4 ? own / 2 % 4 : own % 8;
    const float inverse = __shfl_sync(~0u, own_inverse, n, CHUNKS);
    reinterpret_cast<uint4*>(smem)[own * CHUNKS + (chunk ^ turned)] = as_bytes(halves[n], inverse);
  }
}

__device__ __forceinline__ void attend(
    unsigned char* smem, const void* q, const void* kv_bytes, const void* kv_steps,
    const void* order_of, const void* firsts_of, const void* words_of, const void* kept_of,
    const void* scale, void* y_of, int block, int thread) {
  const int pair = block / PARTS_OF_QUERIES, part = block % PARTS_OF_QUERIES;
  const int warp = thread / 32, lane = thread % 32;
  const unsigned queries = (unsigned)__cvta_generic_to_shared(smem), keys = queries + Q_BYTES;
  const unsigned barriers = keys + RING_BYTES + OF_BLOCK * 32;
  float* factors = reinterpret_cast<float*>(smem + Q_BYTES + RING_BYTES);
  const Ring ring{keys, barriers, barriers + 8 * SLOTS};
  const Source kv{kv_bytes, block};
  open_ring(ring, kv, thread);
  const unsigned* steps_of = reinterpret_cast<const unsigned*>(words_of);
  int at = load(reinterpret_cast<const unsigned*>(firsts_of) + part * WARPS + warp) * 32 + lane;
  // The words of the next steps are there before they are needed: behind a block of keys that is on
  // its way, one takes as long as several steps.
  unsigned words[READ_AHEAD];
  #pragma unroll
  for (int i = 0; i < READ_AHEAD; ++i) words[i] = load(steps_of + at + 32 * i);
  const float* of_pair = reinterpret_cast<const float*>(kv_steps) + pair * 2;
  const float common = __ldg(of_pair) * __ldg(reinterpret_cast<const float*>(scale)) * LOG2E;
  const int* order = reinterpret_cast<const int*>(order_of) + part * OF_BLOCK + warp * GROUPS;
  take_queries(smem, factors, q, order, common, pair, warp, lane);
  if constexpr (BULK) __syncthreads();
  else __syncwarp();

  const unsigned* kept = reinterpret_cast<const unsigned*>(kept_of);
  Group groups[GROUPS];
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    groups[g].shift = NONE, groups[g].total = 0;
    #pragma unroll
    for (int i = 0; i < PLANES * CHUNKS * 4; ++i)
      groups[g].sums[i / (CHUNKS * 4)][i / 4 % CHUNKS][i % 4] = 0;
  }
  const int row = lane % 8, turned = CHUNKS == 4 ? row / 2 : row;
  const unsigned own_queries =
      queries + (warp * GROUPS * 8 + row) * WIDE + (lane / 16 ^ turned) * 16;
  const float* own_factors = factors + warp * GROUPS * 8 + lane / 4;
  unsigned heading = __ballot_sync(~0u, (int)words[0] < 0), staying = 0;
  #pragma unroll 1
  for (int time = 0; time < KEY_BLOCKS; ++time) {
    enter(ring, kv, time, thread);
    // A lane's words lie at its number modulo 32, which needs no register of its own so.
    replace(ring, kv, time - 1, staying, at & 31);
    const unsigned now = 2 * time;
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      if (heading << 1 != now + g * OF_PLACE) continue;
      // Rows 8 to 15 of the left factor are those above them again: nothing reads what they give.
      unsigned q_bytes[CHUNKS / 2][4];
      #pragma unroll
      for (int c = 0; c < CHUNKS / 2; ++c)
        load_matrices<false>(q_bytes[c], (own_queries ^ c * 32) + g * 8 * WIDE);
      const float factor = own_factors[g * 8];
      #pragma unroll 1
      do {
        const unsigned word = words[0];
        #pragma unroll
        for (int i = 0; i + 1 < READ_AHEAD; ++i) words[i] = words[i + 1];
        words[READ_AHEAD - 1] = __ldg(steps_of + at + 32 * READ_AHEAD);
        const unsigned next = __ballot_sync(~0u, (int)words[0] < 0);
        attend_step(groups[g], q_bytes, factor, keys, word, heading >> 31, kept, at);
        at += 32;
        heading = next;
      } while (heading << 1 == now + g * OF_PLACE);
    }
    staying = leave(ring, time, at & 31);
  }
  // What outputs need is found anew: it would take registers throughout.
  asm volatile("" : "+r"(block) : : "memory");
  const int own_pair = block / PARTS_OF_QUERIES, own_part = block % PARTS_OF_QUERIES;
  const float value_step = __ldg(reinterpret_cast<const float*>(kv_steps) + own_pair * 2 + 1);
  unsigned* y = reinterpret_cast<unsigned*>(y_of) + start_of(own_pair);
  const int* own_groups = reinterpret_cast<const int*>(order_of) + own_part * OF_BLOCK;
  int own_group[GROUPS];
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g)
    own_group[g] = load(reinterpret_cast<const unsigned*>(own_groups) + warp * GROUPS + g);
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g) finish(groups[g], y, value_step, own_group[g], at & 31);
}
"""
