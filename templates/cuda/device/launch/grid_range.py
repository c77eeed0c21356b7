"""The least and the largest value of all blocks of a grid, which every one of them gets.

A block gives its own range as a word in its place of a workspace, and reads those of all others
until they are there: a store and a load through the L2, where atomic operations on two numbers and
a count of blocks would be four, one behind the other. 0 is among the values, so that both numbers
have a known sign and no word that is there is 0. The block that leaves last clears all words.

All blocks run at once (`dependent_launch.cooperating`), or they would wait for ever.
"""

from __future__ import annotations

from autoq.templates.program import Initially, Workspace
from autoq.templates.tensor_spec import TensorSpec

RANGE = r"""
struct Range {
  float least, most;
};
__device__ __forceinline__ Range join(Range a, Range b) {
  return {fminf(a.least, b.least), fmaxf(a.most, b.most)};
}
__device__ __forceinline__ Range of_warp(Range range) {
  #pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const Range other = {__shfl_xor_sync(0xffffffffu, range.least, apart),
                         __shfl_xor_sync(0xffffffffu, range.most, apart)};
    range = join(range, other);
  }
  return range;
}
"""
"""CUDA of Range, join(a, b) and of_warp(range), which all lanes get; NaNs are passed over."""

GRID_RANGE = r"""
// Of the first `count` threads of a block, which meet at a barrier of their own; shared: two floats
// a warp of them.
template <int COUNT> __device__ __forceinline__ void meet() {
  asm volatile("bar.sync METS, %0;" : : "n"(COUNT) : "memory");
}
template <int COUNT> __device__ __forceinline__ Range of_threads(
    Range range, float* shared, int thread) {
  range = of_warp(range);
  meet<COUNT>();  // others may still read what was joined before
  if (thread % 32 == 0) {
    shared[thread / 32] = range.least;
    shared[COUNT / 32 + thread / 32] = range.most;
  }
  meet<COUNT>();
  range = {shared[0], shared[COUNT / 32]};
  #pragma unroll
  for (int w = 1; w < COUNT / 32; ++w)
    range = join(range, {shared[w], shared[COUNT / 32 + w]});
  return range;
}
// Of all of a grid of `blocks`; words: one a block, then one of which the lower half counts those
// that have left. last: says, of thread 0, whether its block is the last that reads the words.
template <int COUNT> __device__ __forceinline__ Range of_grid(
    Range range, void* place, float* shared, int block, int blocks, int thread, bool& last) {
  unsigned long long* words = static_cast<unsigned long long*>(place);
  range = of_threads<COUNT>(range, shared, thread);
  if (thread == 0) {
    const unsigned most = __float_as_uint(range.most > 0.f ? range.most : 0.f);
    const unsigned least = __float_as_uint(range.least < 0.f ? -range.least : 0.f) | 0x80000000u;
    const unsigned long long word = (unsigned long long)least << 32 | most;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(words + block), "l"(word)
                 : "memory");
  }
  range = {0.f, 0.f};
  for (int i = thread; i < blocks; i += COUNT) {
    unsigned long long word;
    do
      asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(words + i) : "memory");
    while (word == 0);
    range = join(range, {-__uint_as_float((unsigned)(word >> 32) & 0x7fffffffu),
                         __uint_as_float((unsigned)word)});
  }
  range = of_threads<COUNT>(range, shared, thread);
  last = false;
  if (thread == 0) {
    unsigned left;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(left) : "l"(words + blocks) : "memory");
    last = left == blocks - 1;
  }
  return range;
}
// By the thread that of_grid says it of, when nothing else is left to do.
__device__ __forceinline__ void clear_words(void* words, int blocks, bool last) {
  if (last)
    for (int i = 0; i <= blocks; ++i) static_cast<unsigned long long*>(words)[i] = 0;
}
"""
"""CUDA of of_grid<threads>(range, words, shared, block, blocks, thread, last) and clear_words.

METS is the number of a named barrier that nobody else uses. It follows RANGE.
"""


def grid_range_source(barrier: int = 1) -> str:
    """RANGE and GRID_RANGE with the number of the barrier at which threads meet."""
    return RANGE + GRID_RANGE.replace("METS", str(barrier))


def range_words(blocks: int, name: str = "ranges") -> Workspace:
    """The words of a grid of so many blocks."""
    return Workspace(TensorSpec(name, (blocks + 1,), "uint64"), Initially.STAYS_ZERO)
