"""CUDA source of the end of a tile: sums to values, through shared memory to rows of y.

A thread has columns of y 16 * warp + lane / 4 and 8 more, of bytes two neighbouring ones, and of
each 8 rows two. stmatrix.trans makes rows of y of them. Rows that are no whole 16-byte units lie
one behind the other, at the place in a unit that they have in memory, and leave as one bulk copy.
"""

_FORMS = r"""
// What bounds ask for: nothing, of bytes a zero point, or minima and maxima.
enum { PLAIN, SHIFTED, CLAMPED };
"""

_BYTES = r"""
struct Values {
  float scale, low, high, shift;
  int column[2], form;
  bool adds;

  __device__ __forceinline__ Values(const float* scales, const float* scalars) {
    scale = __ldg(scales);
    const float4 second = __ldg(reinterpret_cast<const float4*>(scalars) + 1);
    low = second.y, high = second.z;
    const bool own = __fadd_rn(low, second.w) == LEAST && __fadd_rn(high, second.w) == MOST;
    form = !own ? CLAMPED : second.w == 0.f ? PLAIN : SHIFTED;
    shift = __fadd_rn(second.w, -12582912.f);
  }
  template <int FORM> __device__ __forceinline__ int value(unsigned sum, int added) const {
    // Small sums are the last bits of 1.5 * 2**23 and more, which `column` holds then.
    const int total = (int)sum + added;
    float v = SMALL_SUMS ? __fadd_rn(__int_as_float(total), -12582912.f) : __int2float_rn(total);
    v = __fmul_rn(v, scale);
    if constexpr (FORM == CLAMPED) v = clamped(v, low, high);
    if constexpr (FORM != PLAIN) v = __fadd_rn(__fadd_rn(v, 12582912.f), shift);
    return __float2int_rn(v);
  }
  __device__ __forceinline__ void take(const int (&columns)[2], bool adds_rows) {
    #pragma unroll
    for (int i = 0; i < 2; ++i) column[i] = columns[i] + (SMALL_SUMS ? 0x4B400000 : 0);
    adds = adds_rows;
  }
  // Of rows 8 * tile + 2 * (lane % 4) and the next: two columns of each in a word.
  template <int FORM> __device__ __forceinline__ unsigned word(
      const unsigned (&sums)[4], unsigned row_sums, int tile, int lane) const {
    int row[2] = {0, 0};
    if (adds)
      asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(row[0]), "=r"(row[1])
                   : "r"(row_sums + 4 * (8 * tile + lane % 4 * 2)) : "memory");
    int v[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = value<FORM>(sums[i], column[i / 2] + row[i % 2]);
    unsigned upper, all;
    asm("cvt.pack.sat.PACKED.s32.b32 %0, %1, %2, %3;"
        : "=r"(upper) : "r"(v[3]), "r"(v[1]), "r"(0));
    asm("cvt.pack.sat.PACKED.s32.b32 %0, %1, %2, %3;"
        : "=r"(all) : "r"(v[2]), "r"(v[0]), "r"(upper));
    return all;
  }
};
constexpr int TILE_WORDS = 1;
template <int FORM> __device__ __forceinline__ void words_of(
    unsigned (&words)[TILE_WORDS], const Values& values, const unsigned (&sums)[4],
    unsigned row_sums, int tile, int lane) {
  words[0] = values.word<FORM>(sums, row_sums, tile, lane);
}
"""

_FLOATS = r"""
struct Values {
  float scale;
  unsigned low, high;
  int form;

  // Rounded first: minima and maxima of rounded numbers are the rounded ones.
  static __device__ __forceinline__ unsigned rounded(float first, float second) {
    unsigned word;
    asm("cvt.rn.PACKED.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
  }
  __device__ __forceinline__ Values(const float* scales, const float* scalars) {
    scale = __ldg(scales);
    const float4 second = __ldg(reinterpret_cast<const float4*>(scalars) + 1);
    const float most = __int_as_float(0x7f800000);
    low = rounded(second.y, second.y), high = rounded(second.z, second.z);
    form = second.y == -most && second.z == most ? PLAIN : CLAMPED;
  }
  template <int FORM> __device__ __forceinline__ unsigned word(float first, float second) const {
    unsigned word = rounded(__fmul_rn(first, scale), __fmul_rn(second, scale));
    if constexpr (FORM == CLAMPED) {
      asm("max.NaN.PACKED %0, %0, %1;" : "+r"(word) : "r"(low));
      asm("min.NaN.PACKED %0, %0, %1;" : "+r"(word) : "r"(high));
    }
    return word;
  }
};
constexpr int TILE_WORDS = 2;
template <int FORM> __device__ __forceinline__ void words_of(
    unsigned (&words)[TILE_WORDS], const Values& values, const float (&sums)[4],
    unsigned row_sums, int tile, int lane) {
  words[0] = values.word<FORM>(sums[0], sums[1]);
  words[1] = values.word<FORM>(sums[2], sums[3]);
}
"""

_BOXES = r"""
constexpr int Y_BYTES = ROWS * Y_LINE, Y_PARTS = Y_LINE / (64 * OUT_SIZE);
constexpr int BOXES = PASSES / Y_PARTS, BUFFERS = BOXES < 2 ? BOXES : 2;  // of a warpgroup
// Matrices of 8 rows: of bytes one has a warp's 16 columns, of floats two have.
constexpr int TILES_AT_ONCE = 4 / TILE_WORDS;

template <int FORM> __device__ __forceinline__ void stage(
    const Sums& sums, const Values& values, unsigned to, unsigned row_sums, int warp, int lane) {
  #pragma unroll
  for (int tile = 0; tile < ROW_TILES; tile += TILES_AT_ONCE) {
    unsigned words[4] = {};
    #pragma unroll
    for (int i = 0; i < TILES_AT_ONCE; ++i)
      if (tile + i < ROW_TILES) {
        unsigned own[TILE_WORDS];
        words_of<FORM>(own, values, sums[tile + i], row_sums, tile + i, lane);
        #pragma unroll
        for (int e = 0; e < TILE_WORDS; ++e) words[i * TILE_WORDS + e] = own[e];
      }
    const int matrix = lane / 8, row = 8 * (tile + matrix / TILE_WORDS) + lane % 8;
    const int unit = warp * TILE_WORDS + matrix % TILE_WORDS;
    const unsigned at = to + swizzled<Y_LINE>(row * Y_LINE + 16 * unit);
    if (tile + TILES_AT_ONCE <= ROW_TILES)
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                   :: "r"(at), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                   : "memory");
    else  // two tiles of bytes
      asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                   :: "r"(at), "r"(words[0]), "r"(words[1]) : "memory");
  }
}
__device__ __forceinline__ void store_part(
    const Sums& sums, const Values& values, const Block& block, const Maps& maps, void* y,
    int part, int row_group, int thread) {
  // A box has one part, or two neighbouring ones of a warpgroup.
  const int warp = thread / 32 % 4 + part % Y_PARTS * 4, lane = thread % 32;
  const int box = part % PASSES / Y_PARTS, warpgroup = thread / 128;
  const unsigned to = block.smem + Y_AT + (warpgroup * BUFFERS + box % BUFFERS) * Y_BYTES;
  if (box >= BUFFERS && part % Y_PARTS == 0) {  // until the box before the last has been read
    if (thread % 128 == 0)
      asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(BUFFERS - 1) : "memory");
    meet(1 + warpgroup, 128);
  }
  const unsigned row_sums = block.sum(row_group * ROWS);
  if (SIZE == 1 && values.form == SHIFTED)
    stage<SHIFTED>(sums, values, to, row_sums, warp, lane);
  else if (values.form == PLAIN) stage<PLAIN>(sums, values, to, row_sums, warp, lane);
  else stage<CLAMPED>(sums, values, to, row_sums, warp, lane);
  if (part % Y_PARTS != Y_PARTS - 1) return;
  fence_shared();
  meet(1 + warpgroup, 128);
  if (thread % 128 == 0) {
    const int first = part - (Y_PARTS - 1);
    store_box(maps.y, block.first_column + 64 * first, block.first_row + row_group * ROWS,
              block.pair % HEADS, block.pair / HEADS, to);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
}
__device__ __forceinline__ void end_store(const Block&, void*, int, int, int thread) {
  if (thread % 128 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
"""

_RUNS = r"""
constexpr int Y_ROW = N * OUT_SIZE;
template <int FORM> __device__ __forceinline__ void stage(
    const Sums& sums, const Values& values, unsigned to, unsigned row_sums, int n, int lane) {
  #pragma unroll
  for (int tile = 0; tile < ROW_TILES; ++tile) {
    unsigned words[TILE_WORDS];
    words_of<FORM>(words, values, sums[tile], row_sums, tile, lane);
    #pragma unroll
    for (int row = 0; row < 2; ++row)
      #pragma unroll
      for (int second = 0; second < 2; ++second) {
        const unsigned at = to + (8 * tile + row) * Y_ROW;
        if constexpr (SIZE == 1) {
          if (n + second < N)
            asm volatile("st.shared.b8 [%0], %1;"
                         :: "r"(at + second), "r"(words[0] >> (16 * row + 8 * second)) : "memory");
        } else {
          if (n + 8 * second < N)
            asm volatile("st.shared.b16 [%0], %1;"
                         :: "r"(at + 16 * second),
                            "h"((unsigned short)(words[second] >> 16 * row)) : "memory");
        }
      }
  }
}
// Where the rows of a row group lie in memory and in shared memory.
struct Run {
  unsigned char* y;
  unsigned from;
  int bytes;

  __device__ __forceinline__ Run(const Block& block, void* array, int row_group) {
    const int first_row = block.first_row + row_group * ROWS;
    y = static_cast<unsigned char*>(array) + (block.pair * M + first_row) * Y_ROW;
    from = block.smem + Y_AT + row_group * RUN_BYTES + (unsigned)((size_t)y & 15u);
    bytes = max(0, min(ROWS, M - first_row)) * Y_ROW;
  }
};
__device__ __forceinline__ void store_part(
    const Sums& sums, const Values& values, const Block& block, const Maps& maps, void* y,
    int part, int row_group, int thread) {
  const int warp = thread / 32 % 4, lane = thread % 32;
  const int n = 64 * part + 16 * warp + (SIZE == 1 ? lane / 4 * 2 : lane / 4);
  const unsigned from = Run(block, y, row_group).from;
  const unsigned to = from + lane % 4 * 2 * Y_ROW + n * OUT_SIZE;
  const unsigned row_sums = block.sum(row_group * ROWS);
  if (SIZE == 1 && values.form == SHIFTED) stage<SHIFTED>(sums, values, to, row_sums, n, lane);
  else if (values.form == PLAIN) stage<PLAIN>(sums, values, to, row_sums, n, lane);
  else stage<CLAMPED>(sums, values, to, row_sums, n, lane);
}
__device__ __forceinline__ void end_store(
    const Block& block, void* y, int column, int row_group, int thread) {
  const Run run(block, y, row_group);
  const int own = column * 128 + thread % 128;
  fence_shared();
  meet(1 + row_group, 128 * COLUMNS);
  // Whole units in one copy; what lies before and behind them byte by byte.
  const int before = min(run.bytes, (int)(-run.from & 15u));
  const int units = (run.bytes - before) / 16 * 16;
  if (own == 0 && units > 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(run.y + before), "r"(run.from + before), "r"(units) : "memory");
    commit_stores();
    wait_for_stores<false>();
  }
  const int at = own < 16 ? own : before + units + own - 16;
  if (own < 16 ? at < before : own < 32 && at < run.bytes) {
    unsigned byte;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(run.from + at) : "memory");
    run.y[at] = (unsigned char)byte;
  }
}
"""


def byte_values(packed: str) -> str:
    """Source of `Values` of bytes, with packed the type of a byte as PTX names it."""
    return (_FORMS + _BYTES).replace("PACKED", packed)


def store_source(floating: bool, boxes: bool, packed: str) -> str:
    """Source of `Values`, `store_part` and `end_store`.

    packed: the type of what a word is packed with, as PTX names it.
    """
    values = _FORMS + (_FLOATS if floating else _BYTES)
    return values.replace("PACKED", packed) + (_BOXES if boxes else _RUNS)
