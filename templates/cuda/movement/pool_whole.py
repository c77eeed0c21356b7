"""One window over the whole image: its pixels are shared by the threads of a cluster of blocks.

Every block joins what its threads saw in shared memory and sends that to the first block of its
cluster (PTX ISA, st.async), which joins what it got. The order is fixed, so float32 sums are the
same in every run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import (
    blocks_for,
    call,
    thread_kernel,
)
from autoq.templates.cuda.device.memory.packed_values import vector_values
from autoq.templates.cuda.movement.pool_whole_plan import WholeWindowPlan
from autoq.templates.cuda.movement.pool_window import PoolWindow, has_values
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.target import Target

_BATCH = 8
"""Vectors of a thread that are asked for before the first is added."""
_COLUMNS = r"""
constexpr int COLUMNS = LINE * WORDS;
constexpr int PARTS = THREADS < COLUMNS ? 1 : THREADS / COLUMNS;
// Shared memory holds the words of all threads, columns of the block's parts, columns of every
// block of the cluster, the scalars, and the barrier that counts bytes which other blocks sent.
__device__ __forceinline__ unsigned* sums_of(unsigned* shared) {
  return shared + WORDS * PITCH + PARTS * COLUMNS;
}
"""

_ALONE = r"""
__device__ __forceinline__ void open_inbox(unsigned* shared, int rank, int thread) {}
__device__ __forceinline__ void find_inbox() {}
__device__ __forceinline__ void send(unsigned* shared, int column, unsigned value, int rank) {
  sums_of(shared)[column] = value;
}
__device__ __forceinline__ void await_inbox(unsigned* shared) {}
"""

_SOURCE = r"""
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
__device__ __forceinline__ void join_block(
    const unsigned* acc, unsigned* shared, int thread, int rank) {
  unsigned* part = shared + WORDS * PITCH;
  find_inbox();
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
    send(shared, column, total, rank);
  }
}
"""

# The first block of a cluster opens a barrier that waits for the bytes of the others' sums, and
# says so at the cluster's barrier before the loads; who has sums waits there for nothing. Nobody
# reads the others' shared memory, and the first block stays until all bytes have come, so that no
# block has to stay for another one.
_INBOX = r"""
__device__ __forceinline__ unsigned address_of(const void* word) {
  return (unsigned)__cvta_generic_to_shared(word);
}
__device__ __forceinline__ unsigned at_first(const void* word) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(address_of(word)));
  return there;
}
__device__ __forceinline__ unsigned* inbox_of(unsigned* shared) {
  return shared + (WORDS * PITCH + (PARTS + CLUSTER) * COLUMNS + SCALARS + 1) / 2 * 2;
}
__device__ __forceinline__ void open_inbox(unsigned* shared, int rank, int thread) {
  if (rank == 0 && thread == 0) {
    const unsigned inbox = address_of(inbox_of(shared));
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(inbox) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                 :: "r"(inbox), "r"((CLUSTER - 1) * COLUMNS * 4) : "memory");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void find_inbox() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void send(unsigned* shared, int column, unsigned value, int rank) {
  unsigned* place = sums_of(shared) + rank * COLUMNS + column;
  if (rank == 0) *place = value;
  else asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                    :: "r"(at_first(place)), "r"(value), "r"(at_first(inbox_of(shared)))
                    : "memory");
}
__device__ __forceinline__ void await_inbox(unsigned* shared) {
  unsigned done = 0;
  while (!done) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(address_of(inbox_of(shared))) : "memory");
  }
}
"""

_ENTRY = r"""
__device__ __forceinline__ void whole_window(
    From<T> x, const float* scalars, To<OUT> y, unsigned* shared, int block, int thread) {
  const int rank = block % CLUSTER, image = block / CLUSTER / GROUPS;
  const int vector = block / CLUSTER % GROUPS * LINE + thread % LINE;
  // Threads beyond the last vector repeat it and store nothing.
  const int channel = min(vector, VECTORS - 1) * V;
  const int kept = thread < SCALARS ? thread : SCALARS - 1;
  const float end = __ldg(scalars + kept);
  open_inbox(shared, rank, thread);
  unsigned acc[WORDS];
  start(acc);
  for (int step = 0; step < STEPS; step += BATCH) {
    Raw<T, V> raw[BATCH];
    bool inside[BATCH];
    #pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int pixel = ((step + i) * CLUSTER + rank) * LANES + thread / LINE;
      // Where all steps are one batch, all but the last are known to be inside.
      const bool known = STEPS == BATCH && (i + 1) * CLUSTER * LANES <= PIXELS;
      inside[i] = known || pixel < PIXELS;
      raw[i] = load<T, V>(x + (pixel_at(image, known ? pixel : min(pixel, PIXELS - 1)) + channel));
    }
    add_vectors(acc, raw, inside);
  }
  float* ends = reinterpret_cast<float*>(shared + WORDS * PITCH + (PARTS + CLUSTER) * COLUMNS);
  ends[kept] = end;
  join_block(acc, shared, thread, rank);
  if (rank > 0) return;
  __syncthreads();
  await_inbox(shared);
  const unsigned* sums = sums_of(shared);
  for (int item = thread; item < LINE * PIECES; item += THREADS) {
    const int own = vector - thread % LINE + item % LINE, first = item / LINE * (WORDS / PIECES);
    if (own >= VECTORS) continue;
    #pragma unroll
    for (int i = 0; i < WORDS / PIECES; ++i) {
      const int column = (first + i) * LINE + item % LINE;
      acc[i] = sums[column];
      #pragma unroll
      for (int other = 1; other < CLUSTER; ++other)
        acc[i] = join_word(acc[i], sums[other * COLUMNS + column]);
    }
    const int place = image * CHANNELS + own * V + first;
    FINISH(acc, PIXELS, DIVISOR, ends, y, place);
  }
}
"""


def whole_window_kernel(
    workload: Pool2d, parameters: Sequence[TensorSpec], threads: int, target: Target
) -> PrimFunc:
    """Pooling with a single window an image; `parameters`: x, scalars, y."""
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
        _source(workload, plan, piece),
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
            "SCALARS": len(workload.SCALARS),
            "THREADS": plan.threads,
            "PITCH": plan.pitch,
        },
        staged=True,
    )

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        words = (plan.shared_words(window.words, len(workload.SCALARS)),)
        shared = builder.alloc_buffer(words, "uint32", scope="shared").data
        call(window.function("whole_window"), *pointers, shared, block, thread)

    blocks = workload.n * plan.groups * plan.cluster
    return thread_kernel(parameters, blocks, plan.threads, target, body, plan.cluster)


def _source(workload: Pool2d, plan: WholeWindowPlan, piece: int) -> str:
    finish = f"finish_values<{piece}>" if has_values(workload) else "finish"
    inbox = _INBOX if plan.cluster > 1 else _ALONE
    return _COLUMNS + inbox + _SOURCE + _ENTRY.replace("FINISH", finish)


def _inside(before: int, length: int, size: int) -> range:
    """Positions of a single window inside the image."""
    return range(max(-before, 0), min(length - before, size))
