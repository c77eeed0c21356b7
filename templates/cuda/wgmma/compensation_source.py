"""CUDA source of a product's epilogue that adds lists, times residuals, before a tile is stored.

For each 64 columns of a tile the ring has one stage for every step of the longest list: what the
step's entries gather of residuals of b for each of the block's bands of rows, 64 columns of each,
what they gather of residuals of a for each of the four bands of columns, all rows of the tile, and
the values of both, which `value_steps.py` lays as fragments.
"""

from autoq.templates.cuda.device.residual.turned import TURNED_AT
from autoq.templates.cuda.device.residual.value_steps import VALUE_STEPS

COMPENSATION = (
    VALUE_STEPS
    + TURNED_AT
    + r"""
constexpr int OWN = BLOCK_M / BAND, ACROSS = BLOCK_N / BAND, GROUPS = BLOCK_N / 64;
constexpr int OF_A = STEP * 64, OF_B = STEP * BLOCK_M, VALUES = BAND * STEP;
constexpr int B_AT = OWN * OF_A, A_VALUES_AT = B_AT + 4 * OF_B;
constexpr int B_VALUES_AT = A_VALUES_AT + OWN * VALUES;
static_assert(B_VALUES_AT + 4 * VALUES <= STAGE_BYTES, "a step of all bands fits a stage");
static_assert(OWN * RECEIVERS <= 16 && ACROSS <= 16, "a warp has a lane for each band");
__device__ __forceinline__ unsigned shared_address(const void* at) {
  return (unsigned)__cvta_generic_to_shared(at);
}
// Loads that stay where they are: others may come before what wrote is complete.
__device__ __forceinline__ int2 read_head(const void* at) {
  int2 head;
  asm volatile("ld.global.v2.s32 {%0, %1}, [%2];"
               : "=r"(head.x), "=r"(head.y) : "l"(__cvta_generic_to_global(at)) : "memory");
  return head;
}
__device__ __forceinline__ unsigned read_index(const void* at) {
  unsigned short index;
  asm volatile("ld.global.u16 %0, [%1];"
               : "=h"(index) : "l"(__cvta_generic_to_global(at)) : "memory");
  return index;
}
__device__ __forceinline__ float read_scale(const float* at) {
  float scale;
  asm volatile("ld.global.f32 %0, [%1];"
               : "=f"(scale) : "l"(__cvta_generic_to_global(at)) : "memory");
  return scale;
}
__device__ __forceinline__ void wait_for(unsigned barrier, int parity) {
  unsigned done;
  do {
    asm volatile("{ .reg .pred there; mbarrier.try_wait.parity.shared::cta.b64 there, [%1], %2; "
                 "selp.u32 %0, 1, 0, there; }"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  } while (!done);
}
__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }"
               : : "r"(barrier) : "memory");
}
// Where the ring is: barriers of full stages, of empty ones behind them, and a stage.
struct Ring { unsigned stages, full; int stage, phase; };
__device__ __forceinline__ int stage_of(const Ring& ring, int step) {
  return (ring.stage + step) % STAGES;
}
__device__ __forceinline__ int phase_of(const Ring& ring, int step) {
  return ring.phase ^ (ring.stage + step) / STAGES % 2;
}
// Lanes have the bands of rows of all blocks of the cluster, then those of the tile's columns: the
// first step of each and how many. steps: of the longest list for each 64 columns.
struct Heads { int first, count, steps[GROUPS]; };
__device__ __forceinline__ int at_lane(int x, int lane) {
  return __shfl_sync(0xffffffffu, x, lane);
}
__device__ __forceinline__ int most_of(int x, int apart) {
  return max(x, __shfl_xor_sync(0xffffffffu, x, apart));
}
__device__ __forceinline__ Heads read_heads(
    const int* rows, const int* columns, int m_tile, int n_tile, int lane) {
  const int block = lane / OWN, across = lane - 16;
  const int row = (RECEIVERS > 1 ? m_tile ^ block : m_tile) * OWN + lane % OWN;
  const int column = n_tile * ACROSS + across;
  const bool of_row = lane < 16 && block < RECEIVERS && row < (M + BAND - 1) / BAND;
  const bool of_column = lane >= 16 && across < ACROSS && column < (N + BAND - 1) / BAND;
  int2 head = make_int2(0, 0);
  if (of_row) head = read_head(rows + 2 * row);
  else if (of_column) head = read_head(columns + 2 * column);
  Heads found = {head.x, head.y, {}};
  const int four = most_of(most_of(head.y, 1), 2), all = at_lane(most_of(most_of(four, 4), 8), 0);
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g) found.steps[g] = max(all, at_lane(four, 16 + 4 * g));
  return found;
}
__device__ __forceinline__ void ask_for(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               : : "r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}
struct Lists { const unsigned char *of_a, *of_b, *rows_of_a, *residual_b; };
// A warp fills a stage. Neither eight entries that ldmatrix reads together nor those that are
// written together meet in a bank.
__device__ __forceinline__ void fill_stage(
    const Lists& lists, const Heads& heads, const Ring& ring, int m_tile, int n_tile, int group,
    int step, int number, int lane) {
  unsigned index[OWN + 4];
  #pragma unroll
  for (int i = 0; i < OWN + 4; ++i) {
    const int from = i < OWN ? i : 16 + 4 * group + i - OWN;
    const int first = at_lane(heads.first, from), count = at_lane(heads.count, from);
    const unsigned char* list = i < OWN ? lists.of_a : lists.of_b;
    index[i] = NOWHERE;
    if (step < count) index[i] = read_index(list + (size_t)(first + step) * STEP_BYTES + lane * 2);
  }
  const int stage = stage_of(ring, number);
  wait_for(ring.full + 8 * (STAGES + stage), phase_of(ring, number) ^ 1);
  const unsigned base = ring.stages + stage * STAGE_BYTES;
  const int left = n_tile * BLOCK_N + group * 64;
  #pragma unroll
  for (int i = 0; i < OWN + 4; ++i) {
    const int from = i < OWN ? i : 16 + 4 * group + i - OWN;
    const int first = at_lane(heads.first, from), count = at_lane(heads.count, from);
    if (step >= count) continue;
    const unsigned char* list = i < OWN ? lists.of_a : lists.of_b;
    const unsigned values = i < OWN ? A_VALUES_AT + i * VALUES : B_VALUES_AT + (i - OWN) * VALUES;
    ask_for(base + values + lane * 16,
            list + (size_t)(first + step) * STEP_BYTES + INDEX_BYTES + lane * 16);
    constexpr int LANES_B = BLOCK_M / 16;
    const int lanes = i < OWN ? 4 : LANES_B, own = lane % lanes;
    #pragma unroll
    for (int turn = 0; turn < lanes; ++turn) {
      const int entry = turn * (32 / lanes) + lane / lanes;
      const unsigned k = __shfl_sync(0xffffffffu, index[i], entry);
      if (k == NOWHERE) continue;
      if (i < OWN) {
        if (left < N)
          ask_for(base + i * OF_A + entry * 64 + (own ^ entry / 2 % 4) * 16,
                  lists.residual_b + turned_at((int)k, left + own * 16));
      } else {
        ask_for(base + B_AT + (i - OWN) * OF_B + entry * BLOCK_M + (own ^ entry % 8) * 16,
                lists.rows_of_a + ((size_t)m_tile * K + k) * BLOCK_M + own * 16);
      }
    }
  }
  asm volatile("cp.async.wait_all;" : : : "memory");
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
  __syncwarp();
  if (lane == 0) arrive(ring.full + 8 * stage);
}
// The warps of a warpgroup fill stages by turns, no more of them than there are stages, so that
// each waits for no stage that another one has still to fill. Returns how many there are.
constexpr int FILLERS = STAGES < 4 ? STAGES : 4;
__device__ __forceinline__ int gather(
    void* stages, void* barriers, const void* residual_b, const void* rows_of_a,
    const void* entries_of_a, const int* bands_of_a, const void* entries_of_b,
    const int* bands_of_b, int m_tile, int n_tile, int stage, int phase) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const Lists lists = {
      static_cast<const unsigned char*>(entries_of_a),
      static_cast<const unsigned char*>(entries_of_b),
      static_cast<const unsigned char*>(rows_of_a), static_cast<const unsigned char*>(residual_b)};
  const Ring ring = {shared_address(stages), shared_address(barriers), stage, phase};
  const Heads heads = read_heads(bands_of_a, bands_of_b, m_tile, n_tile, lane);
  int number = 0, group = 0;
  #pragma unroll 1
  for (; group < GROUPS; ++group) {
    int steps = heads.steps[0];
    #pragma unroll
    for (int g = 1; g < GROUPS; ++g) steps = group == g ? heads.steps[g] : steps;
    #pragma unroll 1
    for (int step = 0; step < steps; ++step, ++number)
      if (number % FILLERS == warp)
        fill_stage(lists, heads, ring, m_tile, n_tile, group, step, number, lane);
  }
  return number;
}
__device__ __forceinline__ void read_turned(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ uint4 read_values(unsigned from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
  return v;
}
__device__ __forceinline__ void multiply(
    int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Of 16 neighbours of each of four entries that a lane reads, one and the one behind it.
struct Words { unsigned even[2], odd[2]; };
__device__ __forceinline__ Words words_of(const unsigned (&w)[4]) {
  return {{__byte_perm(w[0], w[1], 0x6420), __byte_perm(w[2], w[3], 0x6420)},
          {__byte_perm(w[0], w[1], 0x7531), __byte_perm(w[2], w[3], 0x7531)}};
}
__device__ __forceinline__ void add_rows(int (&q)[4][2][4], unsigned base, int own, int lane) {
  const uint4 a = read_values(base + A_VALUES_AT + own * VALUES + lane * 16);
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    unsigned turned[4];
    read_turned(turned, base + own * OF_A + lane * 64 + (c ^ lane / 2 % 4) * 16);
    const Words b = words_of(turned);
    multiply(q[c][0], a.x, a.y, a.z, a.w, b.even[0], b.even[1]);
    multiply(q[c][1], a.x, a.y, a.z, a.w, b.odd[0], b.odd[1]);
  }
}
__device__ __forceinline__ void add_columns(
    int (&q)[2][4], unsigned base, int band, int own, int lane) {
  unsigned turned[4];
  read_turned(turned, base + B_AT + band * OF_B + lane * BLOCK_M + (own ^ lane % 8) * 16);
  const uint4 b = read_values(base + B_VALUES_AT + band * VALUES + lane * 16);
  const Words a = words_of(turned);
  multiply(q[0], a.even[0], a.odd[0], a.even[1], a.odd[1], b.x, b.y);
  multiply(q[1], a.even[0], a.odd[0], a.even[1], a.odd[1], b.z, b.w);
}
// One thread of a warp leaves a stage, also that of the other block of a cluster.
__device__ __forceinline__ void leave(const Ring& ring, int stage, int rank) {
  const unsigned empty = ring.full + 8 * (STAGES + stage);
  arrive(empty);
  if constexpr (RECEIVERS > 1)
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 : : "r"(empty), "r"(rank ^ 1) : "memory");
}
__device__ __forceinline__ void read_four(const float* from, int column, float (&to)[4]) {
  #pragma unroll
  for (int c = 0; c < 4; ++c) to[c] = column + c < N ? read_scale(from + column + c) : 0.f;
}
__device__ __forceinline__ void write_four(
    float* y, const unsigned* p, const int (&q)[2][4], int half, float row_scale,
    const float (&scale)[4], const float (&bias)[4], int column) {
  float value[4];
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float unit = 1.f / (2 * MOST);
    const int whole = (int)p[c / 2 * 4 + half * 2 + c % 2], added = q[c % 2][2 * half + c / 2];
    const float all = __fadd_rn((float)whole, __fmul_rn((float)added, unit));
    value[c] = __fmul_rn(__fmul_rn(all, scale[c]), row_scale);
    if constexpr (BIAS) value[c] = __fadd_rn(value[c], bias[c]);
  }
  if constexpr (N % 4 == 0) {
    if (column < N)
      __stcs(reinterpret_cast<float4*>(y + column),
             make_float4(value[0], value[1], value[2], value[3]));
  } else {
    #pragma unroll
    for (int c = 0; c < 4; ++c)
      if (column + c < N) y[column + c] = value[c];
  }
}
// A consumer warpgroup adds the lists to its rows of a tile and stores them. Returns the stages.
__device__ __forceinline__ int compensate(
    const unsigned* acc, const void* stages, const void* barriers, const float* row_scales,
    const float* column_scales, const float* biases, const int* bands_of_a, const int* bands_of_b,
    float* y, int m_tile, int n_tile, int rank, int stage, int phase) {
  int thread;  // read anew for each tile, which costs no register while it is multiplied
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  const int own = thread / 32 - 4, lane = thread % 32;
  const Ring ring = {shared_address(stages), shared_address(barriers), stage, phase};
  const Heads heads = read_heads(bands_of_a, bands_of_b, m_tile, n_tile, lane);
  const int row = m_tile * BLOCK_M + own * BAND + lane / 4, count = at_lane(heads.count, own);
  const float row_scale[2] = {row < M ? read_scale(row_scales + row) : 0.f,
                              row + 8 < M ? read_scale(row_scales + row + 8) : 0.f};
  int number = 0;
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    int q[4][2][4] = {}, of_band[4];
    #pragma unroll
    for (int c = 0; c < 4; ++c) of_band[c] = at_lane(heads.count, 16 + 4 * g + c);
    #pragma unroll 1
    for (int step = 0; step < heads.steps[g]; ++step, ++number) {
      const int at = stage_of(ring, number);
      const unsigned base = ring.stages + at * STAGE_BYTES;
      wait_for(ring.full + 8 * at, phase_of(ring, number));
      if (step < count) add_rows(q, base, own, lane);
      #pragma unroll
      for (int c = 0; c < 4; ++c)
        if (step < of_band[c]) add_columns(q[c], base, c, own, lane);
      __syncwarp();
      if (lane == 0) leave(ring, at, rank);
    }
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int column = n_tile * BLOCK_N + g * 64 + c * 16 + lane % 4 * 4;
      float scale[4], bias[4] = {};
      read_four(column_scales, column, scale);
      if constexpr (BIAS) read_four(biases, column, bias);
      #pragma unroll
      for (int h = 0; h < 2; ++h)
        if (row + 8 * h < M)
          write_four(y + (size_t)(row + 8 * h) * N, acc + (g * 4 + c) * 8, q[c], h, row_scale[h],
                     scale, bias, column);
    }
  }
  return number;
}
"""
)
"""gather(...) and compensate(...), for a namespace with the constants M, N, K, BLOCK_M, BLOCK_N,
STAGES, STAGE_BYTES, RECEIVERS (blocks that share weights), MOST (the largest integer), BIAS and
PIECE."""
