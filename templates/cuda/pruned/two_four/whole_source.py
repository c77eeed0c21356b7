"""CUDA source of what a whole 2:4 weight has: all stages of x, and all columns of y."""

from __future__ import annotations

WHOLE_K = """
struct Extent { int weight_tiles; };
struct Stages { int first, count; };
__device__ __forceinline__ Stages stages_of(const Extent&, int tile) {
  return {tile * K_STAGES, K_STAGES};
}
__device__ __forceinline__ int place_of_stage(const Extent&, const Stages&, int stage) {
  return stage;
}
__device__ __forceinline__ int same_for_all(int stages) { return stages; }
__device__ __forceinline__ int2 of_x(int stage, int row) {
  return make_int2(stage * (128 / SIZE), row);
}
"""
"""Tiles of weights that all have all stages of x."""

WHOLE_ROWS = r"""
struct Outputs { OUT* y; };
struct Way {};
__device__ __forceinline__ Way way_of(const Outputs&, int, int) { return {}; }
__device__ __forceinline__ void store_rows(
    const unsigned char* from, const Outputs& to, const Way&, int first_row, int block,
    int thread) {
  constexpr int EACH = 64 * OUT_BYTES / VECTOR_BYTES, WORDS = VECTOR_BYTES / 4;
  #pragma unroll 4
  for (int i = thread; i < PASS * EACH; i += 128) {
    const int row = i / EACH, byte = i % EACH * VECTOR_BYTES;
    const int column = block * 64 + byte / OUT_BYTES;
    if (first_row + row >= M || column >= N) continue;
    const unsigned* words = reinterpret_cast<const unsigned*>(from + row * ROW + byte);
    unsigned* at = reinterpret_cast<unsigned*>(to.y + (long long)(first_row + row) * N + column);
    if constexpr (WORDS == 4) {
      *reinterpret_cast<uint4*>(at) = *reinterpret_cast<const uint4*>(words);
    } else if constexpr (WORDS == 2) {
      *reinterpret_cast<uint2*>(at) = *reinterpret_cast<const uint2*>(words);
    } else {
      *at = *words;
    }
  }
}
"""
"""Outputs whose columns are those of the weight."""

BOXES = r"""
struct Outputs { unsigned long long y_map; };
struct Way {};
__device__ __forceinline__ Way way_of(const Outputs&, int, int) { return {}; }
__device__ __forceinline__ void store_rows(
    const unsigned char* from, const Outputs& to, const Way&, int first_row, int block,
    int thread) {
  if (thread != 0) return;
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
               : : "l"(to.y_map), "r"(block * 64), "r"(first_row),
                   "r"((unsigned)__cvta_generic_to_shared(from)) : "memory");
  asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}
"""
"""The same outputs by TMA, in boxes of rows that pass together."""

SHIFTS = """
    const Raw<float, 2> shift = load<float, 2>(from.scale + CHANNELS + at);
    own.shift = {{shift.word[0], shift.word[1], shift.word[0], shift.word[1]}}"""
"""What reads the float biases, where there are."""
