"""CUDA source of what follows the sums of a tile of the 2:4 sparse product."""

from __future__ import annotations

FINISH_TILE = r"""
// What is added, bit by bit, to the place of a column in a row that passes in a swizzled box.
__device__ __forceinline__ int turned(int row) {
  return !BOXED ? 0 : OUT_BYTES == 1 ? row / 2 % 4 * 16 : row % 8 * 16;
}
// Columns of an instruction, rows of y, to shared memory. As bytes a thread's word of eight rows is
// two columns of two of them, which stmatrix takes: a lane says where one of 32 rows is.
template <Form FORM> __device__ __forceinline__ void lay_out(
    const SUM* sums, unsigned char* to, const Raw<ACC, 4>& bias, const unsigned* addends,
    const Channels& own, int thread) {
  const auto eight_rows = [&](int j) {
    const ACC acc[4] = {bits_of(sums[4 * j]), bits_of(sums[4 * j + 2]),
                        bits_of(sums[4 * j + 1]), bits_of(sums[4 * j + 3])};
    Raw<ADDEND, 4> addend = {};
    if constexpr (RESIDUAL) addend.word[0] = addends[j];
    return outputs<FORM>(acc, bias, addend, own);
  };
  if constexpr (OUT_BYTES == 1) {
    const int lane = thread % 32;
    const unsigned at = (unsigned)__cvta_generic_to_shared(to) + lane * ROW +
        (thread / 32 * 16 ^ turned(lane));
    #pragma unroll
    for (int j = 0; j < PASS / 8; j += 4) {
      unsigned word[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) word[i] = eight_rows(j + i).word[0];
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                   : : "r"(at + 8 * j * ROW), "r"(word[0]), "r"(word[1]), "r"(word[2]),
                       "r"(word[3]) : "memory");
    }
  } else {
    const int channel = thread / 32 * 16 + thread % 32 / 4 * 2, row = thread % 4 * 2;
    unsigned char* first = to + row * ROW + (channel * OUT_BYTES ^ turned(row));
    unsigned char* second = to + (row + 1) * ROW + (channel * OUT_BYTES ^ turned(row + 1));
    #pragma unroll
    for (int j = 0; j < PASS / 8; ++j) {
      const Raw<OUT, 4> raw = eight_rows(j);
      #pragma unroll
      for (int i = 0; i < OUT_BYTES / 2; ++i) {
        reinterpret_cast<unsigned*>(first + 8 * j * ROW)[i] = raw.word[i];
        reinterpret_cast<unsigned*>(second + 8 * j * ROW)[i] = raw.word[OUT_BYTES / 2 + i];
      }
    }
  }
}
STORE_ROWS// What finishes the columns of a block of weight rows, the same for all rows of y.
struct Terms { Raw<ACC, 4> bias; Channels own; };
__device__ __forceinline__ Terms terms_of(const Constants& from, Channels own, int at) {
  const Raw<ACC, 2> two = load<ACC, 2>(from.bias + at);
  if constexpr (!WIDE) {
    const Raw<float, 2> scale = load<float, 2>(from.scale + at);
    own.scale = {{scale.word[0], scale.word[1], scale.word[0], scale.word[1]}};SHIFTS;
  }
  return {{{two.word[0], two.word[1], two.word[0], two.word[1]}}, own};
}
// What is added to a thread's outputs, a word of them each: bytes of two columns of two rows of y.
template <int PARTS> __device__ __forceinline__ void read_addends(
    unsigned* addends, const ADDEND* residual, int first_row, int first_block, int thread) {
  #pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
    const int column = (first_block + b) * 64 + thread / 32 * 16 + thread % 32 / 4 * 2;
    #pragma unroll
    for (int j = 0; j < COLUMNS / PARTS / 8; ++j) {
      const int row = first_row + 8 * j + thread % 4 * 2;
      const auto two = [&](int own) -> unsigned {
        if (own >= M || column >= N) return 0u;
        return *reinterpret_cast<const unsigned short*>(residual + ((long long)own * N + column));
      };
      addends[b * (COLUMNS / PARTS / 8) + j] = two(row) | two(row + 1) << 16;
    }
  }
}
template <Form FORM, int PARTS> __device__ __forceinline__ void finish_tile(
    const SUM (&sums)[ALL / PARTS], unsigned char* staged, const Terms (&terms)[BLOCKS],
    const unsigned* addends, const Outputs& to, int first_row, int first_block, int consumer,
    int thread, int& turn) {
  #pragma unroll
  for (int b = 0; b < BLOCKS; ++b) {
    #pragma unroll
    for (int pass = 0; pass < COLUMNS / PARTS / PASS; ++pass) {
      const SUM* own = sums + b * (COLUMNS / PARTS / 2) + pass * (PASS / 2);
      unsigned char* rows = staged + turn * (PASS * ROW);
      if constexpr (BOXED) {
        if (thread == 0)
          asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(PLACES - 1) : "memory");
        turn ^= PLACES - 1;
      }
      asm volatile("bar.sync %0, 128;" : : "r"(consumer + 1) : "memory");
      const int group = (b * (COLUMNS / PARTS) + pass * PASS) / 8;
      lay_out<FORM>(own, rows, terms[b].bias, addends + group, terms[b].own, thread);
      if constexpr (BOXED) asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
      asm volatile("bar.sync %0, 128;" : : "r"(consumer + 1) : "memory");
      store_rows(rows, to, first_row + pass * PASS, first_block + b, thread);
    }
  }
}
"""
"""finish_tile<form, parts>(sums, staged, terms, addends, Outputs, row, block, consumer, thread,
turn).

row and block are the first ones. STORE_ROWS stands for struct Outputs, where rows of y go, and for
`store_rows`, such as `VECTORS` of `rows_source`."""

SHIFTS = """
    const Raw<float, 2> shift = load<float, 2>(from.scale + CHANNELS + at);
    own.shift = {{shift.word[0], shift.word[1], shift.word[0], shift.word[1]}}"""
"""What reads the float biases, where there are."""

_NO_TABLE = r"""
__device__ __forceinline__ void copy_table(unsigned char*, const Constants&, int) {}
__device__ __forceinline__ Channels terms_of_all(const unsigned char*, const Constants& from) {
  return shared_terms(from);
}
"""
_SHARED_TABLE = r"""
// The words of the table that the form of the operands selects entries of.
__device__ __forceinline__ const unsigned* table_words(const Channels& own) {
  const void* found = own.table;SHORT
  return reinterpret_cast<const unsigned*>(found);
}
__device__ __forceinline__ void copy_table(
    unsigned char* table, const Constants& from, int thread) {
  const unsigned* words = table_words(shared_terms(from));
  if (thread < TABLE_BYTES / 4) reinterpret_cast<unsigned*>(table)[thread] = __ldg(words + thread);
}
__device__ __forceinline__ Channels terms_of_all(
    const unsigned char* table, const Constants& from) {
  Channels own = shared_terms(from);
  own.table = table;LOOKUPS
  return own;
}
"""


def table_source(table: bool, shortened: bool) -> str:
    """Source of `copy_table` and `terms_of_all`, which read a table from shared memory.

    shortened: whether operands may allow a short form, whose table is a longer one.
    """
    if not table:
        return _NO_TABLE
    short = "\n  if (own.form == Form::READ) found = own.lookups;" if shortened else ""
    lookups = "\n  own.lookups = table;" if shortened else ""
    return _SHARED_TABLE.replace("SHORT", short).replace("LOOKUPS", lookups)


FINISH = """
    finish_tile<SATURATES ? Form::NAME : Form::ANY, PARTS>(
        sums, staged, terms, addends, to, row, first, consumer, thread, turn);
"""
"""The call of `form_choice`."""
