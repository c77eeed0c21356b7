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
// A piece of a row, or zeros where it is not inside.
template <bool ALWAYS> __device__ __forceinline__ void copy_piece(
    unsigned to, const void* from, bool inside) {
  const unsigned bytes = inside ? PIECE : 0;
  if constexpr (PIECE == 16 && ALWAYS)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                 :: "r"(to), "l"(from) : "memory");
  else if constexpr (PIECE == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;"
                 :: "r"(to), "l"(from), "n"(PIECE), "r"(bytes) : "memory");
}
// COUNT rows from row `first` on of a matrix of MOST rows, PITCH_OF bytes apart; zeros beyond it.
// A thread keeps its piece of a row where it can, so that its copies differ by constants.
template <int COUNT, int MOST, int PITCH_OF> __device__ __forceinline__ void copy_rows(
    unsigned to, const unsigned char* from, int first, int thread) {
  constexpr int PIECES = DEPTH_STEPS * 32 / PIECE, COPIES = COUNT * PIECES;
  if constexpr (THREADS % PIECES == 0 && COPIES % THREADS == 0) {
    constexpr int APART = THREADS / PIECES, ROUNDS_OF = COUNT / APART;
    const int row = (unsigned)thread / PIECES, byte = (unsigned)thread % PIECES * PIECE;
    constexpr bool WHOLE_ROWS = ROW_BYTES == DEPTH_STEPS * 32;
    const bool held = WHOLE_ROWS || byte < ROW_BYTES;
    const unsigned char* source = from + (held ? (first + row) * PITCH_OF + byte : 0);
    to += row * PITCH + byte;
    if (MOST % COUNT == 0 || first + COUNT <= MOST) {
      #pragma unroll
      for (int i = 0; i < ROUNDS_OF; ++i)
        copy_piece<WHOLE_ROWS>(to + i * APART * PITCH, source + i * APART * PITCH_OF, held);
    } else {
      #pragma unroll
      for (int i = 0; i < ROUNDS_OF; ++i) {
        const bool inside = held && first + row + i * APART < MOST;
        copy_piece<false>(to + i * APART * PITCH, inside ? source + i * APART * PITCH_OF : from,
                          inside);
      }
    }
  } else {
    #pragma unroll 2  // or addresses of all of them fill registers
    for (int start = 0; start < COPIES; start += THREADS) {
      const int index = start + thread, row = index / PIECES, byte = index % PIECES * PIECE;
      if (COPIES % THREADS == 0 || index < COPIES) {
        const bool inside = first + row < MOST && byte < ROW_BYTES;
        copy_piece<false>(to + row * PITCH + byte,
                          from + (inside ? (first + row) * PITCH_OF + byte : 0), inside);
      }
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
