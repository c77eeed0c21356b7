"""CUDA source of the threads that load: one for boxes of x, one for the weights of each side."""

from __future__ import annotations

LOAD = r"""
constexpr int X_STAGE = X_STAGE_BYTES, W_STAGE = W_STAGE_BYTES, TEAMS = CONSUMERS / TEAM;
// Where the ring of x is.
struct XPlace {
  int stage = 0, phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == X_STAGES) stage = 0, phase ^= 1;
  }
};

// The place so many stages further on, in a ring of COUNT.
template <int COUNT, class Place> __device__ __forceinline__ void skip(Place& place, int stages) {
  const int at = place.stage + stages;
  place.stage = at % COUNT, place.phase ^= at / COUNT & 1;
}

// All of k of the rows of each piece of work.
__device__ __forceinline__ void load_x(const Ring& ring, unsigned long long x_map, int block) {
  XPlace place;
  for (int turn = 0; turn * CLUSTERS < ITEMS; ++turn) {
    const int item = item_of(turn, block);
    if (item < 0) break;
    const int row = first_row_of(item, block);
    BEGIN_BOXES
    for (int s = 0; s < K_STAGES; ++s, place.next()) {
      const unsigned full = ring.full + 8 * place.stage;
      barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
      barrier_expect(full, X_ARRIVES);
      LOAD_BOX
    }
  }
}

__device__ __forceinline__ void load_weights(
    const Ring& ring, const unsigned char* values, const int4* tiles, int block, int side) {
  Place place;
  for (int turn = 0; turn * CLUSTERS < ITEMS; ++turn) {
    const int item = item_of(turn, block);
    if (item < 0) break;
    const int4 tile = __ldg(tiles + item / ROW_GROUPS * SIDES + side);
    for (int s = 0; s < tile.y; ++s, place.next()) {
      const unsigned full = ring.full + 8 * place.stage;
      const unsigned to = ring.stages + place.stage * W_STAGE;
      barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
      barrier_expect(full, W_STAGE);
      constexpr int SHARE = W_STAGE / CLUSTER;
      const int own = block % CLUSTER * SHARE;
      const unsigned char* from = values + (long long)(tile.x + s) * W_BYTES + own;
      if constexpr (CLUSTER == 1) bulk_copy(to, from, SHARE, full);
      else copy_to_all(to + own, from, SHARE, full);
    }
  }
  if constexpr (CLUSTER > 1) {  // others still arrive here
    for (int i = 0; i < STAGES; ++i, place.next())
      barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
  }
}
"""
"""load_x(ring, x_map, block) and load_weights(ring, values, tiles, block, side) of one thread.

BEGIN_BOXES and LOAD_BOX stand for those of `ROWS_BOX`, `PIXELS_BOX` or `BORDERED_BOX`."""

ROWS_BOX = (
    "",
    """asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3}], [%4];"
          : : "r"(ring.stages + place.stage * X_STAGE), "l"(x_map), "r"(s * (ROW_BYTES / SIZE)),
              "r"(row), "r"(full) : "memory");""",
)
"""Rows of a matrix."""

PIXELS_BOX = (
    """const int x_at = row % IMAGE_Q * STRIDE_W - LEFT;
    const int y_at = row / IMAGE_Q % IMAGE_P * STRIDE_H - TOP;
    const int image = row / (IMAGE_P * IMAGE_Q);""",
    """const int tap = s / STAGES_OF_TAP;
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
          : : "r"(ring.stages + place.stage * X_STAGE), "l"(x_map),
              "r"(s % STAGES_OF_TAP * (ROW_BYTES / SIZE)), "r"(x_at), "r"(y_at), "r"(image),
              "r"(full), "h"((unsigned short)(tap % FILTER_S * DILATION_W)),
              "h"((unsigned short)(tap / FILTER_S * DILATION_H)) : "memory");""",
)
"""What a tap of a filter sees for consecutive pixels of y."""

BORDERED_BOX = (
    """const int tile = row / ROWS % (ACROSS * DOWN), image = row / ROWS / (ACROSS * DOWN);
    const int x_at = tile % ACROSS * TILE_W - LEFT;
    const int y_at = tile / ACROSS * (ROWS / TILE_W) - TOP;""",
    """#pragma unroll 1
      for (int panel = 0; panel < PANELS; ++panel)
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%2, %3, %4, %5}], [%6];"
            : : "r"(ring.stages + place.stage * X_STAGE + panel * PANEL_BYTES), "l"(x_map),
                "r"(panel * (ROW_BYTES / SIZE)), "r"(x_at), "r"(y_at), "r"(image), "r"(full)
            : "memory");""",
)
"""A tile of an image with its border, in panels of channels."""

BORDERED_ROWS = r"""
// 16 neighbouring pixels of y, and how many of them there are.
struct Rows { int first, count; };
__device__ __forceinline__ Rows rows_of(int first_row, int own_row) {
  const int tile = first_row / ROWS % (ACROSS * DOWN), image = first_row / ROWS / (ACROSS * DOWN);
  const int at = tile % ACROSS * TILE_W;
  const int down = tile / ACROSS * (ROWS / TILE_W) + own_row / TILE_W;
  const bool there = down < IMAGE_P && image < IMAGES;
  return {(image * IMAGE_P + down) * IMAGE_Q + at, there ? min(16, IMAGE_Q - at) : 0};
}
"""
"""What `help_source.ROWS_OF` has, of tiles of images."""
