"""CUDA source that quantises k and v while blocks hold them: each value is read once.

A team of blocks has some pairs, and each block of it a share of the keys and values of each. Pairs
go through the buffers of a block: while some arrive, a block gives the largest magnitudes of its
share of one, waits for the team's of one before that, and makes bytes of that. Counts say when
those of a pair are complete.

All blocks run at once (`dependent_launch.cooperating`), or they would wait for ever.
"""

from __future__ import annotations

TEAM_SOURCE = r"""
// Octets of keys of a block's share of a pair; a thread has TURNS octets of keys and values.
constexpr int SHARE = (PADDED_KEYS * UNITS + TEAM - 1) / TEAM;
static_assert(TURNS == (2 * SHARE + THREADS - 1) / THREADS, "as packed");
// Whether threads have as many octets as each other, all of them of keys.
constexpr bool EVEN = SHARE % THREADS == 0 && SHARE * TEAM == KEYS * UNITS && DEPTH == WIDE;
// Whether a share comes by two bulk copies: its rows lie together, those of k and those of v.
constexpr bool IN_BULK = EVEN && BULK && ROW_STEP == 1;
// Behind what warps find of each pair of a buffer, and the team of one: a barrier of each buffer.
constexpr int FOUND_BYTES = (BUFFERS * WARPS + 2) / 2 * 8;

__device__ __forceinline__ uint2 octet_as_bytes(const uint4& v, float inverse) {
  const unsigned words[4] = {v.x, v.y, v.z, v.w};
  unsigned whole[8];
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    float pair[2];
    values_of(pair, words[i]);
    #pragma unroll
    for (int j = 0; j < 2; ++j)
      whole[2 * i + j] = __float_as_uint(__fadd_rn(__fmul_rn(pair[j], inverse), 12582912.0f));
  }
  const auto four = [&](int i) {
    return __byte_perm(__byte_perm(whole[i], whole[i + 1], 0x0040),
                       __byte_perm(whole[i + 2], whole[i + 3], 0x0040), 0x5410);
  };
  return make_uint2(four(0), four(4));
}
// Eight values of a row, by the block's number in its team, thread and turn.
struct Octet {
  int row, octet;
  bool of_v, there;
  __device__ __forceinline__ Octet(int own, int turn, int thread) {
    const int unit = turn * THREADS + thread;
    of_v = EVEN ? turn * THREADS >= SHARE : unit >= SHARE;
    const int at = own * SHARE + unit - (of_v ? SHARE : 0);
    row = at / UNITS, octet = at % UNITS;
    there = EVEN || (unit < 2 * SHARE && row < PADDED_KEYS);
  }
};
// A block's shares, of which each thread reads what it copied itself. words: of each pair those of
// its team's blocks, largest magnitudes, of k in the lower half with the highest bit set; then of
// each pair how many blocks have made their bytes, then how many wait for nothing more.
struct Shares {
  uint4* buffers;
  unsigned *shared, *words;
  const void *k, *v;
  void* kv_bytes;
  float* kv_steps;
  int own, first, thread;
  int place[TURNS];

  __device__ __forceinline__ Shares(
      void* buffers, void* shared, void* words, const void* k, const void* v, const void* places,
      void* kv_bytes, void* kv_steps, int block, int thread)
      : buffers(reinterpret_cast<uint4*>(buffers) + thread),
        shared(reinterpret_cast<unsigned*>(shared)), words(reinterpret_cast<unsigned*>(words)),
        k(k), v(v), kv_bytes(kv_bytes), kv_steps(reinterpret_cast<float*>(kv_steps)),
        own(block % TEAM), first(block / TEAM * OF_TEAM), thread(thread) {
    #pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const Octet o(own, turn, thread);
      place[turn] = o.there ? __ldg(reinterpret_cast<const int*>(places) + o.row) : 0;
    }
  }
  // Whether the team has a pair of this number: the last one may have fewer.
  __device__ __forceinline__ bool has(int p) const {
    return p < OF_TEAM && (PAIRS % OF_TEAM == 0 || first + p < PAIRS);
  }
  __device__ __forceinline__ uint4* octet(int p, int turn) const {
    return buffers + (p % BUFFERS * TURNS + turn) * THREADS;
  }
  __device__ __forceinline__ unsigned full(int p) const {
    return (unsigned)__cvta_generic_to_shared(shared) + FOUND_BYTES + p % BUFFERS * 8;
  }
  // By one thread.
  __device__ __forceinline__ void send_in_bulk(int p) const {
    constexpr int BYTES = SHARE * 16;
    const long long before = (long long)(first + p) * KEYS * OCTETS + own * SHARE;
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                 ::"r"(full(p)), "n"(2 * BYTES) : "memory");
    #pragma unroll
    for (int i = 0; i < 2; ++i)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                   " [%0], [%1], %2, [%3];"
                   ::"r"((unsigned)__cvta_generic_to_shared(buffers - thread)
                         + (p % BUFFERS * TURNS * THREADS) * 16 + i * BYTES),
                     "l"(reinterpret_cast<const uint4*>(i ? v : k) + before), "n"(BYTES),
                     "r"(full(p)) : "memory");
  }
  // A group of copies, empty where there is no such pair.
  __device__ __forceinline__ void send_for(int p) const {
    if constexpr (IN_BULK) {
      if (thread == 0 && has(p)) send_in_bulk(p);
      return;
    }
    if (has(p)) {
      #pragma unroll
      for (int turn = 0; turn < TURNS; ++turn) {
        const Octet o(own, turn, thread);
        const bool there = EVEN || (o.there && o.row < KEYS && o.octet < OCTETS);
        const uint4* from = reinterpret_cast<const uint4*>(o.of_v ? v : k);
        if (there) from += place_of(first + p, o.row, KEYS) + o.octet;
        const unsigned to = (unsigned)__cvta_generic_to_shared(octet(p, turn));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  // Waits for the oldest group of as many as there are buffers.
  __device__ __forceinline__ void await_copies(int p) const {
    if constexpr (!IN_BULK) {
      asm volatile("cp.async.wait_group %0;" ::"n"(BUFFERS - 1) : "memory");
      return;
    }
    unsigned there = 0;
    while (!there)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                   " selp.u32 %0, 1, 0, p; }"
                   : "=r"(there) : "r"(full(p)), "r"(p / BUFFERS & 1) : "memory");
  }
  // A warp's largest magnitudes of a pair.
  __device__ __forceinline__ void measure(int p) const {
    await_copies(p);
    unsigned most[2] = {0, 0};
    #pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const unsigned found = largest_pair(*octet(p, turn));
      const bool of_v = Octet(own, turn, thread).of_v;
      #pragma unroll
      for (int i = 0; i < 2; ++i) most[i] = __vmaxu2(most[i], of_v == bool(i) ? found : 0);
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) most[i] = __reduce_max_sync(~0u, (unsigned)largest_of(most[i]));
    if (thread % 32 == 0) shared[p % BUFFERS * WARPS + thread / 32] = most[0] | most[1] << 16;
  }
  __device__ __forceinline__ static unsigned of_lanes(unsigned word) {
    const unsigned of_k = __reduce_max_sync(~0u, word & 0x7fff);
    return of_k | __reduce_max_sync(~0u, word >> 16) << 16;
  }
  // By a warp: what the block has found of a pair.
  __device__ __forceinline__ void publish(int p) const {
    const int lane = thread % 32;
    const unsigned found = lane < WARPS ? shared[p % BUFFERS * WARPS + lane] : 0;
    const unsigned word = of_lanes(found) | 0x8000;
    if (lane == 0)
      asm volatile("st.relaxed.gpu.global.u32 [%0], %1;"
                   :: "l"(words + (first + p) * TEAM + own), "r"(word) : "memory");
  }
  // By a warp: what the team has found.
  __device__ __forceinline__ void meet(int p) const {
    const int lane = thread % 32;
    const unsigned* from = words + (first + p) * TEAM + min(lane, TEAM - 1);
    unsigned word;
    do {
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
    } while (!__all_sync(~0u, word != 0));
    word = of_lanes(word);
    if (lane == 0) shared[BUFFERS * WARPS] = word;
  }
  __device__ __forceinline__ void convert(int p) const {
    const unsigned whole = shared[BUFFERS * WARPS];
    const float most_k = value(whole & 0x7fff), most_v = value(whole >> 16);
    if (own == 0 && thread < 2)
      kv_steps[(first + p) * 2 + thread] = step_of(thread ? most_v : most_k);
    const float of_k = inverse_of(most_k), of_v = inverse_of(most_v);
    #pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const Octet o(own, turn, thread);
      if (!EVEN && !o.there) continue;
      uint4* to = chunk_of(kv_bytes, first + p, place[turn], o.octet / 2, o.of_v);
      reinterpret_cast<uint2*>(to)[o.octet % 2] =
          octet_as_bytes(*octet(p, turn), o.of_v ? of_v : of_k);
    }
  }
  // By one thread, behind a barrier of all: the block's bytes of a pair are there.
  __device__ __forceinline__ void release(int p) const {
    if constexpr (RELEASES)
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;"
                   :: "l"(words + PAIRS * TEAM + first + p) : "memory");
  }
  // All buffers are filled.
  __device__ __forceinline__ void start() const {
    if constexpr (IN_BULK) {
      if (thread == 0) {
        #pragma unroll
        for (int i = 0; i < BUFFERS; ++i)
          asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(full(i)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      }
    }
    #pragma unroll 1
    for (int p = 0; p < BUFFERS; ++p) send_for(p);
    if constexpr (IN_BULK) __syncthreads();
  }
  // A buffer that became bytes is filled anew; a group of copies each time.
  __device__ __forceinline__ void refill(int done) const {
    const int next = done >= 0 ? done + BUFFERS : OF_TEAM;
    // All threads have read what a bulk copy replaces; of other copies each replaces its own.
    if (IN_BULK && has(next)) __syncthreads();
    send_for(next);
  }
  // Pairs are measured ahead of those that become bytes. Ends with a barrier.
  __device__ __forceinline__ void make_bytes() const {
    const int warp = thread / 32, last = min(OF_TEAM, PAIRS - first) - 1;
    #pragma unroll 1
    for (int p = 0; p <= last + LAG; ++p) {
      const int done = p - LAG;
      if (p <= last) measure(p);
      __syncthreads();
      if (p <= last && warp == p % WARPS) publish(p);
      if (done > 0 && thread == (p + 1) % WARPS * 32) release(done - 1);
      if (done >= 0) {
        if (warp == (p + WARPS - 1) % WARPS) meet(done);
        __syncthreads();
        convert(done);
      }
      refill(done);
    }
    if (IN_BULK && thread == 0)
      #pragma unroll
      for (int i = 0; i < BUFFERS; ++i)
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(full(i)) : "memory");
    __syncthreads();
    if (thread == 0) release(last);
  }
};
// The bytes of a pair are there, for loads and for bulk copies.
__device__ __forceinline__ void await_pair(const unsigned* words, int pair) {
  unsigned found;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(found) : "l"(words + PAIRS * TEAM + pair) : "memory");
  } while (__any_sync(~0u, found != TEAM));
  asm volatile("fence.proxy.async;" ::: "memory");
}
// By a warp of each block that waits for nothing more: the last one clears all words.
template <int COUNT> __device__ __forceinline__ void leave_words(unsigned* words, int lane) {
  unsigned before = 0;
  if (lane == 0)
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before) : "l"(words + PAIRS * (TEAM + 1)) : "memory");
  if (__shfl_sync(~0u, before, 0) != COUNT - 1) return;
  #pragma unroll 1
  for (int i = lane; i <= PAIRS * (TEAM + 1); i += 32) words[i] = 0;
}
"""
"""Shares of blocks, and how they meet."""

HELD_SOURCE = r"""
__device__ __forceinline__ void quantise_held(
    unsigned char* smem, const void* k, const void* v, const void* places, void* kv_bytes,
    void* kv_steps, void* words, int block, int thread) {
  const Shares shares(smem, smem + BUFFERS * TURNS * 16 * THREADS, words, k, v, places, kv_bytes,
                      kv_steps, block, thread);
  shares.start();
  shares.make_bytes();
  if (thread < 32) leave_words<TEAMS * TEAM>(shares.words, thread);
}
"""
"""A kernel that does nothing else."""
