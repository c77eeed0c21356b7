"""CUDA source of a ring of stages: mbarriers, bulk copies, and where in the ring one is.

For kernels that are written in CUDA; those that are built of statements have `ring.py`.
"""

from __future__ import annotations

RING = r"""
struct Ring { unsigned stages, full, empty; };
__device__ __forceinline__ void barrier_init(unsigned at, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(at), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned at) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" : : "r"(at) : "memory");
}
__device__ __forceinline__ void barrier_expect(unsigned at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
               : : "r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(unsigned at, int parity) {
  asm volatile(
      "{ .reg .pred p;\nWAIT: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n"
      "@p bra DONE;\nbra WAIT;\nDONE: }" : : "r"(at), "r"(parity) : "memory");
}
__device__ __forceinline__ void bulk_copy(unsigned to, const void* from, int bytes, unsigned full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      : : "r"(to), "l"(from), "r"(bytes), "r"(full) : "memory");
}
// Where a ring is: the stage, and whether it has come again an odd number of times.
struct Place {
  int stage = 0, phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};
"""
"""Ring, Place, barrier_init, barrier_arrive, barrier_expect, barrier_wait and bulk_copy.

Addresses are those of shared memory. STAGES is a constant of the kernel.
"""
