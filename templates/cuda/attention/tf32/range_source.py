"""CUDA source of attention whose results are quantised by the range of all of them."""

from autoq.templates.cuda.device.dynamic_bytes import DYNAMIC_BYTES
from autoq.templates.cuda.device.launch.grid_range import grid_range_source

RANGE_OF_ROWS = (
    grid_range_source()
    + DYNAMIC_BYTES
    + r"""
// A lane's values, in the place of their sums, and their range.
__device__ __forceinline__ Range finish_rows(
    Sums& sums, const RowPairs& total, int first, int lane) {
  Range range = {0.f, 0.f};
  #pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float inverse = 1.f / over_lanes_sum(total.of[0][half]);
    const bool inside = first + half * 8 + lane / 4 < QUERIES;
    #pragma unroll
    for (int t = 0; t < WIDTH / 8; ++t)
      #pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& value = sums[t][2 * half + e];
        value *= inverse;
        const int column = t / 4 * 32 + lane % 4 * 8 + e * 4 + t % 4;
        if (inside && column < DEPTH) range = join(range, {value, value});
      }
  }
  return range;
}
__device__ __forceinline__ void store_bytes(
    unsigned char* y, const Sums& sums, Steps steps, int first, int lane) {
  #pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + half * 8 + lane / 4;
    if (row >= QUERIES) continue;
    #pragma unroll
    for (int g = 0; g < WIDTH / 32; ++g)
      #pragma unroll
      for (int e = 0; e < 2; ++e) {
        float four[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = sums[4 * g + i][2 * half + e];
        const unsigned word = bytes_of<4>(four, steps);
        const int column = g * 32 + lane % 4 * 8 + e * 4;
        unsigned char* to = y + row * Y_PITCH + column;
        if constexpr (PIECE == 4) {
          if (column < DEPTH) *reinterpret_cast<unsigned*>(to) = word;
        } else {
          #pragma unroll
          for (int i = 0; i < 4; ++i)
            if (column + i < DEPTH) to[i] = word >> (8 * i);
        }
      }
  }
}
"""
)
"""Functions of the rows of a warp."""

QUANTISED = "unsigned char* y, float* scale_to, float* zero_to, void* words"
"""The results."""

QUANTISE = r"""
  const Range range = finish_rows(sums, total, first, lane);
  __syncthreads();  // others may still read values of the last tile
  unsigned left;
  const Steps steps = steps_of(
      of_grid<THREADS, BLOCKS>(range, words, shared, block, thread, left));
  store_bytes(y, sums, steps, first, lane);
  if (block == 0 && thread == 0) {
    *scale_to = steps.scale;
    *zero_to = steps.zero;
  }
  clear_words<BLOCKS>(words, thread, left);
}
"""
"""How they are stored."""
