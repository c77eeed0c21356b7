"""CUDA source of runs of steps that may hold the last vectors of a group and the next one's first.

A short group fills its steps: 82 vectors take 2.6 steps of 32 instead of 3, of gathers, values and
instructions. Such a step is gathered once and multiplied twice, by the bytes of either group.
"""

from __future__ import annotations

SHARED_RUNS = r"""
static_assert(STAGED && LEFT_DIGITS == 1 && RIGHT_DIGITS == 1 && DIGIT_BITS == 8 && !FLOATS);
// Which bytes of a lane's values belong to the first `boundary` vectors of a step: it has two of
// each eight.
__device__ __forceinline__ unsigned bytes_below(int boundary, int first) {
  const auto two = [&](int count) { return (1u << 8 * min(max(count, 0), 2)) - 1; };
  return two(boundary - first) | two(boundary - first - 8) << 16;
}
// Of a step that is shared the bytes of a mask are the group's and the others the next one's. The
// mask is read where it is needed: registers are few.
__device__ __forceinline__ void multiply_shared(
    int (&sums)[ALL_SUMS], int (&head)[ALL_SUMS], const Step& step, unsigned panel, bool shared,
    unsigned mask, int origin) {
  const unsigned at = panel + step.place * 16;
  if (!shared) {
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      unsigned even[2], odd[2];
      gather(even, odd, at ^ c * 16);
      multiply_pair<0>(sums + 4 * c, even, odd, step);
    }
  } else {
    Step part = step, rest = step;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(part.values[0].x), "=r"(part.values[0].y) : "r"(mask));
    part.values[0].x &= step.values[0].x, part.values[0].y &= step.values[0].y;
    rest.values[0].x ^= part.values[0].x, rest.values[0].y ^= part.values[0].y;
    clear(head, origin);
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      unsigned even[2], odd[2];
      gather(even, odd, at ^ c * 16);
      multiply_pair<0>(sums + 4 * c, even, odd, part);
      multiply_pair<0>(head + 4 * c, even, odd, rest);
    }
  }
}
// As the runs of whole steps; `starts` are in places of steps, and a group whose first vectors
// were in the last step of another begins with their sums.
__device__ __forceinline__ void multiply_sparse(
    unsigned char* smem, const B* b, const int* values, const void* places, const int* starts,
    const int* rows_of, const int* runs, const int* firsts, const Constants& from, OUT* y,
    int block, int thread) {
  const int part = block / PANELS, warp = thread / 32, number = thread % 32;
  const int first_column = block % PANELS * COLUMNS;
  const Lane lane = {number, first_column + number / 4 * OWN};
  int* pieces = reinterpret_cast<int*>(smem + PANEL_BYTES);
  uint2* masks = reinterpret_cast<uint2*>(smem + MASKS_START);  // of boundaries, a quarter's lanes
  const int* run = runs + part * (WARPS + 1) + warp;
  const int start = __ldg(run), stop = __ldg(run + 1);
  int group = __ldg(firsts + part * WARPS + warp);
  PanelPieces of_panel;
  start_panel(of_panel, b, first_column, thread);
  unsigned panel;  // kept in a register: the compiler would find the address anew in each step
  asm volatile("mov.u32 %0, %1;" : "=r"(panel) : "r"((unsigned)__cvta_generic_to_shared(smem)));
  const uint2* all_values = reinterpret_cast<const uint2*>(values);
  const Place* all_places = own_places(places, 0, 0);
  Step ahead[PREFETCH];
  #pragma unroll
  for (int p = 0; p < PREFETCH; ++p)
    fetch_first(ahead[p], all_values + start * 32 + number, all_places + start * 32 + number, p);
  bool early = __ldg(starts + group) / 32 < start;  // the group began in an earlier run
  int stop_place = __ldg(starts + group + 1);
  const Channels own = terms_of(from);
  for (int i = thread; i < 128; i += THREADS)
    masks[i] = make_uint2(bytes_below(i / 4, i % 4 * 2), bytes_below(i / 4, 16 + i % 4 * 2));
  load_panel(smem, of_panel, b, first_column, thread);
  __syncthreads();
  int sums[ALL_SUMS], head[ALL_SUMS];
  const int origin = start_of(own);  // of a group that several runs have the first one's alone
  clear(sums, early ? 0 : origin);
  int base = start, at = start, end = 0;
  bool begun = false, unfinished = false;
  while (at < stop || begun) {
    end = (stop_place + 31) / 32;
    const int last = min(end, stop);
    const bool shares = stop_place % 32 > 0 && end <= stop;
    const int next_stop = __ldg(starts + group + 2), row = __ldg(rows_of + group);
    const Rows rows = rows_from(from, group, lane);
    do {
      #pragma unroll
      for (int p = 0; p < PREFETCH; ++p) {
        if ((unsigned)(base + p - at) < (unsigned)(last - at)) {
          const bool shared = shares && base + p == last - 1;
          const unsigned mask = panel + MASKS_START + (stop_place % 32 * 4 + number % 4) * 8;
          multiply_shared(sums, head, ahead[p], panel, shared, mask, origin);
          const unsigned next = base * 32 + number;
          fetch(ahead[p], all_values + next, all_places + next, p + PREFETCH);
        }
      }
      if (base + PREFETCH > last) break;
      base += PREFETCH;
    } while (base < last);
    at = last;
    if (early) {
      #pragma unroll
      for (int i = 0; i < ALL_SUMS; ++i) pieces[(warp * ALL_SUMS + i) * 32 + number] = sums[i];
    } else if (last < end) {
      unfinished = true;
      break;
    } else {
      finish(sums, rows, own, from, y, row, lane);
    }
    #pragma unroll
    for (int i = 0; i < ALL_SUMS; ++i) sums[i] = shares ? head[i] : origin;
    begun = shares, early = false;
    stop_place = next_stop, ++group;
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
  finish(sums, rows_from(from, group, lane), own, from, y, __ldg(rows_of + group), lane);
}
"""
