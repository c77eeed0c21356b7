"""CUDA source of a batched product of bytes with x from registers and other turned.

Rows of x come in one bulk copy, as they lie in memory, and threads shift wgmma's A out of the words
around it. other, [k, n], comes by cp.async; ldmatrix.trans and byte permutes make words of four
k of it, which stmatrix puts down as wgmma's B. Values of k and columns lie in orders in which a
thread's two words of k are neighbours, and so are its columns of y.
"""

ROWS_PRODUCT = r"""
constexpr int WARPS = 4 * ROW_GROUPS, THREADS = 32 * WARPS;
constexpr int GROUPS = N / 16, OWN = 4 * GROUPS;  // of a row of y, a thread's columns
constexpr int EIGHT_ROWS = 8 * N + OTHER_GAP, TURNED_TILE = N / 8 * TURNED_GROUP;
constexpr int OTHER_BYTES = 4 * TILES_K * EIGHT_ROWS, TURNED_BYTES = TILES_K * TURNED_TILE;
// Warps that turn different columns, where their number allows it.
constexpr int SHARES = GROUPS % 4 == 0 ? 4 : GROUPS % 2 == 0 ? 2 : 1;

// Neighbouring tiles of 64 rows, one for each warpgroup, which lie in one pair or several.
struct Block {
  unsigned smem;
  int first, last, byte, skew;  // tiles, and the byte of x where the first one begins

  __device__ __forceinline__ Block(const void* shared, int block) {
    smem = shared_address(shared);
    first = block * ROW_GROUPS, last = first + ROW_GROUPS - 1;
    if constexpr (TILES % ROW_GROUPS != 0) last = min(last, TILES - 1);
    byte = row_of(first) * K, skew = byte % 16;
  }
  static __device__ __forceinline__ int pair_of(int tile) { return tile / TILES_M; }
  static __device__ __forceinline__ int first_row(int tile) { return tile % TILES_M * 64; }
  static __device__ __forceinline__ int rows(int tile) { return min(64, M - first_row(tile)); }
  // Of all pairs' rows.
  static __device__ __forceinline__ int row_of(int tile) {
    return pair_of(tile) * M + first_row(tile);
  }
  __device__ __forceinline__ int slot_of(int tile) const {
    return SLOTS == 1 ? 0 : pair_of(tile) - pair_of(first);
  }
  __device__ __forceinline__ int pairs() const { return SLOTS == 1 ? 1 : slot_of(last) + 1; }
  __device__ __forceinline__ unsigned other(int k, int column) const {
    return smem + k * N + k / 8 * OTHER_GAP + column;
  }
  __device__ __forceinline__ unsigned turned(int slot) const {
    return smem + TURNED_AT + slot * TURNED_BYTES;
  }
  __device__ __forceinline__ unsigned sum(int slot, int column) const {
    return smem + SUMS_AT + 4 * (slot * N + column);
  }
};

// A tile without swizzling: `along_k` and `across` bytes lie between its 8 x 16-byte matrices.
__device__ __forceinline__ unsigned long long plain_descriptor(
    unsigned address, unsigned along_k, unsigned across) {
  return (unsigned long long)(across >> 4) << 32 | (unsigned long long)(along_k >> 4) << 16 |
         (address & 0x3ffff) >> 4;
}
__device__ __forceinline__ void load_rows(const Block& block, const unsigned char* x) {
  const unsigned barrier = block.smem + BARRIER_AT;
  const int rows = Block::row_of(block.last) + Block::rows(block.last) - Block::row_of(block.first);
  const unsigned bytes = (block.skew + rows * K + 15) / 16 * 16;
  expect_bytes(barrier, bytes);
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], %2, [%3];"
               :: "r"(block.smem + X_AT), "l"(x + block.byte - block.skew), "r"(bytes),
                  "r"(barrier) : "memory");
}
__device__ __forceinline__ void load_unit(unsigned to, const unsigned char* from, bool inside) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               :: "r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
// Rows beyond the reduction are zeros.
__device__ __forceinline__ void load_other(
    const Block& block, const unsigned char* other, int slot, int thread) {
  const int pair = Block::pair_of(block.first) + slot;
  const unsigned char* matrix = other + pair / HEADS * OTHER_BATCH + pair % HEADS * OTHER_HEAD;
  const unsigned place = slot * OTHER_BYTES;
  constexpr int UNITS = 32 * TILES_K * GROUPS;
  // Whole eights of rows at a time: places are those of the first one and constants.
  constexpr bool EIGHTS = THREADS % (8 * GROUPS) == 0;
  constexpr int ROWS_AT_ONCE = THREADS / GROUPS, APART = ROWS_AT_ONCE / 8 * EIGHT_ROWS;
  const int first_row = thread / GROUPS;
  const unsigned char* from = matrix + first_row * OTHER_PITCH + thread % GROUPS * 16;
  const unsigned to = place + block.other(first_row, thread % GROUPS * 16);
  #pragma unroll
  for (int i = 0; i < (UNITS + THREADS - 1) / THREADS; ++i) {
    if constexpr (EIGHTS) {
      const int row = first_row + i * ROWS_AT_ONCE;
      const bool inside = (i + 1) * ROWS_AT_ONCE <= K || row < K;
      if ((i + 1) * THREADS <= UNITS || i * THREADS + thread < UNITS)
        load_unit(to + i * APART, inside ? from + i * ROWS_AT_ONCE * OTHER_PITCH : matrix, inside);
    } else {
      const int unit = i * THREADS + thread, row = unit / GROUPS, column = unit % GROUPS * 16;
      if (unit < UNITS)
        load_unit(place + block.other(row, column),
                  matrix + min(row, K - 1) * OTHER_PITCH + column, row < K);
    }
  }
}
template <bool IS_SIGNED> __device__ __forceinline__ int add_bytes(unsigned word, int sum) {
  if constexpr (IS_SIGNED) return __dp4a((int)word, 0x01010101, sum);
  else return (int)__dp4a(word, 0x01010101u, (unsigned)sum);
}
// By warps: 16 columns at a time, of some tiles of k, and -x_zero times their sums.
__device__ __forceinline__ void turn_other(
    const Block& block, int slot, int warp, int lane, int x_zero) {
  const int row = lane % 8, matrix = lane / 8, half = matrix / 2, odd = matrix % 2;
  const int k = row / 2 * 8 + row % 2 + 2 * matrix;
  const int share = WARPS > SHARES ? warp / SHARES : 0;
  #pragma unroll 1
  for (int group = warp % SHARES; group < GROUPS; group += SHARES) {
    const int column = 16 * group + 2 * row + odd;  // that the lane's row of stmatrix holds
    const int tile = column % OWN / 2, place = column / OWN * 2 + odd;
    unsigned from = slot * OTHER_BYTES + block.other(k, 16 * group) + share * (4 * EIGHT_ROWS);
    unsigned to = block.turned(slot) + share * TURNED_TILE + tile * TURNED_GROUP + half * 128 +
                  place * 16;
    int sums[2] = {0, 0};
    #pragma unroll
    for (int t = 0; t < TILES_K; t += WARPS / SHARES) {
      if (t + share < TILES_K) {
        unsigned w[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(from) : "memory");
        const unsigned turned[4] = {
            __byte_perm(w[0], w[1], 0x6420), __byte_perm(w[0], w[1], 0x7531),
            __byte_perm(w[2], w[3], 0x6420), __byte_perm(w[2], w[3], 0x7531)};
        #pragma unroll
        for (int i = 0; i < 4; ++i) sums[i % 2] = add_bytes<SIGNED<OTHER>>(turned[i], sums[i % 2]);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(to), "r"(turned[0]), "r"(turned[1]), "r"(turned[2]), "r"(turned[3])
                     : "memory");
      }
      from += WARPS / SHARES * (4 * EIGHT_ROWS), to += WARPS / SHARES * TURNED_TILE;
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 1);
      sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 2);
      if (lane % 4 == 0)
        asm volatile("red.shared.add.s32 [%0], %1;"
                     :: "r"(block.sum(slot, 16 * group + lane / 4 * 2 + i)), "r"(-x_zero * sums[i])
                     : "memory");
    }
  }
}
using Fragments = unsigned[TILES_K][4];

__device__ __forceinline__ unsigned first_bytes(unsigned word, int count) {
  return count >= 4 ? word : count > 0 ? word & ((1u << 8 * count) - 1u) : 0u;
}
// `first`: the byte of shared memory where the upper one of a thread's two rows begins.
__device__ __forceinline__ void read_rows(
    Fragments& a, const unsigned char* shared, int first, int lane) {
  #pragma unroll
  for (int lower = 0; lower < 2; ++lower) {
    const int at = first + 8 * lower * K + lane % 4 * 8;
    const unsigned* words = reinterpret_cast<const unsigned*>(shared + at / 4 * 4);
    const int shift = at % 4 * 8;
    #pragma unroll
    for (int t = 0; t < TILES_K; ++t) {
      const unsigned w[3] = {words[8 * t], words[8 * t + 1], words[8 * t + 2]};
      a[t][lower] = __funnelshift_r(w[0], w[1], shift);
      a[t][2 + lower] = __funnelshift_r(w[1], w[2], shift);
      if (t == TILES_K - 1 && K % 32 != 0) {
        const int left = K - 32 * t - lane % 4 * 8;
        a[t][lower] = first_bytes(a[t][lower], left);
        a[t][2 + lower] = first_bytes(a[t][2 + lower], left - 4);
      }
    }
  }
}
template <int FORM> __device__ __forceinline__ void store_rows(
    const Values& values, const unsigned (&sums)[N / 2], const int (&added)[2], unsigned columns,
    void* y, int tile, int row, int lane) {
  const int pair = Block::pair_of(tile);
  unsigned char* to = static_cast<unsigned char*>(y) + pair / HEADS * Y_BATCH +
                      pair % HEADS * Y_HEAD + (Block::first_row(tile) + row) * Y_PITCH +
                      lane % 4 * OWN;
  unsigned words[2][GROUPS];
  #pragma unroll
  for (int i = 0; i < GROUPS; ++i) {
    int column[4];
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(column[0]), "=r"(column[1]), "=r"(column[2]), "=r"(column[3])
                 : "r"(columns + 4 * (lane % 4 * OWN + 4 * i)) : "memory");
    #pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      int v[4];
      #pragma unroll
      for (int e = 0; e < 4; ++e)
        v[e] = values.value<FORM>(sums[8 * i + e / 2 * 4 + 2 * lower + e % 2],
                                  added[lower] + column[e]);
      unsigned upper;
      asm("cvt.pack.sat.PACKED.s32.b32 %0, %1, %2, %3;"
          : "=r"(upper) : "r"(v[3]), "r"(v[2]), "r"(0));
      asm("cvt.pack.sat.PACKED.s32.b32 %0, %1, %2, %3;"
          : "=r"(words[lower][i]) : "r"(v[1]), "r"(v[0]), "r"(upper));
    }
  }
  #pragma unroll
  for (int lower = 0; lower < 2; ++lower) {
    if (row + 8 * lower >= Block::rows(tile)) return;
    unsigned* out = reinterpret_cast<unsigned*>(to + 8 * lower * Y_PITCH);
    #pragma unroll
    for (int i = 0; i < GROUPS; i += STORE / 4) {
      const unsigned (&w)[GROUPS] = words[lower];
      if constexpr (STORE == 16)
        *reinterpret_cast<uint4*>(out + i) = make_uint4(w[i], w[i + 1], w[i + 2], w[i + 3]);
      else if constexpr (STORE == 8)
        *reinterpret_cast<uint2*>(out + i) = make_uint2(w[i], w[i + 1]);
      else out[i] = w[i];
    }
  }
}
__device__ __forceinline__ void begin(
    const Block& block, const void* x, const void* other, unsigned char* shared, int thread) {
  if (thread == 0) {
    start_barrier(block.smem + BARRIER_AT, 1);
    publish_barriers();
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (thread == 0) load_rows(block, static_cast<const unsigned char*>(x));
  #pragma unroll 1
  for (int slot = 0; slot < block.pairs(); ++slot)
    load_other(block, static_cast<const unsigned char*>(other), slot, thread);
  unsigned* ones = reinterpret_cast<unsigned*>(shared + ONES_AT);
  unsigned* sums = reinterpret_cast<unsigned*>(shared + SUMS_AT);
  if (thread < 64) ones[thread] = 0x01010101u;
  for (int i = 0; i < SLOTS * N; i += THREADS)
    if (i + THREADS <= SLOTS * N || i + thread < SLOTS * N) sums[i + thread] = 0;
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}
__device__ __forceinline__ void product(
    const void* x, const void* other, const int* zero_points, const float* scale,
    const float* scalars, void* y, void* shared, int number, int thread) {
  const Block block(shared, number);
  unsigned char* bytes = static_cast<unsigned char*>(shared);
  const int x_zero = __ldg(zero_points), other_zero = __ldg(zero_points + 1);
  const Values values(scale, scalars);
  begin(block, x, other, bytes, thread);
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0), lane = thread % 32;
  #pragma unroll 1
  for (int slot = 0; slot < block.pairs(); ++slot) turn_other(block, slot, warp, lane, x_zero);
  fence_shared();
  Fragments a = {};
  const int tile = block.first + (ROW_GROUPS > 1 ? warp / 4 : 0), row = warp % 4 * 16 + lane / 4;
  const int slot = block.slot_of(min(tile, block.last));
  const bool has_rows = tile <= block.last && warp % 4 * 16 < Block::rows(tile);
  wait_for(block.smem + BARRIER_AT, 0);
  if (has_rows) {
    const int first = Block::row_of(tile) - Block::row_of(block.first) + row;
    read_rows(a, bytes, X_AT + block.skew + first * K, lane);
  }
  __syncthreads();
  unsigned sums[N / 2] = {}, of_rows[4] = {};
  begin_products();
  #pragma unroll
  for (int t = 0; t < TILES_K; ++t) {
    const unsigned turned = block.turned(slot) + t * TURNED_TILE;
    multiply(sums, a[t][0], a[t][1], a[t][2], a[t][3],
             plain_descriptor(turned, 128, TURNED_GROUP), t > 0);
    add_up(of_rows, a[t][0], a[t][1], a[t][2], a[t][3],
           plain_descriptor(block.smem + ONES_AT, 128, 256), t > 0);
  }
  commit_products();
  wait_for_products<0>();
  #pragma unroll
  for (int i = 0; i < N / 2; ++i) asm volatile("" : "+r"(sums[i]) :: "memory");
  #pragma unroll
  for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(of_rows[i]) :: "memory");
  if (!has_rows) return;
  const int both = K * x_zero * other_zero + (SMALL_SUMS ? 0x4B400000 : 0);
  const int added[2] = {both - other_zero * (int)of_rows[0], both - other_zero * (int)of_rows[2]};
  const unsigned columns = block.sum(slot, 0);
  if (values.form == SHIFTED)
    store_rows<SHIFTED>(values, sums, added, columns, y, tile, row, lane);
  else if (values.form == PLAIN)
    store_rows<PLAIN>(values, sums, added, columns, y, tile, row, lane);
  else store_rows<CLAMPED>(values, sums, added, columns, y, tile, row, lane);
}
"""
"""Constants are those of `kernel.py`; `Values`, `multiply` and `add_up` come before."""
