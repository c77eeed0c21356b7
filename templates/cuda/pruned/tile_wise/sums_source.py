"""CUDA source of outputs by way of sums: any epilogue, with the terms of the columns of y.

Sums lie in shared memory until a lane reads those of neighbouring columns of y, and adds what
belongs to them: residuals lie there, and so do scales of rows.
"""

from __future__ import annotations

_SUMS = r"""
// A row of words whose place ZERO stays 0, for columns that no tile has.
constexpr int ROW_PITCH = (WIDTH + 31) / 32 * 32 + 8, ZERO = ROW_PITCH - 8;
__device__ __forceinline__ void begin_rows(unsigned* rows, int lane) {
  if (lane < 16) rows[lane * ROW_PITCH + ZERO] = 0;
}

// Terms are read where they are, and so are places.
__device__ __forceinline__ void begin_terms(int*, const Constants&, int, int, int) {}
__device__ __forceinline__ void await_terms(int) {}
__device__ __forceinline__ int4 read_entry(const void*, const int4&, int) { return {}; }

LAY_OUT// Outputs [first, last) among the V columns from `column` on.
__device__ __forceinline__ void store_part(
    OUT* y, const Raw<OUT, V>& raw, int at, int column, int first, int last) {
  #pragma unroll
  for (int i = 0; i < V; ++i) {
    if (column + i < first || column + i >= last) continue;
    constexpr int PER = 32 / BITS<OUT>;
    store<OUT, 1>(y + at + i, Raw<OUT, 1>{raw.word[i / PER] >> (i % PER * BITS<OUT> % 32)});
  }
}

// Of a warp's 16 rows of y the first `count`, columns [tile.z, stop).
template <Form FORM> __device__ __forceinline__ void finish_rows(
    const unsigned* sums, const Constants& from, const int* places, OUT* y, int first_row,
    int count, const int4& tile, int lane) {
  const int stop = tile.z + tile.w;
  for (int column = tile.z / V * V + lane * V; column < stop; column += 32 * V) {
    int place[V];
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      const bool own = column + i >= tile.z && column + i < stop;
      place[i] = own ? __ldg(places + column + i) : ZERO;
    }
    const bool whole = column >= tile.z && column + V <= stop;
    Channels own = channels(from, column);
    const Raw<ACC, V> bias = load<ACC, V>(from.bias + column);
    #pragma unroll 2
    for (int r = 0; r < 16; ++r) {
      const int row = first_row + r, at = row * N + column;
      if (r >= count) break;
      ACC acc[V];
      #pragma unroll
      for (int i = 0; i < V; ++i) acc[i] = sums[r * ROW_PITCH + place[i]];
      Raw<ADDEND, V> addends = {};
      if constexpr (RESIDUAL) addends = load<ADDEND, V>(from.residual + at);ROW_SCALE;
      const Raw<OUT, V> raw = outputs<FORM>(acc, bias, addends, own);
      if (whole) store<OUT, V>(y + at, raw);
      else store_part(y, raw, at, column, tile.z, stop);
    }
  }
}
__device__ __forceinline__ void store_rows(
    const unsigned* sums, const Constants& from, const void* given, const int4&, OUT* y,
    int first_row, int count, const int4& tile, int lane) {
  const int* places = static_cast<const int*>(given);
  const Form form = shared_terms(from).form;
  if (SATURATES && form == Form::PACK)
    finish_rows<SATURATES ? Form::PACK : Form::ANY>(
        sums, from, places, y, first_row, count, tile, lane);
  else if (SATURATES && form == Form::SHIFT)
    finish_rows<SATURATES ? Form::SHIFT : Form::ANY>(
        sums, from, places, y, first_row, count, tile, lane);
  else
    finish_rows<SATURATES ? Form::CLAMP : Form::ANY>(
        sums, from, places, y, first_row, count, tile, lane);
}
"""

_ROWS = r"""// 16 rows of sums of a warp in shared memory, in the order of y; `to` is the warp's.
__device__ __forceinline__ void lay_out(
    const SUM* sums, unsigned* to, const int*, const Constants&, int lane) {
  unsigned* own = to + (lane / 4) * (PAIRED ? 2 : 1) * ROW_PITCH;
  constexpr int HALF = (PAIRED ? 1 : 8) * ROW_PITCH;
  #pragma unroll
  for (int part = 0; part < 4; ++part) {  // those of every fourth group of 32 columns
    #pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      unsigned* at = own + ((lane % 4 * 2 + odd) ^ part);
      #pragma unroll
      for (int j = 0; j < WIDTH / 8; ++j) {
        if (j / 4 % 4 != part) continue;
        at[8 * j] = bits_of(sums[4 * j + odd]);
        at[8 * j + HALF] = bits_of(sums[4 * j + 2 + odd]);
      }
    }
  }
}

"""

_COLUMNS = r"""// 16 rows of sums of a warp, of instructions whose rows are columns of y.
__device__ __forceinline__ void lay_out(
    const SUM* sums, unsigned* to, const int*, const Constants&, int lane) {
  #pragma unroll
  for (int j = 0; j < WIDTH / 8; ++j) {
    unsigned* own = to + (j % 2 * 8 + lane % 4 * 2) * ROW_PITCH;
    #pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int column = j / 2 * 16 + lane / 4 * 2 + odd, at = column ^ j / 4 % 4;
      own[at] = bits_of(sums[4 * j + 2 * odd]);
      own[at + ROW_PITCH] = bits_of(sums[4 * j + 2 * odd + 1]);
    }
  }
}

"""

SUMS = _SUMS.replace("LAY_OUT", _ROWS)
"""begin_rows, begin_terms, await_terms, read_entry, lay_out and store_rows of sums."""

COLUMNS_SUMS = _SUMS.replace("LAY_OUT", _COLUMNS)
"""The same of sums as `words_source.COLUMNS_WORDS` has them."""
