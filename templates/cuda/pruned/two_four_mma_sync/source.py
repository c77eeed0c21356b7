"""CUDA source of the 2:4 sparse product on mma.sp: weights are its sparse A, rows of x its B.

x and weights come by cp.async. Rows of x are swizzled, so that ldmatrix reads eight of them at a
time without conflicts; weights and metadata lie as a lane's registers hold them. A thread's sums of
a row of x are eight neighbouring columns of y, which it finishes and stores by itself.
"""

from __future__ import annotations

SOURCE = r"""
constexpr int THREADS = 32 * WEIGHT_WARPS * ROW_WARPS, ROWS = ROW_WARPS * WARP_ROWS;
constexpr int STEPS = 2, BLOCKS = 4, FRAGMENT = 512;
constexpr int EIGHTS = WARP_ROWS / 8, TURNS = STEPS * EIGHTS;
constexpr int AHEAD = EIGHTS < 8 ? 1 : 3, AT_ONCE = EIGHTS < 8 ? 2 : 4;
constexpr int X_STAGE = ROWS * 128, W_STAGE = WEIGHT_WARPS * BLOCKS * BLOCK_BYTES;
constexpr int STAGE = X_STAGE + W_STAGE, OUT_BYTES = BITS<OUT> / 8;

// Tiles of rows of y come in groups, which go through the tiles of weights together.
struct Tile { int rows, weights; };
__device__ __forceinline__ Tile tile_of(int block) {
  constexpr int ALL_OF_GROUP = GROUP * WEIGHT_TILES;
  const int first = block / ALL_OF_GROUP * GROUP, inside = block % ALL_OF_GROUP;
  const int rows = min(GROUP, ROW_TILES - first);
  return {first + inside % rows, inside / rows};
}

COPIES
// A stage of a tile. Behind the last k is 0; rows behind the last one are that one again.
__device__ __forceinline__ void load_stage(
    unsigned to, const unsigned char* x, const unsigned char* weight, int first_row, int stage,
    int thread) {
  const int unit = thread % 8, byte = stage * 128 + unit * 16;
  const bool there = X_PITCH % 128 == 0 || byte < X_PITCH;
  #pragma unroll
  for (int i = 0; i < ROWS; i += THREADS / 8) {
    const int row = i + thread / 8;
    if (ROWS % (THREADS / 8) != 0 && row >= ROWS) break;
    const unsigned char* from = x + (long long)min(first_row + row, M - 1) * X_PITCH;
    copy_unit(to + row * 128 + (unit ^ row % 8) * 16, from + (there ? byte : 0), there ? 16 : 0);
  }
  const unsigned char* own = weight + (long long)stage * W_STAGE;
  #pragma unroll
  for (int i = 0; i < W_STAGE; i += THREADS * 16) {
    const int at = i + thread * 16;
    if (W_STAGE % (THREADS * 16) == 0 || at < W_STAGE) copy_unit(to + X_STAGE + at, own + at, 16);
  }
}

// 64 bytes of k of eight rows of x.
__device__ __forceinline__ void read_rows(unsigned (&b)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at) : "memory");
}
PRODUCT// What 16 weight rows of each of a warp's instructions keep of a step, and where it is from.
struct Weights { uint4 kept[BLOCKS]; unsigned places[BLOCKS]; };
__device__ __forceinline__ void read_weights(
    Weights& to, const unsigned char* blocks, int step, int lane) {
  #pragma unroll
  for (int block = 0; block < BLOCKS; ++block) {
    const unsigned char* own = blocks + block * BLOCK_BYTES;
    to.kept[block] = reinterpret_cast<const uint4*>(own + step * FRAGMENT)[lane];
    const unsigned* words = reinterpret_cast<const unsigned*>(own + STEPS * FRAGMENT);
    to.places[block] = words[step % METADATA_WORDS * 32 + lane];
  }
}

// Eight outputs of a row of y, of which whole vectors are inside.
__device__ __forceinline__ void store_eight(OUT* to, const Raw<OUT, 4> (&out)[2], int column) {
  #pragma unroll
  for (int i = 0; i < 2 * OUT_BYTES; i += VECTOR_BYTES / 4) {
    if (column + i * 4 / OUT_BYTES >= N) break;
    const auto word = [&](int at) { return out[at / OUT_BYTES].word[at % OUT_BYTES]; };
    unsigned* at = reinterpret_cast<unsigned*>(to) + i;
    if constexpr (VECTOR_BYTES == 16) {
      *reinterpret_cast<uint4*>(at) = make_uint4(word(i), word(i + 1), word(i + 2), word(i + 3));
    } else if constexpr (VECTOR_BYTES == 8) {
      *reinterpret_cast<uint2*>(at) = make_uint2(word(i), word(i + 1));
    } else {
      *at = word(i);
    }
  }
}
// The outputs of a warp from `first_row` on, and of the lane's eight columns.
template <Form FORM> __device__ __forceinline__ void finish_rows(
    const SUM (&sums)[BLOCKS][EIGHTS][4], const Constants& from, const Raw<ACC, 4> (&bias)[2],
    Channels (&own)[2], OUT* y, int first_row, int column, int lane) {
  #pragma unroll
  for (int i = 0; i < 2 * EIGHTS; ++i) {
    const int j = i / 2, second = i % 2, row = first_row + 8 * j + 2 * (lane % 4) + second;
    if (row >= M) break;
    const long long at = (long long)row * N + column;
    Raw<OUT, 4> out[2];
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      ACC acc[4];
      #pragma unroll
      for (int c = 0; c < 4; ++c)
        acc[c] = bits_of(sums[2 * half + c / 2][j][2 * (c % 2) + second]);
      Raw<ADDEND, 4> addends = {};
      const bool there = column + 4 * half < N;
      if constexpr (RESIDUAL)
        if (there) addends = load<ADDEND, 4>(from.residual + at + 4 * half);ROW_SCALE
      out[half] = outputs<FORM>(acc, bias[half], addends, own[half]);
    }
    store_eight(y + at, out, column);
  }
}

__device__ __forceinline__ void multiply_two_four(
    unsigned char* smem, const unsigned char* x, const unsigned char* weight,
    const Constants& from, OUT* y, int block, int thread) {
  const unsigned base = (unsigned)__cvta_generic_to_shared(smem);
  const int lane = thread % 32, warp = thread / 32;
  const int weight_warp = warp % WEIGHT_WARPS, row_warp = warp / WEIGHT_WARPS;
  const Tile tile = tile_of(block);
  const int first_row = tile.rows * ROWS;
  weight += (long long)tile.weights * K_STAGES * W_STAGE;
  #pragma unroll
  for (int s = 0; s < STAGES; ++s) {
    if (s < K_STAGES) load_stage(base + s * STAGE, x, weight, first_row, s, thread);
    commit_copies();
  }
  // A lane names a unit of 16 bytes of one of eight rows of x.
  const unsigned own_rows =
      base + row_warp * (WARP_ROWS * 128) + lane % 8 * 128 + (lane / 8 ^ lane % 8) * 16;
  const unsigned char* own_blocks = smem + X_STAGE + weight_warp * (BLOCKS * BLOCK_BYTES);
  // Eight rows of x and a step come AHEAD turns before they are multiplied, those of the next stage
  // too, so that the tensor cores have products while threads wait for it.
  SUM sums[BLOCKS][EIGHTS][4] = {};
  Weights weights[STEPS];
  unsigned rows[AT_ONCE][4];
  int read = 0, free = 0;
  const auto read_turn = [&](int turn) {
    const int step = turn / EIGHTS, eight = turn % EIGHTS;
    if (eight == 0) read_weights(weights[step], own_blocks + read, step, lane);
    read_rows(rows[turn % AT_ONCE], (own_rows + read ^ step * 64) + eight * 1024);
  };
  await_copies<STAGES - 1>();
  __syncthreads();
  #pragma unroll
  for (int turn = 0; turn < AHEAD; ++turn) read_turn(turn);
  #pragma unroll 1
  for (int s = 0; s < K_STAGES; ++s) {
    #pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const int step = turn / EIGHTS, eight = turn % EIGHTS;
      if (turn == TURNS - AHEAD) {  // the stage has been read, and the next one has come
        free = read;
        read = read == (STAGES - 1) * STAGE ? 0 : read + STAGE;
        await_copies<STAGES - 2>();
        __syncthreads();
      }
      if (s + 1 < K_STAGES || turn + AHEAD < TURNS) read_turn((turn + AHEAD) % TURNS);
      // Where lanes have one word for both steps, the selector says which half of them is asked.
      constexpr int SECOND = METADATA_WORDS == STEPS ? 0 : 1;
      #pragma unroll
      for (int block = 0; block < BLOCKS; ++block) {
        const Weights& own = weights[step];
        const unsigned (&b)[4] = rows[turn % AT_ONCE];
        if (step == 0) product<0>(sums[block][eight], own.kept[block], b, own.places[block]);
        else product<SECOND>(sums[block][eight], own.kept[block], b, own.places[block]);
      }
      if (turn == TURNS - AHEAD) {
        if (s + STAGES < K_STAGES)
          load_stage(base + free, x, weight, first_row, s + STAGES, thread);
        commit_copies();
      }
    }
  }
  const int column = (tile.weights * WEIGHT_WARPS + weight_warp) * 64 + lane / 4 * 8;
  Channels own[2];
  Raw<ACC, 4> bias[2];
  #pragma unroll
  for (int half = 0; half < 2; ++half) {
    own[half] = channels(from, column + 4 * half);
    bias[half] = load<ACC, 4>(from.bias + column + 4 * half);
  }
  const int row = first_row + row_warp * WARP_ROWS;
CHOICE}
"""
"""multiply_two_four(smem, x, weight, Constants, y, block, thread).

PRODUCT stands for `product<selector>(d, a, b, metadata)`, CHOICE for what `choice` gives, and
ROW_SCALE for what reads a row's scale, if there is one."""

PRODUCT = r"""
template <int SELECTOR> __device__ __forceinline__ void product(
    SUM (&d)[4], const uint4& a, const unsigned (&b)[4], unsigned metadata) {
  asm volatile("INSTRUCTION {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11},"
               " {%0, %1, %2, %3}, %12, %13;"
               : "+KIND"(d[0]), "+KIND"(d[1]), "+KIND"(d[2]), "+KIND"(d[3])
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b[0]), "r"(b[1]), "r"(b[2]),
                 "r"(b[3]), "r"(metadata), "n"(SELECTOR));
}
"""
"""INSTRUCTION stands for mma.sp with its types, KIND for the constraint of a sum's registers."""

ROW_SCALE = """
      own[half].row = __ldg(from.row_scale + row);"""

FINISH = """
    finish_rows<SATURATES ? Form::NAME : Form::ANY>(
        sums, from, bias, own, y, row, column, lane);
"""
"""The call of `form_choice`."""
