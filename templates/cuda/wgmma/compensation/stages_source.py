"""CUDA source of the stages that hold what lists gather, and of how long the lists of a tile are.

For each 64 columns of a tile the ring has one stage for every step of the longest list: what the
step's entries gather of residuals of b for each of the block's bands of rows, 64 columns of each,
what they gather of residuals of a for each of the four bands of columns, all rows of the tile, and
the values of both, which `value_steps.py` lays as fragments.
"""

from autoq.templates.cuda.device.residual.value_steps import VALUE_STEPS

STAGES = (
    VALUE_STEPS
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
"""
)
"""Where parts of a stage lie, waits and arrivals, and read_heads(...), for a namespace with the
constants M, N, BLOCK_M, BLOCK_N, STAGES, STAGE_BYTES and RECEIVERS, blocks that share weights."""
