"""CUDA source of a pipeline by hand: mbarriers, boxes of rank 4 by TMA, and descriptors of wgmma.

For kernels that are written in CUDA; those that are built of statements have `ring.py`, `tma.py`
and `mma/descriptors.py`.
"""

PIPELINE = r"""
using Map = unsigned long long;  // the address of a tensor map

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}
__device__ __forceinline__ void start_barrier(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory");
}
// By the thread that started barriers, before all threads meet.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void expect_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive_at(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ __forceinline__ void wait_for(unsigned barrier, unsigned phase) {
  unsigned complete;
  do
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(complete) : "r"(barrier), "r"(phase) : "memory");
  while (!complete);
}

// A box of a map of rank 4 to shared memory; the barrier counts its bytes.
__device__ __forceinline__ void load_box(
    unsigned to, Map map, int i0, int i1, int i2, int i3, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3, %4, %5}], [%6];"
               :: "r"(to), "l"(map), "r"(i0), "r"(i1), "r"(i2), "r"(i3), "r"(barrier) : "memory");
}
__device__ __forceinline__ void store_box(
    Map map, int i0, int i1, int i2, int i3, unsigned from) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group"
               " [%0, {%1, %2, %3, %4}], [%5];"
               :: "l"(map), "r"(i0), "r"(i1), "r"(i2), "r"(i3), "r"(from) : "memory");
}
__device__ __forceinline__ void prefetch_map(Map map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}
__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// The thread's stores of boxes have arrived, or have been READ from shared memory.
template <bool READ> __device__ __forceinline__ void wait_for_stores() {
  if constexpr (READ) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  else asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// What threads wrote to shared memory may be read by TMA and wgmma.
__device__ __forceinline__ void fence_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A tile in rows of LINE bytes, swizzled by as many. `group` bytes lie between groups of eight
// lines; `column` between columns of lines where the tile is transposed, and is not read otherwise.
template <int LINE> __device__ __forceinline__ unsigned long long tile_descriptor(
    unsigned address, unsigned group, unsigned column) {
  constexpr unsigned long long MODE = LINE == 128 ? 1 : LINE == 64 ? 2 : 3;
  return MODE << 62 | (unsigned long long)(group >> 4) << 32 |
         (unsigned long long)(column >> 4) << 16 | (address & 0x3ffff) >> 4;
}
// Where the byte at an offset of such a tile lies.
template <int LINE> __device__ __forceinline__ unsigned swizzled(unsigned offset) {
  return offset ^ (offset >> 7 & (LINE / 16 - 1)) << 4;
}
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> __device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LEFT) : "memory");
}
// Named barriers.
__device__ __forceinline__ void meet(unsigned barrier, unsigned threads) {
  asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void pass_by(unsigned barrier, unsigned threads) {
  asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
"""
"""Each function's comment says what it does; barriers and tiles are shared-memory addresses."""
