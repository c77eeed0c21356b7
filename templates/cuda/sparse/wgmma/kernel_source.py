"""CUDA source of products of long vectors: from the sums of a tile of y to its outputs; the kernel.

A block computes one tile of y, of one vector row, or one after another: what copies goes on to the
next tile while what multiplies finishes outputs.
"""

from __future__ import annotations

COLUMNS_SOURCE = r"""
__device__ __forceinline__ void multiply_columns(
    const Ring& ring, const VectorRow& row, Position& at, const Constants& from, OUT* y,
    unsigned char* smem, const RowTerms& terms, int order, int first_row, int first_column,
    int warp, int number) {
  int sums[TILES][TILE_SUMS];
  const Channels own = terms_of(from);
  #pragma unroll
  for (int i = 0; i < TILES; ++i)
    #pragma unroll
    for (int j = 0; j < TILE_SUMS; ++j) sums[i][j] = NIBBLES ? 0 : start_of(own);
  terms.fetch(from, order * VECTOR, 32 * warp + number);
  const unsigned lane_place = number * PITCH + warp * in_bytes(TILES * 16);
  multiply_stages(sums, ring, row, at, lane_place, number);
  #pragma unroll
  for (int i = 0; i < TILES; ++i)
    #pragma unroll
    for (int j = 0; j < TILE_SUMS; ++j) {
      asm volatile("" : "+r"(sums[i][j]) :: "memory");
      if constexpr (NIBBLES) sums[i][j] = (sums[i][j] >> 4) + start_of(own);
    }
  finish_tile(
      sums, own, from, y, terms, smem + STAGING_START + warp / 4 * STAGING_BYTES, first_row,
      first_column + warp * TILES * 16, warp, number, 1);
}

__device__ __forceinline__ void multiply_sparse(
    unsigned char* smem, const B* b, const int* values, const void* places, const int* starts,
    const int* lengths, const int* rows_of, const int* heads, const Constants& from, OUT* y,
    int block, int thread) {
  const int warp = thread / 32, number = thread % 32;
  const Ring ring = {(unsigned)__cvta_generic_to_shared(smem)};
  Places of_rows;
  const int halves = start_row(starts, lengths, block, number);
  if (warp >= CONSUMERS) of_rows.start_first(heads, block / PANELS, thread - 32 * CONSUMERS);
  if (thread == 0) open_ring(ring);
  if constexpr (CLUSTER > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  } else {
    __syncthreads();
  }
  int tile = block;
  if (warp >= CONSUMERS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(PRODUCER_REGISTERS));
    Position at = {0, 1};
    const int own = thread - 32 * CONSUMERS;
    const int* all_places = reinterpret_cast<const int*>(places);
    Values of_values = {nullptr, at, 0, VALUE_BYTES};
    Places of_next;
    VectorRow row = row_of(halves), next = row;
    of_rows.go_on(all_places, row, own);
    if constexpr (PERSISTENT) next = vector_row_of(starts, lengths, tile + BLOCKS);
    do {
      VectorRow later = next;
      if constexpr (PERSISTENT) {
        later = vector_row_of(starts, lengths, tile + 2 * BLOCKS);
        of_next.start(all_places, next, goes_back(tile + BLOCKS), own);
      }
      const bool back = goes_back(tile);
      const int first = row.stage + (back ? max(0, stages_of(row) - 1) : 0);
      of_values.step = back ? -VALUE_BYTES : VALUE_BYTES;
      of_values.next = reinterpret_cast<const unsigned char*>(values) +
          ((size_t)first * VALUE_BYTES + tile % CLUSTER * (VALUE_BYTES / CLUSTER));
      copy_stages(ring, b, of_values, of_rows, at, row.length, tile % PANELS * TILE,
                  tile % CLUSTER, own);
      row = next, next = later, of_rows = of_next;
    } while (PERSISTENT && (tile += BLOCKS) < ALL_TILES);
    if constexpr (CLUSTER > 1) {  // others still arrive here
      for (int i = 0; i < STAGES; ++i) {
        wait_for(ring.empty_in_all(at.stage), at.phase);
        at.advance();
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMER_REGISTERS));
    Position at = {0, 0};
    unsigned char* terms = smem + RING_BYTES + STAGES * BARRIER_BYTES;
    // Terms of two tiles: warps may still read those of one when others are at the next.
    unsigned char* next_terms = terms + PERSISTENT * TERM_BYTES;
    VectorRow row = row_of(halves), next = row;
    do {
      const int order = tile / PANELS, first_column = tile % PANELS * TILE;
      if constexpr (PERSISTENT) next = vector_row_of(starts, lengths, tile + BLOCKS);
      const RowTerms own = {reinterpret_cast<Total*>(terms)};
      multiply_columns(ring, row, at, from, y, smem, own, order, __ldg(rows_of + order),
                       first_column, warp, number);
      row = next;
      unsigned char* last = terms;
      terms = next_terms, next_terms = last;
    } while (PERSISTENT && (tile += BLOCKS) < ALL_TILES);
  }
}
"""
