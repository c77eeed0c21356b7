"""CUDA source of asynchronous copies of 16 bytes to shared memory, in groups."""

COPIES = r"""
__device__ __forceinline__ void copy_unit(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               : : "r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
template <int LEFT> __device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
}
"""
"""copy_unit, of which bytes behind the first so many are 0; commit_copies; await_copies."""
