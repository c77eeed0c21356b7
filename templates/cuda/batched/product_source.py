"""CUDA source of the products of a warpgroup: other from registers, x from shared memory.

ldmatrix gives a warp 16 columns of y of other by 32 bytes of k. Of bytes its rows are even columns,
then odd ones, so that a thread has two neighbouring columns of y. Where rows are values of k,
ldmatrix.trans gives words of two k of two columns, of which byte permutes make words of four k.
"""

PRODUCTS = r"""
using Fragments = unsigned[MMA_STEPS][4];

// Of a step: the 16 columns of y of a warp.
__device__ __forceinline__ void read_other(Fragments& a, unsigned part, int warp, int lane) {
  const int i = lane % 8, second = lane / 8 % 2, later = lane / 16;
  #pragma unroll
  for (int s = 0; s < MMA_STEPS; ++s) {
    int row, byte;
    if constexpr (!TURNED) {
      row = 16 * warp + (SIZE == 1 ? 2 * i + second : 8 * second + i);
      byte = 32 * s + 16 * later;
    } else if constexpr (SIZE == 1) {
      row = 32 * s + 16 * later + i / 2 * 4 + 2 * second + i % 2;
      byte = 16 * warp;
    } else {
      row = 16 * s + 8 * later + i;
      byte = 32 * warp + 16 * second;
    }
    read_matrices<TURNED>(a[s], part + swizzled<OTHER_LINE>(row * OTHER_LINE + byte));
    if constexpr (TURNED && SIZE == 1) {
      const unsigned w0 = a[s][0], w1 = a[s][1], w2 = a[s][2], w3 = a[s][3];
      a[s][0] = __byte_perm(w0, w1, 0x6420), a[s][1] = __byte_perm(w0, w1, 0x7531);
      a[s][2] = __byte_perm(w2, w3, 0x6420), a[s][3] = __byte_perm(w2, w3, 0x7531);
    }
  }
}
__device__ __forceinline__ void start_step(
    Sums& sums, const Fragments& a, unsigned x, bool accumulates) {
  const unsigned long long b = tile_descriptor<LINE>(x, 8 * LINE, 16);
  begin_products();
  #pragma unroll
  for (int s = 0; s < MMA_STEPS; ++s)
    multiply(&sums[0][0], a[s][0], a[s][1], a[s][2], a[s][3], b + (32 * s >> 4),
             accumulates || s > 0);
  commit_products();
}

// What zero points take off: sums of the columns of y that a thread has, and of its rows of x.
template <bool IS_SIGNED> __device__ __forceinline__ int add_bytes(unsigned word, int sum) {
  if constexpr (IS_SIGNED) return __dp4a((int)word, 0x01010101, sum);
  else return (int)__dp4a(word, 0x01010101u, (unsigned)sum);
}
constexpr int OWN_ROWS = (ROWS + 128 * COLUMNS - 1) / (128 * COLUMNS);
struct ZeroPoints {
  int x, other, columns[2], rows[OWN_ROWS];

  __device__ __forceinline__ void begin(const int* zero_points) {
    x = __ldg(zero_points), other = __ldg(zero_points + 1);
    #pragma unroll
    for (int i = 0; i < OWN_ROWS; ++i) rows[i] = 0;
  }
  __device__ __forceinline__ void add_other(const Fragments& a) {
    if (x == 0) return;
    #pragma unroll
    for (int s = 0; s < MMA_STEPS; ++s)
      #pragma unroll
      for (int i = 0; i < 4; ++i)
        columns[i % 2] = add_bytes<SIGNED<OTHER>>(a[s][i], columns[i % 2]);
  }
  // `own`: the thread's number among those that share rows of x.
  __device__ __forceinline__ void add_x(unsigned tile, int own) {
    if (other == 0) return;
    #pragma unroll
    for (int i = 0; i < OWN_ROWS; ++i) {
      const int row = own + i * (128 * COLUMNS);
      if (row < ROWS)
        #pragma unroll
        for (int byte = 0; byte < LINE; byte += 16) {
          unsigned w[4];
          asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                       : "r"(tile + swizzled<LINE>(row * LINE + byte)) : "memory");
          #pragma unroll
          for (int e = 0; e < 4; ++e) rows[i] = add_bytes<SIGNED<X>>(w[e], rows[i]);
        }
    }
  }
  // Sums become what is added to products.
  __device__ __forceinline__ void end_columns() {
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      columns[i] += __shfl_xor_sync(0xffffffffu, columns[i], 1);
      columns[i] += __shfl_xor_sync(0xffffffffu, columns[i], 2);
      columns[i] = x * (K * other - columns[i]);
    }
  }
  __device__ __forceinline__ void end_rows(const Block& block, int first_row, int own) const {
    #pragma unroll
    for (int i = 0; i < OWN_ROWS; ++i) {
      const int row = own + i * (128 * COLUMNS);
      if (row < ROWS)
        asm volatile("st.shared.b32 [%0], %1;"
                     :: "r"(block.sum(first_row + row)), "r"(-other * rows[i]) : "memory");
    }
  }
};

// Of a part of 64 columns; the first one of each warpgroup adds up rows of x too.
template <class Zeros> __device__ __forceinline__ void multiply_all(
    Sums& sums, Zeros& zeros, const Block& block, const Maps& maps, int part, int row_group,
    int thread) {
  const int warp = thread / 32 % 4, lane = thread % 32;
  Fragments a[2];
  if constexpr (SIZE == 1) zeros.columns[0] = zeros.columns[1] = 0;
  #pragma unroll UNROLL
  for (int step = 0; step < STEPS; ++step) {
    const int stage = stage_of(step);
    wait_for(block.there(stage), phase_of(step));
    read_other(a[step % 2], block.other(stage, part), warp, lane);
    start_step(sums, a[step % 2], block.x(step, row_group), step > 0);
    if constexpr (SIZE == 1) {
      zeros.add_other(a[step % 2]);
      if (part % PASSES == 0)
        zeros.add_x(block.x(step, row_group), part / PASSES * 128 + thread % 128);
    }
    if (step > 0) {
      wait_for_products<1>();
      leave_step(block, maps, step - 1, thread);
    }
  }
  wait_for_products<0>();
}
"""
"""Constants are those of `kernel.py`; `Sums` and `multiply` come before."""
