"""CUDA source of outputs by way of words: the epilogue in registers, then whole words of y.

A thread finishes its own columns of a tile, which lie as narrow as outputs are in shared memory. A
word of y holds neighbouring columns that the tile has, and some that no tile computes: the former
are neighbours in shared memory too, so that two words, a PRMT that picks and one that fills in what
the others are make it.
"""

from __future__ import annotations

STORE_WORDS = r"""
// Of a tile's entries those of words that are its alone, and behind them those of words of two.
__device__ __forceinline__ int whole_words(const int4& tile) { return tile.w & 0x3fffffff; }
__device__ __forceinline__ int shared_words(const int4& tile) { return (unsigned)tile.w >> 30; }
// How many lanes take words of one row: fewer where few words are left, for several rows at once.
__device__ __forceinline__ int lanes_across(int left) { return left > 16 ? 32 : left > 8 ? 16 : 8; }
__device__ __forceinline__ int4 read_entry(
    const void* entries, const int4& tile, int lane, int first = 0) {
  const int left = whole_words(tile) - first, own = lane & lanes_across(left) - 1;
  const int4* from = static_cast<const int4*>(entries) + tile.z + first;
  return own < left ? ENTRY_AT(from + own) : int4{};
}

__device__ __forceinline__ unsigned word_of(const unsigned* row, const int4& entry) {
  const unsigned* from = row + (entry.w & 0xffff);
  const unsigned pick = entry.y & 0xffff, fill = (unsigned)entry.y >> 16;
  return __byte_perm(__byte_perm(from[0], from[1], pick), entry.z, fill);
}
// A word of which the tile has some bytes.
__device__ __forceinline__ void store_bytes(unsigned* row_of_y, const unsigned* row, int4 entry) {
  const unsigned word = word_of(row, entry), mask = (unsigned)entry.w >> 16;
  unsigned char* to = reinterpret_cast<unsigned char*>(row_of_y + entry.x);
  #pragma unroll
  for (int i = 0; i < 4; ++i)
    if (mask >> i & 1) to[i] = word >> 8 * i;
}
// Of a warp's 16 rows of y the first `count`, the words that the tile's entries name.
__device__ __forceinline__ void store_rows(
    const unsigned* rows, const Constants&, const void* entries, int4 entry, OUT* y, int first_row,
    int count, const int4& tile, int lane) {
  const int whole = whole_words(tile);
  unsigned* first = reinterpret_cast<unsigned*>(y) + first_row * ROW_WORDS;
  int4 next;
  for (int e = 0; e < whole; e += 32, entry = next) {
    const int left = whole - e, across = lanes_across(left), step = 32 / across;
    next = read_entry(entries, tile, lane, e + 32);
    if ((lane & across - 1) >= left) continue;
    #pragma unroll 1
    for (int r = lane / across; r < 16; r += AT_ONCE * step) {
      unsigned word[AT_ONCE];
      #pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) word[i] = word_of(rows + READ_ROW * ROW_PITCH, entry);
      #pragma unroll
      for (int i = 0; i < AT_ONCE; ++i)
        if (r + i * step < count) first[(r + i * step) * ROW_WORDS + entry.x] = word[i];
    }
  }
  // Words of two tiles: half a warp has those of 16 rows.
  const int r = lane % 16;
  if (lane / 16 >= shared_words(tile) || r >= count) return;
  const int4 own = ENTRY_AT(static_cast<const int4*>(entries) + tile.z + whole + lane / 16);
  store_bytes(first + r * ROW_WORDS, rows + r * ROW_PITCH, own);
}
"""
"""Entries of words of y, and what puts words of 16 rows together.

ROW_WORDS and ROW_PITCH are words of a row of y and of a row of outputs in shared memory."""

_WORDS = (
    r"""
constexpr int OUT_BYTES = BITS<OUT> / 8, ROW_WORDS = N * OUT_BYTES / 4;
// Eight rows of a fragment in different banks, and a word more, which is read behind the last one.
constexpr int ROW_PAD = OUT_BYTES == 1 && PAIRED ? 1 : 2 * OUT_BYTES;
constexpr int ROW_PITCH = (WIDTH * OUT_BYTES + 127) / 128 * 32 + ROW_PAD;

__device__ __forceinline__ void begin_rows(unsigned*, int) {}

// The terms of a tile's columns come to shared memory while it is multiplied.
__device__ __forceinline__ void copy_word(int* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               : : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void meet(int consumer) {
  asm volatile("bar.sync %0, 128;" : : "r"(consumer + 1) : "memory");
}
__device__ __forceinline__ void begin_terms(
    int* terms, const Constants& from, int column, int consumer, int thread) {
  meet(consumer);  // the terms before are read
  for (int i = thread; i < WIDTH; i += 128) {
    copy_word(terms + i, from.bias + column + i);
    if constexpr (!WIDE) copy_word(terms + WIDTH + i, from.scale + column + i);
    if constexpr (FLOAT_BIAS) copy_word(terms + 2 * WIDTH + i, from.scale + CHANNELS + column + i);
  }
}
__device__ __forceinline__ void await_terms(int consumer) {
  asm volatile("cp.async.wait_all;" : : : "memory");
  meet(consumer);
}
// What two columns have, for two rows.
template <class T> __device__ __forceinline__ Raw<T, 4> pairs(const int* from) {
  const uint2 two = *reinterpret_cast<const uint2*>(from);
  return {{two.x, two.y, two.x, two.y}};
}
template <Form FORM> __device__ __forceinline__ void lay_out_as(
    const SUM* sums, unsigned* to, const int* terms, Channels own, int lane) {
  constexpr int LOWER = PAIRED ? 1 : 8;  // rows between the two of a thread
  unsigned char* first = reinterpret_cast<unsigned char*>(to) +
      LANE_AT;
  #pragma unroll
  for (int j = 0; j < WIDTH / 8; ++j) {
    const int at = COLUMN_AT;
    const Raw<ACC, 4> bias = pairs<ACC>(terms + at);
    if constexpr (!WIDE) {
      own.scale = pairs<float>(terms + WIDTH + at);SHIFTS;
    }
    ACC acc[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) acc[i] = bits_of(sums[SUM_AT]);
    const Raw<OUT, 4> raw = outputs<FORM>(acc, bias, {}, own);
    unsigned char* upper = first + EIGHT_AT;
    unsigned char* lower = upper + LOWER * (ROW_PITCH * 4);
    if constexpr (OUT_BYTES == 1) {
      *reinterpret_cast<unsigned short*>(upper) = (unsigned short)raw.word[0];
      *reinterpret_cast<unsigned short*>(lower) = (unsigned short)(raw.word[0] >> 16);
    } else {
      #pragma unroll
      for (int i = 0; i < OUT_BYTES / 2; ++i) {
        reinterpret_cast<unsigned*>(upper)[i] = raw.word[i];
        reinterpret_cast<unsigned*>(lower)[i] = raw.word[OUT_BYTES / 2 + i];
      }
    }
  }
}
// 16 rows of outputs of a warp in shared memory.
__device__ __forceinline__ void lay_out(
    const SUM* sums, unsigned* to, const int* terms, const Constants& from, int lane) {
  const Channels own = shared_terms(from);
  if (SATURATES && own.form == Form::PACK)
    lay_out_as<SATURATES ? Form::PACK : Form::ANY>(sums, to, terms, own, lane);
  else if (SATURATES && own.form == Form::SHIFT)
    lay_out_as<SATURATES ? Form::SHIFT : Form::ANY>(sums, to, terms, own, lane);
  else
    lay_out_as<SATURATES ? Form::CLAMP : Form::ANY>(sums, to, terms, own, lane);
}
"""
    + STORE_WORDS
)


def _of_lanes(places: dict[str, str]) -> str:
    source = _WORDS
    for mark, place in places.items():
        source = source.replace(mark, place)
    return source


WORDS = _of_lanes(
    {
        "LANE_AT": "(lane / 4) * (PAIRED ? 2 : 1) * (ROW_PITCH * 4) + lane % 4 * 2 * OUT_BYTES",
        "COLUMN_AT": "8 * j + lane % 4 * 2",
        "SUM_AT": "4 * j + i",
        "EIGHT_AT": "8 * j * OUT_BYTES",
    }
)
"""What `sums_source.SUMS` has, of finished outputs; entries are those of `pack_words`.

AT_ONCE stands for how many rows of a lane are read at once, READ_ROW for one that is there, and
ENTRY_AT for what reads an entry, from memory or from wherever it is. PAIRED says whether the two
rows of a thread are neighbours, or eight apart."""

COLUMNS_WORDS = _of_lanes(
    {
        "LANE_AT": "lane % 4 * 2 * (ROW_PITCH * 4) + lane / 4 * 2 * OUT_BYTES",
        "COLUMN_AT": "j / 2 * 16 + lane / 4 * 2",
        "SUM_AT": "4 * j + i % 2 * 2 + i / 2",
        "EIGHT_AT": "j / 2 * 16 * OUT_BYTES + j % 2 * 8 * (ROW_PITCH * 4)",
    }
)
"""The same where columns of y are the rows of an instruction, of which a lane has two neighbours.

Its columns are eight rows of y, of which a lane has two neighbours as well: PAIRED. Of 16 columns
the sums of the first eight rows come first."""

SHIFTS = """
      own.shift = pairs<float>(terms + 2 * WIDTH + at)"""
"""What reads the float biases, where there are."""
