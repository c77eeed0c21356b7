"""One window over the whole image: its pixels are shared by the threads of a cluster of blocks.

Every block joins what its threads saw in shared memory, and the first block of a cluster what the
others hold in theirs (PTX ISA, mapa and ld.shared::cluster). The order is fixed, so float32 sums
are the same in every run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.packed_values import vector_values
from autoq.templates.cuda.pool_window import PoolWindow, has_values
from autoq.templates.cuda.thread_kernel import Operand, blocks_for, call, thread_kernel
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.target import Target

_LINE_VECTORS = 8
"""Most channel vectors of a block: 128 bytes, one cache line."""
_STEPS = 8
"""Pixels of a thread above which more blocks share an image."""
_BATCH = 6
"""Vectors of a thread that are asked for before the first is added."""
_LARGEST_CLUSTER = 8
"""Blocks of a cluster that every device with clusters can start."""

_SOURCE = r"""
constexpr int COLUMNS = LINE * WORDS;
constexpr int PARTS = THREADS < COLUMNS ? 1 : THREADS / COLUMNS;
__device__ __forceinline__ int pixel_at(int image, int pixel) {
  if constexpr (COLUMN_COUNT == WIDTH) {
    return ((image * HEIGHT + FIRST_ROW) * WIDTH + pixel) * CHANNELS;
  } else {
    const int h = FIRST_ROW + pixel / COLUMN_COUNT, w = FIRST_COLUMN + pixel % COLUMN_COUNT;
    return ((image * HEIGHT + h) * WIDTH + w) * CHANNELS;
  }
}
// Words of all threads to one word a column; word i of all threads lies together, and PITCH lets
// the columns that a warp reads lie in different banks.
__device__ __forceinline__ void join_block(const unsigned* acc, unsigned* shared, int thread) {
  unsigned* part = shared + WORDS * PITCH;
  unsigned* sums = part + PARTS * COLUMNS;
  #pragma unroll
  for (int i = 0; i < WORDS; ++i) shared[i * PITCH + thread] = acc[i];
  __syncthreads();
  for (int item = thread; item < COLUMNS * PARTS; item += THREADS) {
    const int column = item % COLUMNS, first = item / COLUMNS;
    const unsigned* row = shared + column / LINE * PITCH + column % LINE;
    unsigned total = row[first * LINE];
    #pragma unroll 8
    for (int lane = first + PARTS; lane < LANES; lane += PARTS)
      total = join_word(total, row[lane * LINE]);
    part[item] = total;
  }
  __syncthreads();
  for (int column = thread; column < COLUMNS; column += THREADS) {
    unsigned total = part[column];
    #pragma unroll
    for (int i = 1; i < PARTS; ++i) total = join_word(total, part[i * COLUMNS + column]);
    sums[column] = total;
  }
  __syncthreads();
}
"""

_CLUSTER = r"""
__device__ __forceinline__ void meet() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ unsigned word_of(unsigned* word, int rank) {
  unsigned address = (unsigned)__cvta_generic_to_shared(word), there, value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
  return value;
}
__device__ __forceinline__ void join_cluster(unsigned* sums, int rank, int thread) {
  meet();
  if (rank == 0) {
    for (int column = thread; column < COLUMNS; column += THREADS) {
      unsigned other[CLUSTER], total = sums[column];
      #pragma unroll
      for (int i = 1; i < CLUSTER; ++i) other[i] = word_of(sums + column, i);
      #pragma unroll
      for (int i = 1; i < CLUSTER; ++i) total = join_word(total, other[i]);
      sums[column] = total;
    }
  }
  meet();
}
"""

_ENTRY = r"""
__device__ __forceinline__ void whole_window(
    From<T> x, const float* scalars, To<OUT> y, unsigned* shared, int block, int thread) {
  const int rank = block % CLUSTER, image = block / CLUSTER / GROUPS;
  const int vector = block / CLUSTER % GROUPS * LINE + thread % LINE;
  // Threads beyond the last vector repeat it and store nothing.
  const int channel = min(vector, VECTORS - 1) * V;
  unsigned acc[WORDS];
  start(acc);
  for (int step = 0; step < STEPS; step += BATCH) {
    Raw<T, V> raw[BATCH];
    #pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int pixel = ((step + i) * CLUSTER + rank) * LANES + thread / LINE;
      raw[i] = load<T, V>(x + (pixel_at(image, min(pixel, PIXELS - 1)) + channel));
    }
    #pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int pixel = ((step + i) * CLUSTER + rank) * LANES + thread / LINE;
      add_vector(acc, raw[i], pixel < PIXELS);
    }
  }
  join_block(acc, shared, thread);
  unsigned* sums = shared + WORDS * PITCH + PARTS * COLUMNS;
  JOIN_CLUSTER
  if (rank > 0) return;
  for (int item = thread; item < LINE * PIECES; item += THREADS) {
    const int own = vector - thread % LINE + item % LINE, first = item / LINE * (WORDS / PIECES);
    if (own >= VECTORS) continue;
    #pragma unroll
    for (int i = 0; i < WORDS / PIECES; ++i) acc[i] = sums[(first + i) * LINE + item % LINE];
    const int place = image * CHANNELS + own * V + first;
    FINISH(acc, PIXELS, DIVISOR, scalars, y, place);
  }
}
"""


@dataclass(frozen=True)
class WholeWindowPlan:
    """How threads share images: a cluster of blocks takes `line` channel vectors of one image.

    lanes threads of a block take a pixel each, `steps` times; groups of lines make an image.
    """

    line: int
    groups: int
    lanes: int
    cluster: int
    steps: int

    @classmethod
    def of(cls, workload: Pool2d, pixels: int, threads: int, target: Target) -> WholeWindowPlan:
        """Lines of even length; blocks of few threads where there are enough blocks anyway.

        Half as long lines, so that a cluster is not needed, cost less than its two barriers.
        """
        vectors = workload.c // vector_values(workload.c, workload.in_dtype)
        groups = blocks_for(vectors, _LINE_VECTORS)
        enough = workload.n * groups >= 2 * target.units
        if not enough and pixels * _LINE_VECTORS > threads * _STEPS:
            groups = blocks_for(vectors, _LINE_VECTORS // 2)
        line = blocks_for(vectors, groups)
        lanes = min(threads // line, blocks_for(pixels, 3 if enough else 2))
        largest = _LARGEST_CLUSTER if target.compute_capability >= 90 else 1
        cluster = 1
        while cluster < largest and pixels > lanes * cluster * _STEPS:
            cluster *= 2
        return cls(line, groups, lanes, cluster, blocks_for(pixels, lanes * cluster))

    @property
    def threads(self) -> int:
        return self.line * self.lanes

    @property
    def pitch(self) -> int:
        """Words from a thread's word to its next one: `line` banks further."""
        return blocks_for(self.threads, 32) * 32 + self.line

    def shared_words(self, words: int) -> int:
        """uint32 of shared memory when a thread has `words`."""
        columns = self.line * words
        return words * self.pitch + (max(self.threads // columns, 1) + 1) * columns


def whole_window_kernel(
    workload: Pool2d, operands: Sequence[Operand], threads: int, target: Target
) -> PrimFunc:
    """Pooling with a single window an image; parameters are `operands`: x, scalars, y."""
    values = vector_values(workload.c, workload.in_dtype)
    rows = _inside(workload.padding[0], workload.r, workload.h)
    columns = _inside(workload.padding[1], workload.s, workload.w)
    pixels = len(rows) * len(columns)
    plan = WholeWindowPlan.of(workload, pixels, threads, target)
    # A thread that ended all values of a vector would take as long as the loads before it.
    piece = math.gcd(values, 4) if has_values(workload) else values
    window = PoolWindow(
        workload,
        values,
        _source(workload, plan.cluster, piece),
        {
            "PIECES": values // piece,
            "WIDTH": workload.w,
            "HEIGHT": workload.h,
            "CHANNELS": workload.c,
            "FIRST_ROW": rows.start,
            "FIRST_COLUMN": columns.start,
            "COLUMN_COUNT": len(columns),
            "PIXELS": pixels,
            "DIVISOR": workload.r * workload.s if workload.count_include_pad else pixels,
            "LINE": plan.line,
            "GROUPS": plan.groups,
            "VECTORS": workload.c // values,
            "LANES": plan.lanes,
            "CLUSTER": plan.cluster,
            "STEPS": plan.steps,
            "BATCH": blocks_for(plan.steps, blocks_for(plan.steps, _BATCH)),
            "THREADS": plan.threads,
            "PITCH": plan.pitch,
        },
    )

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        words = (plan.shared_words(window.words),)
        shared = builder.alloc_buffer(words, "uint32", scope="shared").data
        call(window.function("whole_window"), *pointers, shared, block, thread)

    blocks = workload.n * plan.groups * plan.cluster
    return thread_kernel(operands, blocks, plan.threads, target, body, plan.cluster)


def _source(workload: Pool2d, cluster: int, piece: int) -> str:
    finish = f"finish_values<{piece}>" if has_values(workload) else "finish"
    entry = _ENTRY.replace("FINISH", finish)
    if cluster == 1:
        return _SOURCE + entry.replace("JOIN_CLUSTER", "")
    return _SOURCE + _CLUSTER + entry.replace("JOIN_CLUSTER", "join_cluster(sums, rank, thread);")


def _inside(before: int, length: int, size: int) -> range:
    """Positions of a single window inside the image."""
    return range(max(-before, 0), min(length - before, size))
