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
  constexpr int OF_ROW = ROW_STEP * DEPTH / 2;
  const int row = max(number, 0) * 8 + lane % 4 * 2, word = lane / 4;
  y += row * OF_ROW + word;
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
      if (there) y[j * OF_ROW + c * 8] = rounded(pair[0] * factor, pair[1] * factor);
    }
  }
}

// Queries of a warp on their way to bytes. Neighbouring lanes have a query together, and all loads
// of a lane are under way together.
struct Queries {
  static constexpr int AT_ONCE = 32 / CHUNKS, EACH = GROUPS * 8 / AT_ONCE;
  static_assert(EACH <= CHUNKS, "as many lanes as queries");
  uint4 halves[EACH][2];

  // groups: of each query of the lane.
  template <bool STAYS> __device__ __forceinline__ void read(
      const void* q, const int (&groups)[EACH], int pair, int lane) {
    #pragma unroll
    for (int n = 0; n < EACH; ++n) {
      const int query = max(groups[n], 0) * 8 + n * AT_ONCE % 8 + lane / CHUNKS;
      read_chunk<QUERIES % 8 != 0, STAYS>(halves[n], q, pair, query, QUERIES, lane % CHUNKS);
    }
  }
  // Makes bytes of them, and of each query the factor of its scores.
  __device__ __forceinline__ void keep(
      unsigned char* smem, float* factors, float common, int warp, int lane) const {
    const int chunk = lane % CHUNKS, first = warp * GROUPS * 8 + lane / CHUNKS;
    // Of the lanes that have a query's values, each divides for another of their queries.
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
      reinterpret_cast<uint4*>(smem)[own * CHUNKS + (chunk ^ turned)] =
          as_bytes(halves[n], inverse);
    }
  }
};

// Words of a step: of each lane one, then what its query sees.
constexpr int ROW_WORDS = 64;

// Arrays that say how the queries of an item, a part of those of a pair, go along its keys.
struct Schedule {
  const int* order_of;
  const unsigned *firsts, *words;

  // The groups of a warp's places.
  __device__ __forceinline__ const int* order(int item, int warp) const {
    return order_of + item % PARTS_OF_QUERIES * OF_BLOCK + warp * GROUPS;
  }
};
// What a warp reads before its first step: which queries and steps, then these themselves.
struct Begin {
  Queries own;
  int at, groups[Queries::EACH];
  unsigned words[READ_AHEAD];

  __device__ __forceinline__ void find(
      const Schedule& schedule, int item, int warp, int lane) {
    const int part = item % PARTS_OF_QUERIES;
    at = load(schedule.firsts + part * WARPS + warp) * ROW_WORDS + lane;
    #pragma unroll
    for (int n = 0; n < Queries::EACH; ++n)
      groups[n] = load(reinterpret_cast<const unsigned*>(schedule.order(item, warp))
                       + n * Queries::AT_ONCE / 8);
  }
  // STAYS: in front of barriers, behind which other loads would be sunk.
  template <bool STAYS> __device__ __forceinline__ void read(
      const void* q, const Schedule& schedule, int item, int lane) {
    // The words of the next steps are there before they are needed: behind a block of keys that is
    // on its way, one takes as long as several steps.
    #pragma unroll
    for (int i = 0; i < READ_AHEAD; ++i) words[i] = load(schedule.words + at + ROW_WORDS * i);
    own.read<STAYS>(q, groups, item / PARTS_OF_QUERIES, lane);
  }
};
// Where a block's queries, its ring and what belongs to them lie.
struct Places {
  unsigned char* smem;
  __device__ __forceinline__ unsigned queries() const {
    return (unsigned)__cvta_generic_to_shared(smem);
  }
  __device__ __forceinline__ float* factors() const {
    return reinterpret_cast<float*>(smem + Q_BYTES + RING_BYTES);
  }
  __device__ __forceinline__ unsigned barriers() const {
    return queries() + Q_BYTES + RING_BYTES + OF_BLOCK * 32;
  }
  __device__ __forceinline__ Source source(const void* kv_bytes) const {
    return {kv_bytes, barriers() + 16 * SLOTS};
  }
  __device__ __forceinline__ Ring ring() const {
    return {queries() + Q_BYTES, barriers(), barriers() + 8 * SLOTS};
  }
};
// Where the factor of a lane's query lies. Found from the place of its queries each time: a place
// of its own would take a register throughout.
__device__ __forceinline__ const float* factor_of(
    const Places& places, unsigned own_queries, int lane, int g) {
  asm volatile("" : "+r"(own_queries));
  const unsigned warp = (own_queries - places.queries()) / (GROUPS * 8 * WIDE);
  return places.factors() + (warp * GROUPS + g) * 8 + lane / 4;
}
// An item that is a block's only one, of keys and values that are bytes already.
struct Alone {
  __device__ __forceinline__ void start(const Places& places, int thread) const {}
  __device__ __forceinline__ void go(int thread) const {
    if constexpr (BULK) __syncthreads();
    else __syncwarp();
  }
};
// A step of k or v; as other blocks may have written it.
__device__ __forceinline__ float step_at(const void* kv_steps, int at) {
  float y;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];"
               : "=f"(y) : "l"(reinterpret_cast<const float*>(kv_steps) + at) : "memory");
  return y;
}

// turn: how the item follows others of its block.
template <typename Round> __device__ __forceinline__ void attend_item(
    Begin& begin, const Places& places, const void* kv_bytes, const void* kv_steps,
    const Schedule& schedule, const void* scale, void* y_of, int item, int thread,
    const Round& turn) {
  const int warp = thread / 32, lane = thread % 32;
  const Ring ring = places.ring();
  const Source kv = places.source(kv_bytes);
  turn.start(places, thread);
  const float of_k = step_at(kv_steps, item / PARTS_OF_QUERIES * 2);
  const float common = of_k * __ldg(reinterpret_cast<const float*>(scale)) * LOG2E;
  begin.own.keep(places.smem, places.factors(), common, warp, lane);
  turn.go(thread);
  const unsigned keys = ring.keys;
  int at = begin.at;
  unsigned words[READ_AHEAD];
  #pragma unroll
  for (int i = 0; i < READ_AHEAD; ++i) words[i] = begin.words[i];

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
      places.queries() + (warp * GROUPS * 8 + row) * WIDE + (lane / 16 ^ turned) * 16;
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
      const float factor = *factor_of(places, own_queries, at & 31, g);
      #pragma unroll 1
      do {
        const unsigned word = words[0];
        #pragma unroll
        for (int i = 0; i + 1 < READ_AHEAD; ++i) words[i] = words[i + 1];
        // One place for this load and that of what queries see, which is next to it.
        const unsigned* row = schedule.words + at;
        asm volatile("ld.global.nc.u32 %0, [%1 + %2];"
                     : "=r"(words[READ_AHEAD - 1]) : "l"(row), "n"(4 * ROW_WORDS * READ_AHEAD));
        const unsigned next = __ballot_sync(~0u, (int)words[0] < 0);
        attend_step(groups[g], q_bytes, factor, keys, word, heading >> 31, row, at & 31);
        at += ROW_WORDS;
        heading = next;
      } while (heading << 1 == now + g * OF_PLACE);
    }
    staying = leave(ring, time, at & 31);
  }
  // What outputs need is found anew: it would take registers throughout.
  const int own_item = kv.item(), own_pair = own_item / PARTS_OF_QUERIES;
  const float value_step = step_at(kv_steps, own_pair * 2 + 1);
  unsigned* y = reinterpret_cast<unsigned*>(y_of) + start_of(own_pair);
  const int* own_groups = schedule.order(own_item, warp);
  int own_group[GROUPS];
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g)
    own_group[g] = load(reinterpret_cast<const unsigned*>(own_groups) + g);
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g) finish(groups[g], y, value_step, own_group[g], at & 31);
}

__device__ __forceinline__ void attend(
    unsigned char* smem, const void* q, const void* kv_bytes, const void* kv_steps,
    const void* order, const void* firsts, const void* words, const void* scale,
    void* y, int block, int thread) {
  const Places places{smem};
  const Schedule schedule{
      reinterpret_cast<const int*>(order), reinterpret_cast<const unsigned*>(firsts),
      reinterpret_cast<const unsigned*>(words)};
  open_ring(places.ring(), places.source(kv_bytes), block, thread);
  Begin begin;
  begin.find(schedule, block, thread / 32, thread % 32);
  begin.read<false>(q, schedule, block, thread % 32);
  attend_item(begin, places, kv_bytes, kv_steps, schedule, scale, y, block, thread, Alone());
}
"""
