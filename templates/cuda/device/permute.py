"""Transpositions of arrays of bytes or words: any order of axes, 16 bytes at a time where they fit.

Where the innermost axis stays, rows are copied. Where it moves and both sides have whole vectors,
a thread turns a block of elements in its registers, and it takes apart short rows that lie
together; elsewhere a tile is turned in shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.element import element
from autoq.templates.arrays.permuted_axes import PermutedAxes
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import (
    blocks_for,
    call,
    thread_kernel,
)
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.turned_bytes import TURN_BYTES
from autoq.templates.cuda.device.permute_apart import APART, ApartPlan
from autoq.templates.target import Target

ELEMENT_BYTES = {name: element(name).bytes for name in ("int8", "uint8", "float32", "int32")}
"""Bytes of a value of each dtype that is permuted."""

_MOVED_AS = {1: "uint8", 4: "float32"}
_THREADS = 256
_APART_THREADS = 64
"""Those that take rows apart move most bytes each: small blocks give all units a share."""
_ACCESS_BYTES = 16
_SECTOR_BYTES = 32
_TILE_BYTES = 4096
_LEAST_TILE_BYTES = 512

_COPY = r"""
__device__ __forceinline__ void permute(
    From<T> x, To<T> y, unsigned* shared, int block, int thread) {
  const int item = block * THREADS + thread;
  if (item >= ITEMS) return;
  const int column = item % (A / V) * V, outer = item / (A / V);
  store<T, V>(y + item * V, load<T, V>(x + (IN_OFFSET + column)));
}
"""

_TURN = (
    TURN_BYTES
    + r"""
__device__ __forceinline__ void permute(
    From<T> x, To<T> y, unsigned* shared, int block, int thread) {
  const int item = block * THREADS + thread;
  if (item >= ITEMS) return;
  const int beside = item % BESIDE, rest = item / BESIDE;
  const int a = rest % (A / 4) * 4, b = (rest / (A / 4) % SPANS * BESIDE + beside) * DOWN;
  const int outer = rest / (A / 4) / SPANS;
  if (b >= B) return;
  const int from = IN_OFFSET + b * IN_STRIDE + a, to = OUT_OFFSET + a * OUT_STRIDE + b;
  Raw<T, 4> read[DOWN];
  #pragma unroll
  for (int i = 0; i < DOWN; ++i) read[i] = load<T, 4>(x + (from + i * IN_STRIDE));
  Raw<T, DOWN> turned[4];
  #pragma unroll
  for (int g = 0; g < DOWN / 4; ++g) {
    const unsigned four[4] = {read[4 * g].word[0], read[4 * g + 1].word[0],
                              read[4 * g + 2].word[0], read[4 * g + 3].word[0]};
    unsigned column[4];
    turn_bytes(four, column);
    #pragma unroll
    for (int j = 0; j < 4; ++j) turned[j].word[g] = column[j];
  }
  #pragma unroll
  for (int j = 0; j < 4; ++j) store<T, DOWN>(y + (to + j * OUT_STRIDE), turned[j]);
}
"""
)

# Tiles of TA by TB elements lie in shared memory in the output's order. Where a tile is all of one
# side, its elements are one run in memory there, whatever the length of the other side is.
_TILE = r"""
__device__ __forceinline__ void permute(
    From<T> x, To<T> y, unsigned* shared, int block, int thread) {
  T* tile = reinterpret_cast<T*>(shared);
  const int a = block % TILES_A * TA, b = block / TILES_A % TILES_B * TB;
  const int outer = block / TILES_A / TILES_B;
  const int from = IN_OFFSET + b * IN_STRIDE + a, to = OUT_OFFSET + a * OUT_STRIDE + b;
  constexpr int READS = TA * TB / VA, WRITES = TA * TB / VB;
  #pragma unroll
  for (int step = 0; step < READS; step += THREADS) {
    const int at = (step + thread) * VA, row = at / TA, column = at % TA;
    const bool inside = (READS % THREADS == 0 || at < TA * TB) && b + row < B && a + column < A;
    if (!inside) continue;
    const Raw<T, VA> raw = load<T, VA>(x + (from + (FLAT_IN ? at : row * IN_STRIDE + column)));
    #pragma unroll
    for (int i = 0; i < VA; ++i) {
      const int place =
          FLAT_IN ? (at + i) % TA * PITCH + (at + i) / TA : (column + i) * PITCH + row;
      if constexpr (BITS<T> == 8) tile[place] = (T)(raw.word[i / 4] >> (8 * (i % 4)));
      else tile[place] = __uint_as_float(raw.word[i]);
    }
  }
  __syncthreads();
  #pragma unroll
  for (int step = 0; step < WRITES; step += THREADS) {
    const int at = (step + thread) * VB, row = at / TB, column = at % TB;
    const bool inside = (WRITES % THREADS == 0 || at < TA * TB) && a + row < A && b + column < B;
    if (!inside) continue;
    Raw<T, VB> raw = {};
    #pragma unroll
    for (int i = 0; i < VB; ++i) {
      const int place = FLAT_OUT ? (at + i) / TB * PITCH + (at + i) % TB : row * PITCH + column + i;
      if constexpr (BITS<T> == 8) raw.word[i / 4] |= (unsigned)tile[place] << (8 * (i % 4));
      else raw.word[i] = __float_as_uint(tile[place]);
    }
    store<T, VB>(y + (to + (FLAT_OUT ? at : row * OUT_STRIDE + column)), raw);
  }
}
"""


@dataclass(frozen=True)
class TurnPlan:
    """A thread turns 4 by `down` bytes, and `beside` threads write neighbours of a row of y."""

    down: int
    beside: int

    @classmethod
    def of(cls, axes: PermutedAxes, size: int) -> TurnPlan | None:
        """Rows of 32 bytes, one sector, are written together; None where sides have no vectors."""
        down = math.gcd(axes.sizes[-1], _ACCESS_BYTES)
        if size > 1 or down % 4 or axes.sizes[axes.across] % 4:
            return None
        return cls(down, _SECTOR_BYTES // down)


@dataclass(frozen=True)
class TilePlan:
    """Tiles of `across` neighbours in the input by `down` in the output."""

    across: int
    down: int

    @classmethod
    def of(cls, axes: PermutedAxes, size: int) -> TilePlan:
        """Tiles of 4096 bytes at most: square, or all of a side that is short."""
        across, down = axes.sizes[axes.across], axes.sizes[-1]
        elements = _TILE_BYTES // size
        side = math.isqrt(elements)
        if down <= side:
            return cls(_multiple(across, elements // down, size), down)
        if across <= side:
            return cls(across, _multiple(down, elements // across, size))
        return cls(side, side)


def _multiple(length: int, most: int, size: int) -> int:
    """At most `most` of `length` elements of `size` bytes; 64 bytes, or a multiple, if not all."""
    return length if length <= most else most * size // 64 * 64 // size


def permutes(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str) -> bool:
    """Whether `permute_kernel` is for such an array.

    It is not where a matrix that is turned is so small that most of a block would have no work.
    """
    count = math.prod(shape)
    if dtype not in ELEMENT_BYTES or not 0 < count < 1 << 31:
        return False
    axes, size = PermutedAxes.of(shape, perm), ELEMENT_BYTES[dtype]
    if axes.keeps_rows or TurnPlan.of(axes, size) or ApartPlan.of(axes, size):
        return True
    tile = TilePlan.of(axes, size)
    return tile.across * tile.down * size >= min(_LEAST_TILE_BYTES, count * size)


def permute_kernel(
    shape: tuple[int, ...], perm: tuple[int, ...], dtype: str, target: Target
) -> PrimFunc:
    """The kernel whose y has axis perm[i] of x, `shape`, as axis i; parameters x, y.

    dtype is one of ELEMENT_BYTES; the array has an element at least and fewer than 2^31.
    """
    axes, size = PermutedAxes.of(shape, perm), ELEMENT_BYTES[dtype]
    count, words, threads = math.prod(shape), 0, _THREADS
    turn = None if axes.keeps_rows else TurnPlan.of(axes, size)
    apart = None if axes.keeps_rows else ApartPlan.of(axes, size)
    if axes.keeps_rows:
        values = math.gcd(axes.sizes[-1], _ACCESS_BYTES // size)
        source = _COPY
        sizes = {"V": values, "A": axes.sizes[-1], "ITEMS": count // values}
        blocks = blocks_for(count // values, _THREADS)
    elif turn:
        source, sizes = _TURN, _turn_sizes(axes, turn)
        blocks = blocks_for(sizes["ITEMS"], _THREADS)
    elif apart:
        source, sizes, threads = APART, apart.sizes(axes), _APART_THREADS
        blocks = blocks_for(sizes["ITEMS"], threads)
    else:
        tile = TilePlan.of(axes, size)
        source, sizes = _TILE, _tile_sizes(axes, tile, size)
        words = blocks_for(sizes["PITCH"] * tile.across * size, 4)
        blocks = _outer(axes) * sizes["TILES_A"] * sizes["TILES_B"]
    source = source.replace("IN_OFFSET", f"({offset(axes, 'outer', axes.strides)})")
    source = source.replace("OUT_OFFSET", f"({offset(axes, 'outer', axes.out_strides)})")
    sizes["THREADS"] = threads
    functions = DeviceNamespace("permute", source, {"T": _MOVED_AS[size]}, sizes)
    parameters = [TensorSpec("x", (count,), dtype), TensorSpec("y", (count,), dtype)]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        shared = builder.alloc_buffer((words,), "uint32", scope="shared").data if words else 0
        call(functions.function("permute"), *pointers, shared, block, thread)

    return thread_kernel(parameters, blocks, threads, target, body)


def offset(axes: PermutedAxes, index: str, strides: tuple[int, ...]) -> str:
    """C++ of the place of an index that counts through `others`."""
    terms, after = [], 1
    for axis in reversed(axes.others):
        place = f"{index} / {after}" if after > 1 else index
        terms.append(f"{place} % {axes.sizes[axis]} * {strides[axis]}")
        after *= axes.sizes[axis]
    return " + ".join(reversed(terms)) or "0"


def _outer(axes: PermutedAxes) -> int:
    """How many matrices are turned."""
    return math.prod(axes.sizes[axis] for axis in axes.others)


def _turn_sizes(axes: PermutedAxes, plan: TurnPlan) -> dict[str, int]:
    across, down = axes.sizes[axes.across], axes.sizes[-1]
    spans = blocks_for(down, plan.down * plan.beside)
    return {
        **_strides(axes),
        "DOWN": plan.down,
        "BESIDE": plan.beside,
        "SPANS": spans,
        "ITEMS": _outer(axes) * spans * (across // 4) * plan.beside,
    }


def _tile_sizes(axes: PermutedAxes, plan: TilePlan, size: int) -> dict[str, int]:
    strides = _strides(axes)
    most = _ACCESS_BYTES // size
    flat_in = plan.across == strides["A"] == strides["IN_STRIDE"]
    flat_out = plan.down == strides["B"] == strides["OUT_STRIDE"]
    ends = (plan.across, strides["A"]), (plan.down, strides["B"])
    (across, whole_across), (down, whole_down) = ends
    reads = math.gcd(across * down, across * whole_down) if flat_in else math.gcd(*ends[0])
    writes = math.gcd(across * down, whole_across * down) if flat_out else math.gcd(*ends[1])
    pitch = down if flat_out else down + max(4 // size, 1)
    return {
        **strides,
        "TA": across,
        "TB": down,
        "TILES_A": blocks_for(whole_across, across),
        "TILES_B": blocks_for(whole_down, down),
        "VA": math.gcd(reads, most),
        "VB": math.gcd(writes, most),
        "FLAT_IN": flat_in,
        "FLAT_OUT": flat_out,
        "PITCH": pitch,
    }


def _strides(axes: PermutedAxes) -> dict[str, int]:
    return {
        "A": axes.sizes[axes.across],
        "B": axes.sizes[-1],
        "IN_STRIDE": axes.strides[-1],
        "OUT_STRIDE": axes.out_strides[axes.across],
    }
