"""CUDA source of products whose left factor is put together of the words of x that a tile picks."""

from __future__ import annotations

TWO_WORDS = r"""
__device__ __forceinline__ unsigned word_at(unsigned at) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}
// Words of two rows, eight apart, that are not read where no lane picks anything of them.
__device__ __forceinline__ void words_at_if(
    unsigned pick, unsigned at, unsigned& one, unsigned& other) {
  one = other = 0;
  asm volatile("{ .reg .pred p; setp.ge.s32 p, %2, 0; @p ld.shared.u32 %0, [%3];"
               " @p ld.shared.u32 %1, [%4]; }" : "+r"(one), "+r"(other)
               : "r"(pick), "r"(at), "r"(at + 8 * ROW_BYTES) : "memory");
}
// What a lane reads for a register of each row: two words of swizzled rows.
struct Words {
  unsigned first[2 * BLOCKS_M], second[2 * BLOCKS_M], selector;
  __device__ __forceinline__ void read(unsigned how, unsigned one, unsigned other) {
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i) {
      const int at = i / 2 * BLOCK_BYTES + i % 2 * (8 * ROW_BYTES);
      first[i] = word_at(one + at);
      if (i % 2 == 0) words_at_if(how, other + at, second[i], second[i + 1]);
    }
    selector = how;
  }
  __device__ __forceinline__ unsigned of(int i) const {
    return __byte_perm(first[i], second[i], selector);
  }
};
"""
"""Words, behind whose rows the next ones of a lane come after BLOCK_BYTES."""

PICK = (
    TWO_WORDS
    + r"""PLACES
// A consumer over the stages of a tile. Words of x are read one step ahead, and a stage begins
// while the last step of the one before is still to be multiplied.
struct Picker {
  const Rings& rings;
  Place& place;
  Window& window;
  int lane;
  Lane place_of;
  unsigned more;
  unsigned long long descriptor;  // of the newest stage's weights
  Picks picks[DEPTH], upcoming[DEPTH];
  Words near[2], far[2];
  unsigned a[2][BLOCKS_M][4];  // of the products under way and of the next ones

  __device__ __forceinline__ void read_picks(const unsigned char* from) {
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step)
      upcoming[step] = __ldg(reinterpret_cast<const Picks*>(from) + step * 4 + lane % 4);
    more = __shfl_sync(0xffffffff, upcoming[0].x >> 28 & 7, 0);
  }
  // The weights of a stage and what it reads of x are there. Nothing else has branches: behind one
  // ptxas puts products one behind the other.
  __device__ __forceinline__ void begin() {
    descriptor = weights_at(rings.weights.stages + place.stage * W_STAGE);
    barrier_wait(rings.weights.full + 8 * place.stage, place.phase);
    #pragma unroll 1
    for (int n = more; n > 0; --n) window.advance(rings.x, lane);
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step) picks[step] = upcoming[step];
  }
  __device__ __forceinline__ void read(int step) {
    place_of.read(near[step % 2], far[step % 2], picks[step], window);
  }
  __device__ __forceinline__ void put_together(int step) {
    unsigned (&f)[BLOCKS_M][4] = a[step % 2];
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i)
      f[i / 2][i % 2] = near[step % 2].of(i), f[i / 2][2 + i % 2] = far[step % 2].of(i);
    // All are ready in front of the fence, or the compiler lets products wait for each other.
    #pragma unroll
    for (int b = 0; b < BLOCKS_M; ++b) {
      #pragma unroll
      for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(f[b][e]) : : "memory");
    }
  }
  __device__ __forceinline__ void multiply(
      SUM (&sums)[ALL], int step, unsigned long long weights, int accumulate) {
    unsigned (&f)[BLOCKS_M][4] = a[step % 2];
    begin_products();
    #pragma unroll
    for (int b = 0; b < BLOCKS_M; ++b)
      product(sums + b * (WIDTH / 2), f[b][0], f[b][1], f[b][2], f[b][3],
              weights + step * 2 * WIDTH, accumulate);
    end_products();
  }
};
// The sums of one tile's columns, of BLOCKS_M times 64 rows of a consumer.
__device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL], const Rings& rings, Place& place, Window& window, const unsigned char* values,
    int stages, int own_row, int lane) {
  Picker own = {rings, place, window, lane, Lane(own_row, lane)};
  const unsigned char* picks = values + PICKS_AT;
  own.read_picks(picks);
  own.begin();
  own.read(0);
  #pragma unroll
  for (int step = 0; step + 1 < DEPTH; ++step) {
    own.read(step + 1);
    await_products();
    own.put_together(step);
    own.multiply(sums, step, own.descriptor, step > 0);
  }
  own.read_picks(picks + (stages > 1 ? W_BYTES : 0));
  #pragma unroll 1
  for (int s = 1; s < stages; ++s) {
    const unsigned long long before = own.descriptor;
    place.next();
    own.begin();
    own.read_picks(picks + (s + 1 < stages ? s + 1 : s) * W_BYTES);
    own.read(0);
    await_products();
    if (s > 1) leave_weights(rings.weights, place, 2, lane);
    own.put_together(DEPTH - 1);
    own.multiply(sums, DEPTH - 1, before, 1);
    #pragma unroll
    for (int step = 0; step + 1 < DEPTH; ++step) {
      own.read(step + 1);
      await_products();
      own.put_together(step);
      own.multiply(sums, step, own.descriptor, 1);
    }
  }
  await_products();
  own.put_together(DEPTH - 1);
  own.multiply(sums, DEPTH - 1, own.descriptor, 1);
  place.next();
  window.end(rings.x, lane);
  hand_over(rings, lane);
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  #pragma unroll
  for (int i = 0; i < ALL; ++i) hold(sums[i]);
  if (stages > 1) leave_weights(rings.weights, place, 2, lane);
  leave_weights(rings.weights, place, 1, lane);
}
"""
)
"""Registers of the left factor are put together of words that `picks.Picks` names.

PLACES stands for `NEAR` or `BORDERED`, and BLOCK_BYTES for the way to the next 64 rows."""

NEAR = r"""
using Picks = uint2;
// Where the words of a lane's rows are: in the newest two stages.
struct Lane {
  unsigned row_at, swizzle;
  __device__ __forceinline__ Lane(int own_row, int lane) {
    // Units of 16 bytes change places by the number of the line of 128 bytes that they are in.
    row_at = (own_row + lane / 4) * ROW_BYTES, swizzle = lane / 4 * ROW_BYTES / 128 << 4;
  }
  __device__ __forceinline__ void read_one(
      Words& to, unsigned pick, const Window& window) const {
    const unsigned one =
        (pick >> 14 & 0x7c ^ swizzle) + row_at + (pick >> 21 & 1 ? window.odd : window.even);
    const unsigned other =
        (pick >> 20 & 0x7c ^ swizzle) + row_at + (pick >> 27 & 1 ? window.odd : window.even);
    to.read(pick, one, other);
  }
  __device__ __forceinline__ void read(
      Words& near, Words& far, const Picks& picks, const Window& window) const {
    read_one(near, picks.x, window), read_one(far, picks.y, window);
  }
};
"""
"""Rows of stages, of which the newest two are there."""

BORDERED = r"""
using Picks = uint4;
// Where the words of a lane's pixels are: some pixels on, in panels of ROW_BYTES of their channels.
struct Lane {
  unsigned pixel;
  __device__ __forceinline__ Lane(int own_row, int lane) {
    pixel = own_row / TILE_W * TILE_PITCH + lane / 4;
  }
  __device__ __forceinline__ unsigned at(unsigned place, unsigned tile) const {
    const unsigned on = pixel + (place & 0xff), byte = (place >> 8 & 0xff) * 4;
    const unsigned swizzle = on * ROW_BYTES / 128 * 16 & ROW_BYTES - 16;
    return tile + byte / ROW_BYTES * PANEL_BYTES + on * ROW_BYTES +
        (byte % ROW_BYTES ^ swizzle);
  }
  __device__ __forceinline__ void read(
      Words& near, Words& far, const Picks& picks, const Window& window) const {
    near.read(picks.x, at(picks.y, window.even), at(picks.y >> 16, window.even));
    far.read(picks.z, at(picks.w, window.even), at(picks.w >> 16, window.even));
  }
};
"""
"""Pixels of a tile of an image with its border, which is one stage."""
