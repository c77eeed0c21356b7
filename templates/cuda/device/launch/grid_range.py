"""The least and the largest value of all blocks of a grid, which every one of them gets.

A block gives its own range as a word in its place of a workspace, and one of its warps reads those
of all others until they are there: a store and a load through the L2, where atomic operations on
two numbers and a count of blocks would be four, one behind the other. 0 is among the values, so
that both numbers have a known sign: their bits are in the order of their sizes, and no word that is
there is 0. The block that leaves last clears all words.

All blocks run at once (`dependent_launch.cooperating`), or they would wait for ever.
"""

from __future__ import annotations

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.program import Initially, Workspace

RANGE = r"""
struct Range {
  float least, most;
};
__device__ __forceinline__ Range join(Range a, Range b) {
  return {fminf(a.least, b.least), fmaxf(a.most, b.most)};
}
__device__ __forceinline__ unsigned largest_of_warp(unsigned bits) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, bits);
#else
  #pragma unroll
  for (int apart = 16; apart > 0; apart /= 2)
    bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, apart));
  return bits;
#endif
}
// Of a range with 0 in it, as all lanes get it.
__device__ __forceinline__ Range of_warp(Range range) {
  const unsigned most = largest_of_warp(__float_as_uint(range.most > 0.f ? range.most : 0.f));
  const unsigned least = largest_of_warp(__float_as_uint(range.least < 0.f ? -range.least : 0.f));
  return {-__uint_as_float(least), __uint_as_float(most)};
}
"""
"""CUDA of Range, join(a, b) and of_warp(range), which all lanes get; NaNs are passed over."""

GRID_RANGE = r"""
// Of the first COUNT threads of a block, which meet at a barrier of their own; shared: two floats a
// warp of them, which nobody else reads or writes. FIRST: the first warp alone gets it.
template <int COUNT, bool FIRST> __device__ __forceinline__ Range of_threads(
    Range range, float* shared, int thread) {
  range = of_warp(range);
  if (thread % 32 == 0) {
    shared[thread / 32] = range.least;
    shared[COUNT / 32 + thread / 32] = range.most;
  }
  asm volatile("bar.sync METS, %0;" : : "n"(COUNT) : "memory");
  if (FIRST && thread >= 32) return range;
  #pragma unroll
  for (int w = 0; w < COUNT / 32; ++w)
    range = join(range, {shared[w], shared[COUNT / 32 + w]});
  return range;
}
// Of all of a grid of BLOCKS blocks; words: one a block, then one of which the lower half counts
// the blocks that have left. left: says, to the first warp, how many have before its own.
template <int COUNT, int BLOCKS> __device__ __forceinline__ Range of_grid(
    Range range, void* place, float* shared, int block, int thread, unsigned& left) {
  unsigned long long* words = static_cast<unsigned long long*>(place);
  range = of_threads<COUNT, true>(range, shared, thread);
  if (thread == 0) {
    const unsigned least = __float_as_uint(range.least) | 0x80000000u;
    const unsigned long long word = (unsigned long long)least << 32 | __float_as_uint(range.most);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(words + block), "l"(word)
                 : "memory");
  }
  if (thread < 32) {
    constexpr int EACH = (BLOCKS + 31) / 32;
    unsigned long long word[EACH];
    bool there;
    do {
      there = true;
      #pragma unroll
      for (int i = 0; i < EACH; ++i) {
        const int at = min(thread + i * 32, BLOCKS - 1);
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word[i]) : "l"(words + at)
                     : "memory");
      }
      #pragma unroll
      for (int i = 0; i < EACH; ++i) there &= word[i] != 0;
    } while (!__all_sync(0xffffffffu, there));
    #pragma unroll
    for (int i = 0; i < EACH; ++i)
      range = join(range, {__uint_as_float((unsigned)(word[i] >> 32)),
                           __uint_as_float((unsigned)word[i])});
    range = of_warp(range);
    if (thread == 0) {
      shared[0] = range.least;
      shared[1] = range.most;
    }
  }
  asm volatile("bar.sync METS, %0;" : : "n"(COUNT) : "memory");
  range = {shared[0], shared[1]};
  left = 0;
  if (thread == 0)
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(left) : "l"(words + BLOCKS) : "memory");
  return range;
}
// By all threads that of_grid was called by, when nothing else is left to do.
template <int BLOCKS> __device__ __forceinline__ void clear_words(
    void* words, int thread, unsigned left) {
  if (thread >= 32 || __shfl_sync(0xffffffffu, left, 0) != BLOCKS - 1) return;
  #pragma unroll
  for (int i = 0; i <= BLOCKS / 32; ++i)
    if (thread + i * 32 <= BLOCKS) static_cast<unsigned long long*>(words)[thread + i * 32] = 0;
}
"""
"""CUDA of of_threads, of_grid<threads, blocks>(range, words, shared, block, thread, left) and
clear_words<blocks>(words, thread, left).

METS is the number of a named barrier that nobody else uses. It follows RANGE.
"""


def grid_range_source(barrier: int = 1) -> str:
    """RANGE and GRID_RANGE with the number of the barrier at which threads meet."""
    return RANGE + GRID_RANGE.replace("METS", str(barrier))


def range_words(blocks: int, name: str = "ranges") -> Workspace:
    """The words of a grid of so many blocks."""
    return Workspace(TensorSpec(name, (blocks + 1,), "uint64"), Initially.STAYS_ZERO)
