"""CUDA source of the warps that bring what lists gather to the stages of the ring."""

from autoq.templates.cuda.device.residual.turned import TURNED_AT

GATHER = (
    TURNED_AT
    + r"""
__device__ __forceinline__ unsigned read_index(const void* at) {
  unsigned short index;
  asm volatile("ld.global.u16 %0, [%1];"
               : "=h"(index) : "l"(__cvta_generic_to_global(at)) : "memory");
  return index;
}
__device__ __forceinline__ void ask_for(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               : : "r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}
struct Lists { const unsigned char *of_a, *of_b, *rows_of_a, *residual_b; };
constexpr int BANDS = OWN + 4;  // of a stage: the block's rows, then four of columns
// What a warp fills a stage with: of which 64 columns, which step of their lists, its number among
// the stages of the tile, and of each band the index that the lane has.
struct Filling { int group, step, number; unsigned index[BANDS]; };
__device__ __forceinline__ int lane_of(int band, int group) {
  return band < OWN ? band : 16 + 4 * group + band - OWN;
}
__device__ __forceinline__ const unsigned char* step_of(
    const Lists& lists, const Heads& heads, int band, int lane, int step) {
  const unsigned char* list = band < OWN ? lists.of_a : lists.of_b;
  return list + (size_t)(at_lane(heads.first, lane) + step) * STEP_BYTES;
}
__device__ __forceinline__ void read_indices(
    const Lists& lists, const Heads& heads, Filling& next, int lane) {
  #pragma unroll
  for (int i = 0; i < BANDS; ++i) {
    const int from = lane_of(i, next.group);
    const unsigned char* step = step_of(lists, heads, i, from, next.step);
    next.index[i] = NOWHERE;
    if (next.step < at_lane(heads.count, from)) next.index[i] = read_index(step + lane * 2);
  }
}
// Neither eight entries that ldmatrix reads together nor those that are written together meet in a
// bank.
__device__ __forceinline__ void ask_for_step(
    const Lists& lists, const Heads& heads, const Filling& own, unsigned base, int m_tile,
    int n_tile, int lane) {
  const int left = n_tile * BLOCK_N + own.group * 64;
  #pragma unroll
  for (int i = 0; i < BANDS; ++i) {
    const int from = lane_of(i, own.group);
    const unsigned char* step = step_of(lists, heads, i, from, own.step);
    if (own.step >= at_lane(heads.count, from)) continue;
    const unsigned values = i < OWN ? A_VALUES_AT + i * VALUES : B_VALUES_AT + (i - OWN) * VALUES;
    ask_for(base + values + lane * 16, step + INDEX_BYTES + lane * 16);
    const int lanes = i < OWN ? 4 : BLOCK_M / 16, part = lane % lanes;
    #pragma unroll
    for (int turn = 0; turn < lanes; ++turn) {
      const int entry = turn * (32 / lanes) + lane / lanes;
      const unsigned k = __shfl_sync(0xffffffffu, own.index[i], entry);
      if (k == NOWHERE) continue;
      if (i < OWN) {
        if (left < N)
          ask_for(base + i * OF_A + entry * 64 + (part ^ entry / 2 % 4) * 16,
                  lists.residual_b + turned_at((int)k, left + part * 16));
      } else {
        ask_for(base + B_AT + (i - OWN) * OF_B + entry * BLOCK_M + (part ^ entry % 8) * 16,
                lists.rows_of_a + ((size_t)m_tile * K + k) * BLOCK_M + part * 16);
      }
    }
  }
}
// The warps of a warpgroup fill stages by turns, no more of them than there are stages, so that
// each waits for no stage that another one has still to fill. Returns how many there are.
constexpr int FILLERS = STAGES < 4 ? STAGES : 4;
__device__ __forceinline__ int steps_of(const Heads& heads, int group) {
  int steps = 0;
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g) steps = group == g ? heads.steps[g] : steps;
  return steps;
}
// So many stages on. Behind the last one the group is GROUPS.
__device__ __forceinline__ void advance(const Heads& heads, Filling& at, int stages) {
  at.number += stages, at.step += stages;
  while (at.group < GROUPS && at.step >= steps_of(heads, at.group))
    at.step -= steps_of(heads, at.group), ++at.group;
}
__device__ __forceinline__ Lists lists_of(
    const void* residual_b, const void* rows_of_a, const void* of_a, const void* of_b) {
  return {static_cast<const unsigned char*>(of_a), static_cast<const unsigned char*>(of_b),
          static_cast<const unsigned char*>(rows_of_a),
          static_cast<const unsigned char*>(residual_b)};
}
__device__ __forceinline__ int gather(
    void* stages, void* barriers, const void* residual_b, const void* rows_of_a,
    const void* entries_of_a, const int* bands_of_a, const void* entries_of_b,
    const int* bands_of_b, int m_tile, int n_tile, int stage, int phase) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const Lists lists = lists_of(residual_b, rows_of_a, entries_of_a, entries_of_b);
  const Ring ring = {shared_address(stages), shared_address(barriers), stage, phase};
  const Heads heads = read_heads(bands_of_a, bands_of_b, m_tile, n_tile, lane);
  int all = 0;
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g) all += heads.steps[g];
  if (warp >= FILLERS) return all;
  Filling own = {};
  advance(heads, own, warp);
  if (own.group < GROUPS) read_indices(lists, heads, own, lane);
  #pragma unroll 1
  while (own.group < GROUPS) {
    const int at = stage_of(ring, own.number);
    wait_for(ring.full + 8 * (STAGES + at), phase_of(ring, own.number) ^ 1);
    ask_for_step(lists, heads, own, ring.stages + at * STAGE_BYTES, m_tile, n_tile, lane);
    advance(heads, own, FILLERS);
    if (own.group < GROUPS) read_indices(lists, heads, own, lane);
    asm volatile("cp.async.wait_all;" : : : "memory");
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    __syncwarp();
    if (lane == 0) arrive(ring.full + 8 * at);
  }
  return all;
}
// While a tile is multiplied: what its lists gather, on its way to the L2.
__device__ __forceinline__ void prefetch(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(from)) : "memory");
}
__device__ __forceinline__ void fetch_ahead(
    const void* residual_b, const void* rows_of_a, const void* entries_of_a, const int* bands_of_a,
    const void* entries_of_b, const int* bands_of_b, int m_tile, int n_tile) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const Lists lists = lists_of(residual_b, rows_of_a, entries_of_a, entries_of_b);
  const Heads heads = read_heads(bands_of_a, bands_of_b, m_tile, n_tile, lane);
  #pragma unroll 1
  for (int i = warp - 1; i < OWN + ACROSS; i += 3) {
    const int from = i < OWN ? i : 16 + i - OWN, count = at_lane(heads.count, from);
    #pragma unroll 1
    for (int step = 0; step < count; ++step) {
      const unsigned k = read_index(step_of(lists, heads, i, from, step) + lane * 2);
      if (k == NOWHERE) continue;
      if (i >= OWN) {
        prefetch(lists.rows_of_a + ((size_t)m_tile * K + k) * BLOCK_M);
        continue;
      }
      #pragma unroll
      for (int g = 0; g < GROUPS; ++g)
        if (n_tile * BLOCK_N + g * 64 < N)
          prefetch(lists.residual_b + turned_at((int)k, n_tile * BLOCK_N + g * 64));
    }
  }
}
"""
)
"""gather(...) and fetch_ahead(...), for a namespace with `STAGES` and the constants K and PIECE."""
