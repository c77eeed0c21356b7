"""CUDA source of gathers from a panel of b in shared memory, by transposing ldmatrix.

A row of the panel holds 2, 4 or 8 chunks of 16 bytes. ldmatrix.trans takes the address of a row
from each lane and gives a lane units of two bytes of rows 2t and 2t + 1 of each matrix: of two
matrices, the even bytes are one column of four rows, the odd ones its neighbour, or the other digit
of integers of 16 bits. Floats need no permutes: two rows of a column are what a product takes.
Units are dealt to chunks in turn, so that a lane's columns are neighbours in b. Chunks change
places by the row's number modulo 8: eight rows that differ so have no conflict.

Gathers, those of `nibble_source.py` too, clobber no memory: what they read is written once, in
front of the block's barrier, which volatile statements do not pass. Between them loads of values
and places of later steps may move freely, which a clobber would forbid.
"""

from __future__ import annotations

PANEL_SOURCE = r"""
constexpr int CHUNKS = ROW_BYTES / 16, CHUNK_COLUMNS = COLUMNS / CHUNKS;
constexpr bool WIDENS = NIBBLES && DIGIT_BITS == 8;

// What a chunk of the panel is in b, and as it is stored: nibbles are widened behind all loads, so
// that none is waited for by the next.
template <bool NARROW> struct InB { using Chunk = uint4; };
template <> struct InB<true> { using Chunk = uint2; };
using Chunk = InB<WIDENS>::Chunk;
// Of two chunks a row, columns of the first one come first.
__device__ __forceinline__ uint4 whole(uint2 chunk) {
  if constexpr (CHUNKS != 2) return widened(chunk);
  uint4 bytes;
  widen<0x6240, 0x7351>(chunk.x, bytes.x, bytes.z);
  widen<0x6240, 0x7351>(chunk.y, bytes.y, bytes.w);
  return bytes;
}
__device__ __forceinline__ uint4 whole(uint4 chunk) { return chunk; }
// A chunk of a row of b from `column` on; 0 behind the last column.
__device__ __forceinline__ Chunk load_columns(const B* b, int row, int column) {
  if (!COLUMNS_INSIDE && column >= N) return {};
  const Chunk* from =
      reinterpret_cast<const Chunk*>(b + (row * N + column) / (NIBBLES ? 2 : 1));
  return STREAMED ? __ldcs(from) : __ldg(from);
}
// The second place of row `low` of an eight, which has other banks: an eight's rows are turned.
__device__ __forceinline__ unsigned second_place(unsigned eight, unsigned low) {
  const unsigned turned = eight % 8 == 7 ? 4 : 1 + eight % 8;
  return FIRST_COPY + eight * 8 + (low + turned) % 8;
}
__device__ __forceinline__ void store_columns(
    unsigned char* panel, unsigned row, unsigned at, uint4 v) {
  unsigned char* row_start = panel + row * ROW_BYTES;
  const unsigned words[4] = {v.x, v.y, v.z, v.w};
  if constexpr (CHUNKS == 1) *reinterpret_cast<uint4*>(row_start) = v;
  const unsigned moved = row % 8 * CHUNKS / 8;
  unsigned char* to = row_start + at / 2 / CHUNKS * 2;
  #pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    unsigned char* place = to + (c ^ moved) * 16;
    const unsigned halves = c % 2 ? 0x7632 : 0x5410;
    if constexpr (CHUNKS == 2 && WIDENS) {
      *reinterpret_cast<uint2*>(place) = make_uint2(words[2 * c], words[2 * c + 1]);
    } else if constexpr (CHUNKS == 2) {
      *reinterpret_cast<uint2*>(place) = make_uint2(
          __byte_perm(words[0], words[1], halves), __byte_perm(words[2], words[3], halves));
    } else if constexpr (CHUNKS == 4) {
      *reinterpret_cast<unsigned*>(place) = __byte_perm(words[c / 2], words[2 + c / 2], halves);
    } else if constexpr (CHUNKS == 8) {
      *reinterpret_cast<unsigned short*>(place) = (unsigned short)(words[c / 2] >> 16 * (c % 2));
    }
  }
}

__device__ __forceinline__ void store_value(unsigned char* panel, int row, int byte, int value) {
  const int chunk = byte / 2 % CHUNKS ^ row % 8 * CHUNKS / 8;
  unsigned char* to = panel + row * ROW_BYTES + chunk * 16 + byte / 2 / CHUNKS * 2 + byte % 2;
  if constexpr (RIGHT_DIGITS == 1) *to = (unsigned char)value;
  else *reinterpret_cast<unsigned short*>(to) = (unsigned short)value;
}

// Pieces of 16 bytes of the panel that a thread reads at once, of some turns. From one turn to
// the next a thread goes on by whole eights of rows, so that its place in an eight stays.
constexpr int PIECES = K * CHUNKS, TURNS = (PIECES + THREADS - 1) / THREADS;
constexpr int AT_ONCE = WIDENS ? 8 : 4;  // 64 bytes
constexpr unsigned EIGHTS_A_TURN = THREADS / CHUNKS / 8;
struct PanelPieces { Chunk columns[AT_ONCE]; };
struct Piece {
  unsigned eight, low, at;
  __device__ __forceinline__ Piece(unsigned thread, int turn)
      : eight(thread / (8 * CHUNKS) + turn * EIGHTS_A_TURN), low(thread / CHUNKS % 8),
        at(thread % CHUNKS) {}
  __device__ __forceinline__ unsigned row() const { return eight * 8 + low; }
  __device__ __forceinline__ bool is_there(int turn) const {
    return (TURNS % AT_ONCE == 0 || turn < TURNS) && (PIECES % THREADS == 0 || row() < K);
  }
};
__device__ __forceinline__ void read_pieces(
    PanelPieces& held, const B* b, int first_column, int thread, int turn) {
  #pragma unroll
  for (int u = 0; u < AT_ONCE; ++u) {
    const Piece piece(thread, turn + u);
    if (piece.is_there(turn + u))
      held.columns[u] = load_columns(b, piece.row(), first_column + piece.at * CHUNK_COLUMNS);
  }
}
__device__ __forceinline__ void store_pieces(
    unsigned char* panel, const PanelPieces& held, int thread, int turn) {
  #pragma unroll
  for (int u = 0; u < AT_ONCE; ++u) {
    const Piece piece(thread, turn + u);
    if (!piece.is_there(turn + u)) continue;
    const uint4 columns = whole(held.columns[u]);
    store_columns(panel, piece.row(), piece.at * 16, columns);
    if constexpr (COPIED_ROWS > 0)
      if (piece.row() < COPIED_ROWS)
        store_columns(panel, second_place(piece.eight, piece.low), piece.at * 16, columns);
  }
}
// The first pieces are on their way while a warp reads what it multiplies.
__device__ __forceinline__ void start_panel(
    PanelPieces& first, const B* b, int first_column, int thread) {
  if constexpr (WHOLE) read_pieces(first, b, first_column, thread, 0);
}
// Columns of b from first_column on, to shared memory; those behind the last are 0.
__device__ __forceinline__ void load_panel(
    unsigned char* panel, PanelPieces& held, const B* b, int first_column, int thread) {
  if constexpr (WHOLE) {
    store_pieces(panel, held, thread, 0);
    #pragma unroll 1
    for (int turn = AT_ONCE; turn < TURNS; turn += AT_ONCE) {
      read_pieces(held, b, first_column, thread, turn);
      store_pieces(panel, held, thread, turn);
    }
  } else {
    for (int i = thread; i < K * COLUMNS; i += THREADS) {
      const int row = i / COLUMNS, column = first_column + i % COLUMNS, at = i % COLUMNS;
      int value = 0;
      if (column < N) {
        if constexpr (NIBBLES) {
          const int two = b[row * ((N + 1) / 2) + column / 2];
          value = two >> 4 * (column % 2) & 15 ^ (SIGNS & 15);
        } else {
          value = b[row * N + column];
        }
      }
      store_value(panel, row, at * RIGHT_DIGITS, value);
      if (row < COPIED_ROWS)
        store_value(panel, second_place(row / 8, row % 8), at * RIGHT_DIGITS, value);
    }
  }
}
"""
"""The panel, and how it is filled."""

STAGED_SOURCE = (
    PANEL_SOURCE
    + r"""
struct Step { uint2 values[LEFT_DIGITS]; unsigned short place; };
using Place = unsigned short;
__device__ __forceinline__ const Place* own_places(const void* places, int start, int number) {
  return reinterpret_cast<const Place*>(places) + start * 32 + number;
}
__device__ __forceinline__ void fetch_places(Step& step, const Place* places, int number) {
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(step.place) : "l"(places + number * 32));
}
__device__ __forceinline__ void fetch_first_places(Step& step, const Place* places, int number) {
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(step.place) : "l"(places + number * 32) : "memory");
}

// The chunk at a lane's row of each of four matrices: even and odd bytes of the first two rows of
// eight, then of the others.
__device__ __forceinline__ void gather_pairs(unsigned (&r)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void gather(unsigned (&even)[2], unsigned (&odd)[2], unsigned at) {
  unsigned r[4];
  gather_pairs(r, at);
  #pragma unroll
  for (int half = 0; half < 2; ++half) {
    even[half] = __byte_perm(r[2 * half], r[2 * half + 1], 0x6420);
    odd[half] = __byte_perm(r[2 * half], r[2 * half + 1], 0x7531);
  }
}
template <int RIGHT> __device__ __forceinline__ void multiply_pair(
    int* d, const unsigned (&first)[2], const unsigned (&second)[2], const Step& step) {
  const unsigned a[4] = {first[0], second[0], first[1], second[1]};
  product<0, RIGHT>(d + RIGHT * SUMS, a, step.values[0]);
  if constexpr (LEFT_DIGITS == 2) product<1, RIGHT>(d + (RIGHT + 1) * SUMS, a, step.values[1]);
}
__device__ __forceinline__ void multiply_step(
    int (&sums)[ALL_SUMS], const Step& step, unsigned panel, const B* b, const Lane& lane) {
  const unsigned at = panel + step.place * 16;  // the panel is aligned to 128 bytes
  #pragma unroll
  for (int c = 0; c < CHUNKS; c += RIGHT_DIGITS) {
    if constexpr (FLOATS) {
      unsigned first[4], second[4];
      gather_pairs(first, at ^ c * 16);
      gather_pairs(second, at ^ (c + 1) * 16);
      #pragma unroll
      for (int half = 0; half < LEFT_DIGITS; ++half) {
        const unsigned a[4] = {first[2 * half], second[2 * half], first[2 * half + 1],
                               second[2 * half + 1]};
        product<0, 0>(sums + 2 * c, a, step.values[half]);
      }
      continue;
    }
    unsigned even[2], odd[2];
    gather(even, odd, at ^ c * 16);
    if constexpr (RIGHT_DIGITS == 1) {
      multiply_pair<0>(sums + 4 * c, even, odd, step);
    } else {
      unsigned next_even[2], next_odd[2];
      gather(next_even, next_odd, at ^ (c + 1) * 16);
      multiply_pair<0>(sums + 2 * c, even, next_even, step);
      multiply_pair<RIGHT_DIGITS - 1>(sums + 2 * c, odd, next_odd, step);
    }
  }
}
"""
)
