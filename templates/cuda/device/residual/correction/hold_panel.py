"""CUDA source that brings a panel of residuals of a, all of k, to shared memory."""

HOLD_PANEL = r"""
constexpr int THREADS = 32 * WARPS;
constexpr int TILE_BYTES = K * COLUMNS;  // of residuals of b
constexpr size_t TURNED_BYTES = (size_t)(N + PIECE - 1) / PIECE * PIECE * K;
__device__ __forceinline__ void prefetch(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(from)));
}
// The panel's residuals, of which each k has ROWS that lie together. All that registers take is
// asked for at once. Neighbouring lanes store words in another order, and so meet other banks.
__device__ __forceinline__ void hold_words(
    const unsigned (&rows)[ROWS], unsigned char* panel, int w) {
  unsigned turned[4][ROWS / 4];
  #pragma unroll
  for (int g = 0; g < ROWS / 4; ++g) {
    const unsigned four[4] = {rows[4 * g], rows[4 * g + 1], rows[4 * g + 2], rows[4 * g + 3]};
    unsigned found[4];
    turn_four(four, found);
    #pragma unroll
    for (int j = 0; j < 4; ++j) turned[j][g] = found[j];
  }
  const int other = w / (32 / ROWS) % 4;
  #pragma unroll
  for (int j = 0; j < 4; ++j) {
    unsigned chosen[ROWS / 4];
    #pragma unroll
    for (int g = 0; g < ROWS / 4; ++g) {
      const unsigned low = other & 1 ? turned[j ^ 1][g] : turned[j][g];
      const unsigned high = other & 1 ? turned[j ^ 3][g] : turned[j ^ 2][g];
      chosen[g] = other & 2 ? high : low;
    }
    unsigned char* to = panel + (4 * w + (j ^ other)) * ROWS;
    if constexpr (ROWS == 16)
      *reinterpret_cast<uint4*>(to) = make_uint4(chosen[0], chosen[1], chosen[2], chosen[3]);
    else
      *reinterpret_cast<uint2*>(to) = make_uint2(chosen[0], chosen[1]);
  }
}
__device__ __forceinline__ void hold_panel(
    const unsigned* residuals, unsigned char* panel, int top, int thread) {
  constexpr int BATCH = 64 / ROWS;
  for (int start = thread; start < WORDS_OF_ROW; start += BATCH * THREADS) {
    unsigned rows[BATCH][ROWS];
    #pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int w = min(start + i * THREADS, WORDS_OF_ROW - 1);
      #pragma unroll
      for (int r = 0; r < ROWS; ++r)
        rows[i][r] = __ldg(residuals + (size_t)min(top + r, M - 1) * WORDS_OF_ROW + w);
    }
    #pragma unroll
    for (int i = 0; i < BATCH; ++i)
      if (start + i * THREADS < WORDS_OF_ROW) hold_words(rows[i], panel, start + i * THREADS);
  }
}
// The panel of a block: the last ones come first where the L2 still holds their sums.
__device__ __forceinline__ int panel_of(int block) {
  return LAST_FIRST ? PANELS - 1 - block % PANELS : block % PANELS;
}
// Of the tile of b's residuals that a warp of each block will gather from, this block's part, on
// its way to the L2: memory gives whole lines faster than pieces that entries ask for.
__device__ __forceinline__ void prefetch_tile(
    const unsigned char* residuals, int left, int part, int lane) {
  constexpr int LINES = TILE_BYTES / 128, SHARE = (LINES + AHEAD - 1) / AHEAD;
  #pragma unroll
  for (int i = 0; i < SHARE; i += 32) {
    const int line = part * SHARE + i + lane;
    const size_t at = (size_t)left * K + line * 128;
    if (i + lane < SHARE && line < LINES && at < TURNED_BYTES) prefetch(residuals + at);
  }
}
// What the block that will follow this one holds, on its way to the L2.
__device__ __forceinline__ void prefetch_panel(const unsigned* residuals, int block, int thread) {
  const int top = panel_of(block) * ROWS;
  for (int at = 32 * thread; at < ROWS * WORDS_OF_ROW; at += 32 * THREADS) {
    const size_t word = (size_t)top * WORDS_OF_ROW + at;
    if (word < (size_t)M * WORDS_OF_ROW) prefetch(residuals + word);
  }
}
"""
"""hold_panel(...), in which the ROWS of a k lie together, and prefetch_panel(...) of a later block.
For a namespace with `TURN_WORDS` and the constants ROWS, WARPS, PANELS, M, WORDS_OF_ROW and
LAST_FIRST: whether blocks take panels from the last one to the first; prefetch_tile(...) needs
COLUMNS, of a tile, and AHEAD, blocks that run together, besides."""
