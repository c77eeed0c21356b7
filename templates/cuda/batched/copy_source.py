"""CUDA source of copies of x whose rows are no whole 16-byte units: through registers.

A unit of a tile is shifted out of the two aligned units of memory that hold it. All units of a
thread are asked for before the first of them is stored.
"""

COPIES = r"""
constexpr int X_ROW = K * SIZE, ROW_UNITS = LINE * STEPS / 16, UNITS = BLOCK_ROWS * ROW_UNITS;
constexpr int THREADS = 128 * WARPGROUPS, OWN_UNITS = (UNITS + THREADS - 1) / THREADS;

__device__ __forceinline__ uint4 aligned_unit(const unsigned char* x, int at) {
  return *reinterpret_cast<const uint4*>(x + at);
}
struct Unit {
  unsigned w[8];
  int at, left;  // its byte of x, and bytes of the row from there on

  __device__ __forceinline__ bool reaches_beyond() const {
    return (at & ~15) + (at % 16 + min(left, 16) > 16 ? 32 : 16) > X_BYTES;
  }
  __device__ __forceinline__ void find(int index, const Block& block) {
    const int row = block.first_row + index / ROW_UNITS, byte = index % ROW_UNITS * 16;
    left = row < M && index < UNITS ? X_ROW - byte : 0;
    at = block.pair / HEADS * X_BATCH + block.pair % HEADS * X_HEAD + row * X_PITCH + byte;
  }
  __device__ __forceinline__ void ask(const unsigned char* x) {
    uint4 first = make_uint4(0, 0, 0, 0), second = first;
    if (left > 0 && !reaches_beyond()) {
      first = aligned_unit(x, at & ~15);
      if (at % 16 + min(left, 16) > 16) second = aligned_unit(x, (at & ~15) + 16);
    }
    w[0] = first.x, w[1] = first.y, w[2] = first.z, w[3] = first.w;
    w[4] = second.x, w[5] = second.y, w[6] = second.z, w[7] = second.w;
  }
  // Of what the array ends in, byte by byte.
  __device__ __forceinline__ void read_bytes(const unsigned char* x) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[i] = 0;
      #pragma unroll 1
      for (int b = 0; b < 4; ++b)
        if (4 * i + b < left) w[i] |= (unsigned)x[at + 4 * i + b] << 8 * b;
    }
  }
  __device__ __forceinline__ void shift(const unsigned char* x) {
    #pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = at & 8 ? w[i + 2] : w[i];
    #pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = at & 4 ? w[i + 1] : w[i];
    #pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = __funnelshift_r(w[i], w[i + 1], 8 * (at & 3));
    if (left > 0 && reaches_beyond()) read_bytes(x);
    if (left < 16)
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int rest = left - 4 * i;
        w[i] = rest >= 4 ? w[i] : rest > 0 ? w[i] & ((1u << 8 * rest) - 1u) : 0u;
      }
  }
  __device__ __forceinline__ void put(const Block& block, int index) const {
    if (index >= UNITS) return;
    const int row = index / ROW_UNITS, byte = index % ROW_UNITS * 16;
    const unsigned to = block.x(byte / LINE, row / ROWS) +
                        swizzled<LINE>(row % ROWS * LINE + byte % LINE);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 :: "r"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
  }
};
__device__ __forceinline__ void copy_x(const Block& block, const void* array, int thread) {
  const unsigned char* x = static_cast<const unsigned char*>(array);
  #pragma unroll 1
  for (int first = 0; first < OWN_UNITS; first += AT_ONCE) {
    Unit units[AT_ONCE];
    #pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      units[i].find((first + i) * THREADS + thread, block);
      units[i].ask(x);
    }
    #pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      units[i].shift(x);
      units[i].put(block, (first + i) * THREADS + thread);
    }
  }
  fence_shared();
}
"""
"""Constants are those of `kernel.py`; X_BATCH, X_HEAD and X_PITCH count bytes."""
