"""CUDA source of the panel kernel: gathered rows as the left factor, vectors as the right one.

mma.sync multiplies 16 columns of 32 rows of b, transposed, by 32 vectors of 8 rows. Integers of 16
bits are two digits, bytes of which the higher alone has a sign, and products of digits add to the
sums of their place. Floats of 16 bits have products of 16 rows, and sums that are kept as their
bits. How rows are gathered is in `staged_source.py` and `unstaged_source.py`.
"""

from __future__ import annotations

HEADING = r"""
constexpr int OWN = COLUMNS / 8, SUMS = 2 * OWN, ALL_SUMS = PLANES * SUMS;
constexpr int ROW_BYTES = COLUMNS * RIGHT_DIGITS * DIGIT_BITS / 8, LANE_BYTES = OWN * RIGHT_DIGITS;
template <bool> struct Sum { using type = int; using pair = int2; };
template <> struct Sum<true> { using type = long long; using pair = longlong2; };
using Total = Sum<SIXTY_FOUR>::type;
struct Rows { Total bias[2]; float scale[2], shift[2]; };
// column: of b and y, the first of the lane's OWN.
struct Lane { int number, column; };

// Eight nibbles as bytes, four columns a word. Those that have signs come 8 higher, which the bias
// takes off again: extending signs takes as many instructions as parting nibbles.
constexpr unsigned SIGNS = NIBBLES == 2 ? 0x88888888 : 0;
// An exclusive or and a mask in one instruction: of a constant each the compiler makes two.
__device__ __forceinline__ unsigned low_nibbles_of(unsigned eight) {
  unsigned low;
  asm("lop3.b32 %0, %1, %2, %3, 0x28;"
      : "=r"(low) : "r"(eight), "n"(SIGNS), "n"(0x0f0f0f0f));
  return low;
}
// Two words, of bytes that the selectors name of the even nibbles, from 0 on, and of the odd ones.
template <unsigned FIRST = 0x5140, unsigned SECOND = 0x7362>
__device__ __forceinline__ void widen(unsigned eight, unsigned& first, unsigned& second) {
  const unsigned even = low_nibbles_of(eight), odd = low_nibbles_of(eight >> 4);
  first = __byte_perm(even, odd, FIRST), second = __byte_perm(even, odd, SECOND);
}
__device__ __forceinline__ uint4 widened(uint2 sixteen) {
  uint4 bytes;
  widen(sixteen.x, bytes.x, bytes.y);
  widen(sixteen.y, bytes.z, bytes.w);
  return bytes;
}
__device__ __forceinline__ int added(int first, int second) {
  if constexpr (FLOATS)
    return __float_as_int(__fadd_rn(__int_as_float(first), __int_as_float(second)));
  else
    return first + second;
}
// d += a b of digit LEFT of the values and digit RIGHT of b.
template <int LEFT, int RIGHT> __device__ __forceinline__ void product(
    int* d, const unsigned (&a)[4], uint2 b) {PRODUCTS
}
"""
"""What the multiplication of a step takes."""

RUNS = r"""
// Sums of a lane's column c of row r of its two are at 4 (c / 2) + 2 (c % 2) + r of a plane; the
// product of digits i and j belongs to plane i + j. Loads stay behind the last use of what they
// replace, or the copies that moving them ahead takes would wait for them.
__device__ __forceinline__ void fetch(
    Step& step, const uint2* values, const Place* places, int number) {
  #pragma unroll
  for (int i = 0; i < LEFT_DIGITS; ++i)
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];"
                 : "=r"(step.values[i].x), "=r"(step.values[i].y)
                 : "l"(values + (number * LEFT_DIGITS + i) * 32));
  fetch_places(step, places, number);
}
// The first steps, in front of the barrier behind the panel: ptxas moves loads by way of the
// non-coherent path behind it, where all warps wait for them.
__device__ __forceinline__ void fetch_first(
    Step& step, const uint2* values, const Place* places, int number) {
  #pragma unroll
  for (int i = 0; i < LEFT_DIGITS; ++i)
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(step.values[i].x), "=r"(step.values[i].y)
                 : "l"(values + (number * LEFT_DIGITS + i) * 32) : "memory");
  fetch_first_places(step, places, number);
}
// A warp takes its run of steps. A group that began in an earlier warp's run is left in shared
// memory to that warp, which adds up what others have of its last group when all are done.
__device__ __forceinline__ void multiply_sparse(
    unsigned char* smem, const B* b, const int* values, const void* places, const int* starts,
    const int* rows_of, const int* runs, const int* firsts, const Constants& from, OUT* y,
    int block, int thread) {
  const int part = block / PANELS, warp = thread / 32, number = thread % 32;
  const int first_column = block % PANELS * COLUMNS;
  const Lane lane = {number, first_column + number / 4 * OWN};
  int* pieces = reinterpret_cast<int*>(smem + PANEL_BYTES);
  const int* run = runs + part * (WARPS + 1) + warp;
  const int start = __ldg(run), stop = __ldg(run + 1);
  int group = __ldg(firsts + part * WARPS + warp);
  PanelPieces of_panel;
  start_panel(of_panel, b, first_column, thread);
  unsigned panel;  // kept in a register: the compiler would find the address anew in each step
  asm volatile("mov.u32 %0, %1;" : "=r"(panel) : "r"((unsigned)__cvta_generic_to_shared(smem)));
  const uint2* next_values = reinterpret_cast<const uint2*>(values);
  next_values += start * LEFT_DIGITS * 32 + number;
  const Place* next_places = own_places(places, start, number);
  Step ahead[PREFETCH];
  #pragma unroll
  for (int p = 0; p < PREFETCH; ++p) fetch_first(ahead[p], next_values, next_places, p);
  int begin = __ldg(starts + group), end = __ldg(starts + group + 1), row = __ldg(rows_of + group);
  const Channels own = terms_of(from);
  Rows rows = rows_from(from, group, lane);
  load_panel(smem, of_panel, b, first_column, thread);
  if constexpr (STAGED) __syncthreads();
  int sums[ALL_SUMS];
  const int origin = start_of(own);  // of a group that several runs have the first one's alone
  clear(sums, begin < start ? 0 : origin);
  int base = start, at = start;
  bool unfinished = false;
  while (at < stop) {
    const int last = min(end, stop);
    const int next_end = __ldg(starts + group + 2), next_row = __ldg(rows_of + group + 1);
    const Rows next_rows = rows_from(from, group + 1, lane);
    do {
      #pragma unroll
      for (int p = 0; p < PREFETCH; ++p) {
        if ((unsigned)(base + p - at) < (unsigned)(last - at)) {
          multiply_step(sums, ahead[p], panel, b, lane);
          fetch(ahead[p], next_values, next_places, p + PREFETCH);
        }
      }
      if (base + PREFETCH > last) break;
      base += PREFETCH, next_values += PREFETCH * LEFT_DIGITS * 32;
      next_places = own_places(next_places, PREFETCH, 0);
    } while (base < last);
    at = last;
    if (begin < start) {
      #pragma unroll
      for (int i = 0; i < ALL_SUMS; ++i) pieces[(warp * ALL_SUMS + i) * 32 + number] = sums[i];
    } else if (last < end) {
      unfinished = true;
      break;
    } else {
      finish(sums, rows, own, from, y, row, lane);
    }
    clear(sums, origin);
    begin = end, end = next_end, row = next_row, rows = next_rows, ++group;
  }
  __syncthreads();
  if (!unfinished) return;
  for (int other = 1; warp + other < WARPS; ++other) {
    const int from_step = __ldg(run + other);
    if (from_step >= end) break;
    if (from_step == __ldg(run + other + 1)) continue;
    #pragma unroll
    for (int i = 0; i < ALL_SUMS; ++i)
      sums[i] = added(sums[i], pieces[((warp + other) * ALL_SUMS + i) * 32 + number]);
  }
  finish(sums, rows, own, from, y, row, lane);
}
"""
