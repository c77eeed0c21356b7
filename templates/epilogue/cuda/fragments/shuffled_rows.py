"""CUDA source of the epilogue that packs output bytes into words by warp shuffles.

After "Learning from Distinctive Candidates to Optimize Reduced-Precision Convolution Program on
Tensor Cores", section 3.2 (figures 9 and 10): the four lanes of a fragment row hold two channels
each of every 8-channel column tile. Four tiles together give every lane a full 8 bytes: two
exchanges transpose the lanes' four half words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from autoq.templates.arrays.storage import is_four_bit, stored_bytes
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.device.memory.word_vectors import VECTORS
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.fragments.two_rows import (
    residual_words,
    row_head,
    row_outputs,
    row_stores,
    rows_function,
)
from autoq.templates.epilogue.cuda.values.requantisation import Requantisation

TILES = 4
"""Column tiles that are packed together."""
LANE_CHANNELS = 8
"""Consecutive output channels that a lane stores of them."""
_PAIR_CHANNELS = 16
"""Channels of two column tiles."""

# Half word h of lane l becomes half word l of lane h, for the four lanes of a fragment row.
_TRANSPOSE = r"""
__device__ __forceinline__ void transpose_@(unsigned& low, unsigned& high) {
  const bool upper = threadIdx.x & 2, odd = threadIdx.x & 1;
  unsigned other = __shfl_xor_sync(0xffffffffu, upper ? low : high, 2);
  const unsigned first = upper ? other : low, second = upper ? high : other;
  const unsigned sent = __byte_perm(first, second, odd ? 0x5410 : 0x7632);
  other = __shfl_xor_sync(0xffffffffu, sent, 1);
  low = __byte_perm(first, other, odd ? 0x3254 : 0x5410);
  high = __byte_perm(second, other, odd ? 0x3276 : 0x7610);
}
"""


@dataclass(frozen=True)
class ShuffledRows:
    """Epilogue of the two fragment rows of a thread over four column tiles, packed by shuffles.

    `pitch` is the number of output channels of a row (a group's), `tail` says that a tile may
    reach beyond them, `block_pitch` how many elements 16 channels of a residual lie apart. All 32
    lanes of a warp call together, and a block's threads are numbered along x. Outputs are bytes, or
    nibbles of rows of an even number of channels; residuals are bytes or float32.
    """

    epilogue: Epilogue
    pitch: int
    tail: bool
    row_bias: bool = False
    block_pitch: int = _PAIR_CHANNELS

    @property
    def residual_words(self) -> int:
        """Registers that hold one row's residual."""
        return residual_words(self.epilogue, 2 * TILES)

    def load(self) -> DeviceFunction:
        """load(words, residual pointer, ok, channels left): one row's residual.

        The pointer is at the lane's pair of the first tile, and `left` counts from there.
        """
        dtype = self.epilogue.residual_dtype or "int8"
        size = stored_bytes((1,), dtype)
        width = math.gcd(2 * size, self.pitch * size)
        lines = [row_head("load_residual", self.epilogue)]
        lines += [f"  words[{word}] = 0;" for word in range(self.residual_words)]
        for tile in range(TILES):
            source = tile // 2 * self.block_pitch + tile % 2 * 8
            for offset in range(0, 2 * size, width):
                value, byte = offset // size, tile * 2 * size + offset
                guard = f"ok && {tile * 8 + value} < left" if self.tail else "ok"
                load = f"__ldg(reinterpret_cast<const {VECTORS[width]}*>(residual + "
                load += f"{source + value}))"
                lines.append(f"  if ({guard}) {_put(width, byte, load)}")
        return device_function("load_residual", "\n".join([*lines, "}\n"]))

    def rows(self) -> DeviceFunction:
        """rows(acc, scale, bias0, bias1, scalars, words0, words1, y0, y1, ok0, ok1, left).

        acc: accumulators of four column tiles, [4][row][2]. Pointers of scale and bias are at the
        lane's pair of the first tile, those of y at the 8 channels that the lane stores, from
        which `left` counts; bias1 is read with `row_bias` only.
        """
        requantisation = Requantisation(self.epilogue)
        body = []
        for tile in range(TILES):
            body += self._operands(tile)
        for row in range(2):
            for word in range(2):
                channels = [(2 * word + e // 2, e % 2) for e in range(4)]
                totals = [self._total(row, *channel) for channel in channels]
                scales = [f"s{tile}.{'xy'[e]}" for tile, e in channels]
                body += row_outputs(requantisation, row, word, totals, scales)
            body.append(f"  transpose_@(out{row}[0], out{row}[1]);")
            if is_four_bit(self.epilogue.out_dtype):
                body.append(f"  out{row}[0] = narrow8_@(out{row}[0], out{row}[1]);")
            body += row_stores(row, self._accesses(), self.tail)
        return rows_function(requantisation, 2, body, _TRANSPOSE)

    def _operands(self, tile: int) -> list[str]:
        """Scale and bias of the lane's two channels of a tile; tiles are 8 channels apart."""
        at = f"+ {tile * 4})"
        second_bias = f"__ldg(reinterpret_cast<const int2*>(bias1) {at}"
        return [
            f"  const float2 s{tile} = __ldg(reinterpret_cast<const float2*>(scale) {at};",
            f"  const int2 a{tile} = __ldg(reinterpret_cast<const int2*>(bias0) {at};",
            f"  const int2 b{tile} = {second_bias if self.row_bias else f'a{tile}'};",
        ]

    def _total(self, row: int, tile: int, value: int) -> str:
        """Accumulator of one channel of one row, with its bias."""
        return f"(int)acc[{tile * 4 + row * 2 + value}] + {'ab'[row]}{tile}.{'xy'[value]}"

    def _accesses(self) -> Iterator[tuple[int, int, int, int]]:
        """Stores of a lane: byte offset, bytes, first channel, offset of the row's pointer."""
        size = stored_bytes((LANE_CHANNELS,), self.epilogue.out_dtype)
        width = math.gcd(size, stored_bytes((self.pitch,), self.epilogue.out_dtype))
        for offset in range(0, size, width):
            yield offset, width, offset * LANE_CHANNELS // size, offset


def _put(width: int, byte: int, value: str) -> str:
    """Statement that puts a loaded value of `width` bytes at a byte of zeroed `words`."""
    first = byte // 4
    if width == 8:
        return f"{{ uint2 v = {value}; words[{first}] = v.x, words[{first + 1}] = v.y; }}"
    if width == 4:
        return f"words[{first}] = {value};"
    return f"words[{first}] |= (unsigned){value} << {8 * (byte % 4)};"
