"""CUDA source of a tile's products: weights come out of the ring, or straight to registers."""

from __future__ import annotations

IN_RING = r"""
struct Weights {
  __device__ __forceinline__ void read(const unsigned char*, int, int) {}
};
__device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL], Weights&, const unsigned char*, const unsigned char*, const Ring& ring,
    const unsigned char* smem, Place& place, int consumer, int thread) {
  for (int s = 0; s < K_STAGES; ++s) {
    const unsigned stage = ring.stages + place.stage * STAGE_BYTES;
    const unsigned char* words = smem + place.stage * STAGE_BYTES + METADATA_AT;
    barrier_wait(ring.full + 8 * place.stage, place.phase);
    unsigned metadata[STEPS][BLOCKS];
    #pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      #pragma unroll
      for (int b = 0; b < BLOCKS; ++b) {
        const int block = step * ROW_BLOCKS + consumer * BLOCKS + b;
        metadata[step][b] =
            *reinterpret_cast<const unsigned*>(words + block * METADATA_BYTES + thread * 4);
      }
    }
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
    // x in swizzled rows of 128 bytes; weights in columns of 16 bytes, 64 rows apart.
    const unsigned long long x = 1ull << 62 | 64ull << 32 | (stage & 0x3ffff) >> 4;
    #pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      #pragma unroll
      for (int b = 0; b < BLOCKS; ++b) {
        const int block = step * ROW_BLOCKS + consumer * BLOCKS + b;
        const unsigned at = stage + X_STAGE + block * A_BYTES;
        const unsigned long long a = 8ull << 32 | 64ull << 16 | (at & 0x3ffff) >> 4;
        product(sums + b * (COLUMNS / 2), a, x + step * 4, metadata[step][b], s + step > 0);
      }
    }
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");
    if (s > 0) release_before(ring, place, thread);
    place.next();
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  #pragma unroll
  for (int i = 0; i < ALL; ++i) hold(sums[i]);
  release_before(ring, place, thread);
}
"""
"""Of stages that hold weights behind x, as descriptors name them."""

DIRECT = r"""
// What a thread has of a stage: its registers of A and their metadata.
struct Weights {
  unsigned values[STEPS * BLOCKS][4], metadata[STEPS * BLOCKS];
  __device__ __forceinline__ void read(const unsigned char* stage, int consumer, int thread) {
    const unsigned char* own = stage + consumer * (W_STAGE / CONSUMERS);
    #pragma unroll
    for (int i = 0; i < STEPS * BLOCKS; ++i) {
      const uint4 four = __ldg(reinterpret_cast<const uint4*>(own + i * A_BYTES + thread * 16));
      values[i][0] = four.x, values[i][1] = four.y, values[i][2] = four.z, values[i][3] = four.w;
    }
    const unsigned char* words = own + STEPS * BLOCKS * A_BYTES + thread * (4 * STEPS * BLOCKS);
    #pragma unroll
    for (int i = 0; i < STEPS * BLOCKS; i += 2) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(words + 4 * i));
      metadata[i] = two.x, metadata[i + 1] = two.y;
    }
  }
  // They stay until here, for products that are under way.
  __device__ __forceinline__ void keep() {
    #pragma unroll
    for (int i = 0; i < STEPS * BLOCKS; ++i) {
      asm volatile("" : "+r"(values[i][0]), "+r"(values[i][1]), "+r"(values[i][2]),
                        "+r"(values[i][3]), "+r"(metadata[i]) : : "memory");
    }
  }
};
// Multiplies a stage by `now`, and when the products before have ended reads what comes next.
__device__ __forceinline__ void multiply_stage(
    SUM (&sums)[ALL], Weights& now, Weights& other, const unsigned char* next, const Ring& ring,
    Place& place, bool first, int consumer, int thread) {
  const unsigned stage = ring.stages + place.stage * STAGE_BYTES;
  barrier_wait(ring.full + 8 * place.stage, place.phase);
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
  const unsigned long long x = 1ull << 62 | 64ull << 32 | (stage & 0x3ffff) >> 4;
  #pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    #pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
      const unsigned (&a)[4] = now.values[step * BLOCKS + b];
      product(sums + b * (COLUMNS / 2), a[0], a[1], a[2], a[3], x + step * 4,
              now.metadata[step * BLOCKS + b], !first || step > 0);
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
  asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");
  other.keep();
  if (!first) release_before(ring, place, thread);
  other.read(next, consumer, thread);
  place.next();
}
// `even` holds the first stage of the tile, then that of the one behind it.
__device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL], Weights& even, const unsigned char* from, const unsigned char* behind,
    const Ring& ring, const unsigned char* smem, Place& place, int consumer, int thread) {
  Weights odd = {};
  #pragma unroll 1
  for (int s = 0; s + 1 < K_STAGES; s += 2) {
    from += W_STAGE;
    multiply_stage(sums, even, odd, from, ring, place, s == 0, consumer, thread);
    from = s + 2 < K_STAGES ? from + W_STAGE : behind;
    multiply_stage(sums, odd, even, from, ring, place, false, consumer, thread);
  }
  if constexpr (K_STAGES % 2)
    multiply_stage(sums, even, odd, behind, ring, place, K_STAGES == 1, consumer, thread);
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  #pragma unroll
  for (int i = 0; i < ALL; ++i) hold(sums[i]);
  if constexpr (K_STAGES % 2) {
    even.keep();
    even = odd;
  } else {
    odd.keep();
  }
  release_before(ring, place, thread);
}
"""
"""Of stages that hold x alone: two sets of registers take turns."""

RELEASE = r"""
// The stage in front of a place has been read, by all blocks that it came to.
__device__ __forceinline__ void release_before(const Ring& ring, const Place& place, int thread) {
  const unsigned empty = ring.empty + 8 * (place.stage ? place.stage - 1 : STAGES - 1);
  if constexpr (CLUSTER == 1) {
    if (thread % 32 == 0) barrier_arrive(empty);
  } else if (thread % 32 < CLUSTER) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 : : "r"(empty), "r"(thread % 32) : "memory");
  }
}
// All threads of the blocks that share x meet.
__device__ __forceinline__ void meet() {
  if constexpr (CLUSTER == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
  }
}
"""
"""What both have."""
