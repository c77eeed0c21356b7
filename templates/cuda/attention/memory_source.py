"""CUDA source of attention's copies: rows of q, k and v to shared memory, rows of y from there."""

MEMORY = r"""
constexpr int ROW_BYTES = DEPTH * SIZE, DEPTH_STEPS = (ROW_BYTES + 31) / 32;
constexpr int PITCH = DEPTH_STEPS * 32 + 16, ROWS = WARPS * ROW_TILES * 16, THREADS = WARPS * 32;
constexpr int TILE_BYTES = TILE_KEYS * PITCH, TILES = (KEYS + TILE_KEYS - 1) / TILE_KEYS;

template <int LEFT> __device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ __forceinline__ void copy_piece(unsigned to, const void* from, bool inside) {
  const unsigned bytes = inside ? PIECE : 0;
  if constexpr (PIECE == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;"
                 :: "r"(to), "l"(from), "n"(PIECE), "r"(bytes) : "memory");
}
// COUNT rows from row `first` on of a matrix of MOST rows, `pitch` bytes apart; zeros beyond it.
template <int COUNT, int MOST> __device__ __forceinline__ void copy_rows(
    unsigned to, const unsigned char* from, int first, int pitch, int thread) {
  constexpr int PIECES = DEPTH_STEPS * 32 / PIECE, COPIES = COUNT * PIECES;
  #pragma unroll
  for (int start = 0; start < COPIES; start += THREADS) {
    const int index = start + thread, row = index / PIECES, byte = index % PIECES * PIECE;
    if (COPIES % THREADS == 0 || index < COPIES) {
      const bool inside = first + row < MOST && byte < ROW_BYTES;
      copy_piece(to + row * PITCH + byte, from + (inside ? (first + row) * pitch + byte : 0),
                 inside);
    }
  }
}

// Where a pair's matrix begins in an array of `rows` rows, in bytes.
__device__ __forceinline__ int matrix_start(int pair, int rows, int pitch) {
  return pitch == ROW_BYTES ? pair * rows * ROW_BYTES
                            : pair / HEADS * rows * pitch + pair % HEADS * ROW_BYTES;
}

// Rows of a warp, which lie in shared memory from `from` on, to rows `first` on of y.
__device__ __forceinline__ void store_rows(
    unsigned char* y, const unsigned char* from, int first, int lane) {
  constexpr int PIECES = ROW_BYTES / PIECE, STORES = ROW_TILES * 16 * PIECES;
  #pragma unroll
  for (int start = 0; start < STORES; start += 32) {
    const int index = start + lane, row = index / PIECES, byte = index % PIECES * PIECE;
    if ((STORES % 32 == 0 || index < STORES) && first + row < QUERIES) {
      const void* source = from + row * PITCH + byte;
      void* to = y + (first + row) * Y_PITCH + byte;
      if constexpr (PIECE == 16) *static_cast<uint4*>(to) = *static_cast<const uint4*>(source);
      else if constexpr (PIECE == 8)
        *static_cast<uint2*>(to) = *static_cast<const uint2*>(source);
      else *static_cast<unsigned*>(to) = *static_cast<const unsigned*>(source);
    }
  }
}
"""
"""copy_rows, store_rows: see their comments. Constants are those of `kernel.py`."""
