"""Residuals of both sides, quantised by a few warps that stand by while a product is multiplied.

Multiplying leaves memory idle: values are read once more, from whole lines, and nobody waits.
"""

from __future__ import annotations

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.quantise.quantisation import QUANTISATION
from autoq.templates.cuda.device.residual.turned import turned_shape, turned_sizes
from autoq.templates.cuda.wgmma.meanwhile import WARPS, Meanwhile
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import largest_integer
from autoq.templates.tensor_spec import TensorSpec

A_INVERSE, B_INVERSE = "a_inverse", "b_inverse"
"""Arrays of what values of a vector are multiplied with."""

_TOGETHER = 2
"""Vectors that a lane asks for and quantises together."""
_DEPTHS = (8, 6, 4)
"""How many times as many it waits for, as shared memory allows."""
_STEPS = 32
"""Vectors of a lane in a task."""

# A task is a part of a row of a, or of a piece of b: 64 columns of some k, two k of which a warp
# reads together. Either way a step writes the 128 bytes behind those of the step before. What a
# lane waits for comes to places of its own in shared memory, so that lanes need not meet.
_SOURCE = r"""
constexpr int SEGMENTS = (K + 128 * STEPS_A - 1) / (128 * STEPS_A);
constexpr int BLOCKS_OF_K = (K + 2 * STEPS_B - 1) / (2 * STEPS_B);
constexpr int TASKS_A = M * SEGMENTS, TASKS = TASKS_A + N / PIECE * BLOCKS_OF_K;
// What a lane reads in a task: from where, how far steps are apart, and how many it takes part in.
struct Source { const float* from; int apart, steps; };
__device__ __forceinline__ int length_of(int task) { return task < TASKS_A ? STEPS_A : STEPS_B; }
__device__ __forceinline__ Source source_of(const float* a, const float* b, int task, int lane) {
  if (task < TASKS_A) {
    const int row = task / SEGMENTS, first = task % SEGMENTS * (128 * STEPS_A) + lane * 4;
    return {a + (size_t)row * K + first, 128, (K - first + 127) >> 7};
  }
  const int piece = (task - TASKS_A) % (N / PIECE);
  const int k = (task - TASKS_A) / (N / PIECE) * (2 * STEPS_B) + lane / 16;
  return {b + (size_t)k * N + piece * PIECE + lane % 16 * 4, 2 * N, (K - k + 1) >> 1};
}
__device__ __forceinline__ unsigned* target_of(
    unsigned char* of_a, unsigned char* of_b, int task, int lane) {
  size_t at;
  if (task < TASKS_A) {
    at = (size_t)(task / SEGMENTS) * K + task % SEGMENTS * (128 * STEPS_A);
  } else {
    const int piece = (task - TASKS_A) % (N / PIECE), part = (task - TASKS_A) / (N / PIECE);
    at = ((size_t)piece * K + part * (2 * STEPS_B)) * PIECE;
  }
  return reinterpret_cast<unsigned*>((task < TASKS_A ? of_a : of_b) + at) + lane;
}
// Neither what is read nor what is written is needed again before the product is done.
__device__ __forceinline__ void ask_for(unsigned to, const float* from) {
  asm volatile("{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; "
               "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, policy; }"
               : : "r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}
__device__ __forceinline__ void quantise_late(
    const float* a_scales, const float* b_scales, const float* a, const float* b,
    const float* a_inverses, const float* b_inverses, void* of_a, void* of_b, void* shared,
    int warp, int block, int blocks) {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  const int lane = thread % 32, all = blocks * WARPS;
  float4* own = static_cast<float4*>(shared) + warp * (DEPTH * TOGETHER * 32) + lane;
  const unsigned places = (unsigned)__cvta_generic_to_shared(own);
  int asked = block * WARPS + warp, asked_step = 0, place = 0;
  Source source = source_of(a, b, min(asked, TASKS - 1), lane);
  const auto ask = [&] {
    if (asked < TASKS) {
      #pragma unroll
      for (int i = 0; i < TOGETHER; ++i, ++asked_step, source.from += source.apart)
        if (asked_step < source.steps) ask_for(places + (place * TOGETHER + i) * 512, source.from);
      if (asked_step == length_of(asked)) {
        asked_step = 0, asked += all;
        if (asked < TASKS) source = source_of(a, b, asked, lane);
      }
    }
    asm volatile("cp.async.commit_group;" : : : "memory");
    place = place == DEPTH - 1 ? 0 : place + 1;
  };
  #pragma unroll 1
  for (int i = 0; i < DEPTH; ++i) ask();
  #pragma unroll 1
  for (int task = block * WARPS + warp; task < TASKS; task += all) {
    Steps steps[4];
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      const bool rows = task < TASKS_A;
      const int at = rows ? task / SEGMENTS
                          : (task - TASKS_A) % (N / PIECE) * PIECE + lane % 16 * 4 + c;
      steps[c] = {__ldg((rows ? a_scales : b_scales) + at),
                  __ldg((rows ? a_inverses : b_inverses) + at)};
    }
    unsigned* to = target_of(static_cast<unsigned char*>(of_a), static_cast<unsigned char*>(of_b),
                             task, lane);
    const int mine = source_of(a, b, task, lane).steps, end = length_of(task);
    #pragma unroll 1
    for (int step = 0; step < end; step += TOGETHER, to += 32 * TOGETHER) {
      asm volatile("cp.async.wait_group %0;" : : "n"(DEPTH - 1) : "memory");
      unsigned word[TOGETHER];
      #pragma unroll
      for (int i = 0; i < TOGETHER; ++i) {
        const float4 x = own[(place * TOGETHER + i) * 32];
        word[i] = word_of(residual(x.x, quantised(x.x, steps[0]), steps[0]),
                          residual(x.y, quantised(x.y, steps[1]), steps[1]),
                          residual(x.z, quantised(x.z, steps[2]), steps[2]),
                          residual(x.w, quantised(x.w, steps[3]), steps[3]));
      }
      #pragma unroll
      for (int i = 0; i < TOGETHER; ++i)
        if (step + i < mine) __stcs(to + 32 * i, word[i]);
      ask();
    }
  }
}
"""


def late_residuals(workload: ResidualGemm) -> tuple[Meanwhile, ...]:
    """What writes `a_residual` and `b_turned`, the one that waits for most first.

    For k a multiple of 16 and whole pieces of b [k, n]; it reads the inverses of scales besides.
    """
    m, n, k = workload.m, workload.n, workload.k
    steps = min(_STEPS, blocks_for(k, 128 * _TOGETHER) * _TOGETHER)
    sizes = {
        "M": m, "N": n, **turned_sizes(k), "MOST": largest_integer(workload.bits),
        "STEPS_A": steps, "STEPS_B": _STEPS, "WARPS": WARPS, "TOGETHER": _TOGETHER,
    }  # fmt: skip
    reads = (
        workload.a, workload.b, TensorSpec(A_INVERSE, (m,), "float32"),
        TensorSpec(B_INVERSE, (n,), "float32"),
    )  # fmt: skip
    writes = (
        TensorSpec("a_residual", (m, k), "int8"),
        TensorSpec("b_turned", turned_shape(n, k), "int8"),
    )

    def one(depth: int) -> Meanwhile:
        source = QUANTISATION + _SOURCE
        functions = DeviceNamespace("late_residuals", source, {}, {**sizes, "DEPTH": depth})
        size = 512 * WARPS * depth * _TOGETHER
        return Meanwhile(functions.function("quantise_late"), reads, writes, size)

    return tuple(map(one, _DEPTHS))
