"""CUDA source of what a warp does with a step of a list of a band: 32 entries and what they gather.

A step is multiplied by one instruction whose 32 products along k are its entries. Bytes that are
gathered have 16 neighbours each, in which ldmatrix turns pairs; what it gives a lane are an even
and an odd one of the 16, so that accumulators have even and odd columns, and even and odd rows.
"""

from autoq.templates.cuda.device.memory.matrix_source import READ_MATRICES
from autoq.templates.cuda.device.residual.bands import BAND, NOWHERE, STEP_BYTES

COLUMNS = 64
"""Columns of a warp's tile: what is gathered of an entry for a side of rows is a piece of 64
bytes."""

_HELD_STEPS = 8
"""Steps of a band of columns that are asked for while the one before is multiplied."""
_OWN_STEPS = 8
"""Steps of the band of rows, which all warps read for every tile: they pass the first cache."""
OWN_BYTES = _OWN_STEPS * STEP_BYTES
_CHUNK = 32 * COLUMNS
WARP_BYTES = 2 * (_CHUNK + _HELD_STEPS * STEP_BYTES)
"""Shared memory of a warp: twice the pieces of a step, twice the steps of a band."""

BAND_STEPS = (
    f"constexpr int BAND = {BAND}, STEP_BYTES = {STEP_BYTES}, COLUMNS = {COLUMNS};\n"
    f"constexpr int HELD_STEPS = {_HELD_STEPS}, CHUNK = {_CHUNK}, WARP_BYTES = {WARP_BYTES};\n"
    f"constexpr unsigned NOWHERE = {NOWHERE};\nconstexpr int OWN_BYTES = {OWN_BYTES};\n"
    + READ_MATRICES
    + r"""
__device__ __forceinline__ unsigned shared_address(const void* at) {
  return (unsigned)__cvta_generic_to_shared(at);
}
__device__ __forceinline__ void leave_group() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
template <int LEFT> __device__ __forceinline__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
}
__device__ __forceinline__ void ask_for(unsigned to, unsigned long long from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
}
// As many steps of a list as are held.
__device__ __forceinline__ void ask_for_steps(
    unsigned held, unsigned long long steps, int first, int count, int lane) {
  const unsigned long long from = steps + (unsigned)(first * STEP_BYTES + lane * 16);
  const int end = (min(count, HELD_STEPS) * STEP_BYTES - lane * 16);
  #pragma unroll
  for (int i = 0; i < HELD_STEPS * STEP_BYTES; i += 512)
    if (i < end) ask_for(held + lane * 16 + i, from + i);
}
// The band of rows: so many bytes of its steps are in shared memory.
struct OwnBand { const unsigned char *held, *steps; };
__device__ __forceinline__ uint2 read_pair(const OwnBand& band, int at) {
  if (at < OWN_BYTES) return *reinterpret_cast<const uint2*>(band.held + at);
  return __ldg(reinterpret_cast<const uint2*>(band.steps + at));
}
// What a step of a's entries gathers of a tile's columns: four lanes have a four, 16 columns each.
// Neither of eight entries that ldmatrix reads together nor of those that are written together two
// meet in a bank, for which odd fours begin with their second entry. Nothing is asked for that is
// multiplied with zero, since whatever lies in its place is an integer.
__device__ __forceinline__ void ask_for_rows(
    unsigned chunk, unsigned long long from, const OwnBand& band, int step, int lane) {
  const int four = lane / 4, odd = four % 2;
  const uint2 k = read_pair(band, step * STEP_BYTES + four * 16);
  unsigned to = chunk + (four / 4 * 16 + four % 4 * 2) * COLUMNS + (lane % 4 ^ four % 4) * 16;
  asm volatile("" : "+r"(to));  // once, not for each of the four
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned index = __byte_perm(i < 2 ? k.x : k.y, 0, i % 2 == odd ? 0x4410 : 0x4432);
    unsigned long long at;
    asm volatile("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(index), "n"(PIECE), "l"(from));
    if (index != NOWHERE) ask_for(to + (i / 2 * 8 + (i % 2 ^ odd)) * COLUMNS, at);
  }
}
__device__ __forceinline__ void multiply(
    int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Four entries that a lane reads of one of 16 neighbours, even or odd.
struct Words { unsigned even[2], odd[2]; };
__device__ __forceinline__ Words words_of(const unsigned (&w)[4]) {
  return {{__byte_perm(w[0], w[1], 0x6420), __byte_perm(w[2], w[3], 0x6420)},
          {__byte_perm(w[0], w[1], 0x7531), __byte_perm(w[2], w[3], 0x7531)}};
}
// All bits of each byte that is 0 of those from 0 to 127.
__device__ __forceinline__ unsigned where_zero(unsigned bytes) {
  unsigned mask;  // signs of bytes
  asm("prmt.b32 %0, %1, %1, 0xba98;" : "=r"(mask) : "r"(0x80808080u - bytes));
  return mask;
}
// The values of two fours, zeros for those that do not belong to the lane's vectors.
__device__ __forceinline__ Words values_of(uint2 first, uint2 second, int lane) {
  const unsigned even = lane / 4 * 0x02020202u, odd = even + 0x01010101u;
  return {{first.x & where_zero(first.y ^ even), second.x & where_zero(second.y ^ even)},
          {first.x & where_zero(first.y ^ odd), second.x & where_zero(second.y ^ odd)}};
}
// A step of a band of columns: what it gathers lies in the panel, 16 rows of each k together.
__device__ __forceinline__ void add_columns(
    int (&even)[4], int (&odd)[4], unsigned panel, const unsigned char* step, int lane) {
  const int entry = (lane / 16 * 4 + lane % 8 / 2) * 16 + (lane / 8 % 2 * 2 + lane % 2) * 2;
  const unsigned k = *reinterpret_cast<const unsigned short*>(step + entry);
  const uint2* four = reinterpret_cast<const uint2*>(step + lane % 4 * 16 + 8);
  unsigned turned[4];
  read_matrices<true>(turned, panel + k * BAND);
  const Words a = words_of(turned), b = values_of(four[0], four[8], lane);
  multiply(even, a.even[0], a.odd[0], a.even[1], a.odd[1], b.even[0], b.even[1]);
  multiply(odd, a.even[0], a.odd[0], a.even[1], a.odd[1], b.odd[0], b.odd[1]);
}
// A step of the band of rows, of all columns of a tile.
__device__ __forceinline__ void add_rows(
    int (&added)[4][2][4], unsigned chunk, const OwnBand& band, int step, int lane) {
  const int four = step * STEP_BYTES + lane % 4 * 16 + 8;
  const Words a = values_of(read_pair(band, four), read_pair(band, four + 64), lane);
  #pragma unroll
  for (int c = 0; c < COLUMNS / BAND; ++c) {
    unsigned turned[4];
    read_matrices<true>(turned, chunk + lane * COLUMNS + (c ^ lane / 2 % 4) * 16);
    const Words b = words_of(turned);
    multiply(added[c][0], a.even[0], a.odd[0], a.even[1], a.odd[1], b.even[0], b.even[1]);
    multiply(added[c][1], a.even[0], a.odd[0], a.even[1], a.odd[1], b.odd[0], b.odd[1]);
  }
}
"""
)
"""add_columns and add_rows, sums of which are [columns / 16][even or odd][4], and what asks for
their operands; for a namespace with the constant PIECE."""
