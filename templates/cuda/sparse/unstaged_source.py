"""CUDA source of gathers from b itself, where a panel of all its rows does not fit.

A lane reads four neighbouring columns of each of its rows as a word and turns four words of four
bytes, so that its words are columns: the online transpose of Magicube. Which columns of the panel
are which rows of the product is free, so that nothing is exchanged between lanes.
"""

from __future__ import annotations

from autoq.templates.cuda.device.memory.turned_bytes import TURN_BYTES

UNSTAGED_SOURCE = (
    TURN_BYTES
    + r"""
constexpr int WORDS = OWN / 4;
struct Step { uint2 values[LEFT_DIGITS]; uint2 places[4]; };

struct PanelPieces {};
__device__ __forceinline__ void start_panel(PanelPieces&, const B*, int, int) {}
__device__ __forceinline__ void load_panel(unsigned char*, PanelPieces&, const B*, int, int) {}

using Place = uint2;
__device__ __forceinline__ const Place* own_places(const void* places, int start, int number) {
  return reinterpret_cast<const Place*>(places) + start * 16 + number % 4;
}
__device__ __forceinline__ void fetch_places(Step& step, const Place* places, int number) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) step.places[i] = __ldg(places + number * 16 + 4 * i);
}
__device__ __forceinline__ void fetch_first_places(Step& step, const Place* places, int number) {
  fetch_places(step, places, number);
}

// A lane's columns of the row of b at `place`.
__device__ __forceinline__ void gather(
    unsigned (&words)[LANE_BYTES / 4], const B* b, unsigned place, const Lane& lane) {
  // All columns of a lane by one load where these are aligned in every row.
  constexpr int TOGETHER = N % OWN == 0 && !FLOATS ? OWN : NEAR, BYTES = TOGETHER * RIGHT_DIGITS;
  #pragma unroll
  for (int w = 0; w < LANE_BYTES / 4; ++w) words[w] = 0;
  if constexpr (NIBBLES) {
    constexpr int TWO = N % OWN == 0 ? OWN : 4;  // columns that a load has, two a byte
    #pragma unroll
    for (int i = 0; i < OWN / TWO; ++i) {
      const int column = lane.column + i * TWO;
      if (!COLUMNS_INSIDE && column >= N) break;
      const Raw<B, TWO / 2> raw = load<B, TWO / 2>(b + (place + column) / 2);
      if constexpr (TWO == 4) {
        unsigned none;
        widen(raw.word[0], words[i], none);
      } else {
        #pragma unroll
        for (int w = 0; w < TWO / 4; w += 2)
          widen(raw.word[w / 2], words[i * TWO / 4 + w], words[i * TWO / 4 + w + 1]);
      }
    }
    return;
  }
  #pragma unroll
  for (int i = 0; i < OWN / TOGETHER; ++i) {
    if (COLUMNS_INSIDE || lane.column + i * TOGETHER < N) {
      const Raw<B, TOGETHER> raw = load<B, TOGETHER>(b + (place + lane.column + i * TOGETHER));
      #pragma unroll
      for (int w = 0; w < (BYTES + 3) / 4; ++w)
        words[i * BYTES / 4 + w] |= raw.word[w] << (8 * (i * BYTES % 4));
    }
  }
}

// Bytes `digit` of the four columns of word `w`.
__device__ __forceinline__ unsigned digit_of(
    const unsigned (&words)[LANE_BYTES / 4], int w, int digit) {
  if constexpr (RIGHT_DIGITS == 1) return words[w];
  else return __byte_perm(words[2 * w], words[2 * w + 1], digit ? 0x7531 : 0x6420);
}

template <int RIGHT> __device__ __forceinline__ void multiply_digit(
    int (&sums)[ALL_SUMS], const uint2 (&values)[LEFT_DIGITS],
    const unsigned (&words)[8][LANE_BYTES / 4]) {
  #pragma unroll
  for (int w = 0; w < WORDS; ++w) {
    unsigned columns[2][4];
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned four[4];
      #pragma unroll
      for (int j = 0; j < 4; ++j) four[j] = digit_of(words[4 * half + j], w, RIGHT);
      turn_bytes(four, columns[half]);
    }
    #pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const unsigned a[4] = {columns[0][2 * pair], columns[0][2 * pair + 1],
                             columns[1][2 * pair], columns[1][2 * pair + 1]};
      int* d = sums + RIGHT * SUMS + 8 * w + 4 * pair;
      product<0, RIGHT>(d, a, values[0]);
      if constexpr (LEFT_DIGITS == 2) product<1, RIGHT>(d + SUMS, a, values[1]);
    }
  }
}
// Of floats a word has two columns.
__device__ __forceinline__ void multiply_floats(
    int (&sums)[ALL_SUMS], const uint2 (&values)[LEFT_DIGITS],
    const unsigned (&words)[8][LANE_BYTES / 4]) {
  #pragma unroll
  for (int w = 0; w < LANE_BYTES / 4; ++w) {
    #pragma unroll
    for (int half = 0; half < LEFT_DIGITS; ++half) {
      unsigned a[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 4 * half + i / 2 * 2;
        a[i] = __byte_perm(words[row][w], words[row + 1][w], i % 2 ? 0x7632 : 0x5410);
      }
      product<0, 0>(sums + 4 * w, a, values[half]);
    }
  }
}
__device__ __forceinline__ void multiply_step(
    int (&sums)[ALL_SUMS], const Step& step, unsigned panel, const B* b, const Lane& lane) {
  unsigned words[8][LANE_BYTES / 4];
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    gather(words[2 * i], b, step.places[i].x, lane);
    gather(words[2 * i + 1], b, step.places[i].y, lane);
  }
  if constexpr (FLOATS) return multiply_floats(sums, step.values, words);
  multiply_digit<0>(sums, step.values, words);
  if constexpr (RIGHT_DIGITS == 2) multiply_digit<RIGHT_DIGITS - 1>(sums, step.values, words);
}
"""
)
