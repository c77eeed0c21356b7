"""CUDA source of the epilogue of a thread's fragment rows: consecutive channels of two rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.device.memory.word_vectors import VECTORS, gather, scatter
from autoq.templates.element import element
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.elements import element_source
from autoq.templates.epilogue.cuda.lookup_source import looked_up, lookup_source, table_parameter
from autoq.templates.storage import is_four_bit, stored_bytes


@dataclass(frozen=True)
class RowEpilogue:
    """Epilogue of the two fragment rows of a thread, `channels` consecutive channels of each.

    `pitch` is the number of output channels; `tail` says that a tile may reach beyond them.
    Pointers of scale and bias are 16-byte aligned and readable for all `channels`; without `bias`
    the accumulators hold it already.
    """

    epilogue: Epilogue
    channels: int
    pitch: int
    tail: bool
    row_bias: bool = False
    bias: bool = True

    @property
    def residual_words(self) -> int:
        """Registers that hold one row's residual."""
        if self.epilogue.residual_dtype is None:
            return 0
        return _words(self.channels, self.epilogue.residual_dtype)

    def load(self) -> DeviceFunction:
        """load(words, residual pointer, ok, channels left): one row's residual."""
        dtype = self.epilogue.residual_dtype or "int8"
        lines = [
            f"__device__ __forceinline__ void load_residual_@(unsigned* words, const "
            f"{element(dtype).c_type}* residual, int ok, int left) {{"
        ]
        for offset, width, channel, place in self._vectors(dtype):
            guard = f"ok && {channel} < left" if self.tail else "ok"
            lines.append(f"  {{ {VECTORS[width]} v = {{}};")
            lines.append(
                f"  if ({guard}) v = __ldg(reinterpret_cast<const {VECTORS[width]}*>(residual"
                f" + {place}));"
            )
            lines += [f"  {text}" for text in scatter(width, offset)]
            lines.append("  }")
        return device_function("load_residual", "\n".join([*lines, "}\n"]))

    def rows(self) -> DeviceFunction:
        """rows(acc, scale, bias0, bias1, scalars, words0, words1, y0, y1, ok0, ok1, left).

        acc: accumulators of one group of columns, [channels / 2][row][2]; bias1 is read with
        `row_bias` only; scale and scalars are not read for int32 outputs (any pointer will do);
        words: residual registers of each row. The table comes last where the epilogue has one.
        """
        out = element(self.epilogue.out_dtype).c_type
        lines = [
            "__device__ __forceinline__ void requantise_rows_@(const unsigned* acc,",
            "    const void* scale, const int* bias0, const int* bias1, const void* scalars,",
            f"    const unsigned* words0, const unsigned* words1, {out}* y0, {out}* y1,",
            f"    int ok0, int ok1, int left{table_parameter(self.epilogue)}) {{",
            "  const float4 first = __ldg(reinterpret_cast<const float4*>(scalars));",
            "  const float4 second = __ldg(reinterpret_cast<const float4*>(scalars) + 1);",
            f"  unsigned out0[{self._out_words}], out1[{self._out_words}];",
        ]
        for quad in range(self.channels // 4):
            lines += self._quad(quad)
        for row in range(2):
            if is_four_bit(self.epilogue.out_dtype):
                lines += self._narrow(row)
            lines += self._stores(row)
        source = element_source(self.epilogue) + lookup_source(self.epilogue)
        return device_function("requantise_rows", source + "\n".join([*lines, "}\n"]))

    @property
    def _out_words(self) -> int:
        """Registers of a row's outputs; those of 4 bits are bytes before they are narrowed."""
        return max(self.channels // 4, _words(self.channels, self.epilogue.out_dtype))

    def _vectors(self, dtype: str) -> Iterator[tuple[int, int, int, int]]:
        """Accesses of a row: byte offset, bytes, first channel, offset of the row's pointer.

        Each is the widest that a row of `pitch` elements keeps aligned.
        """
        bits = element(dtype).bits
        size = self.channels * bits // 8
        width = math.gcd(16, size, stored_bytes((self.pitch,), dtype))
        for offset in range(0, size, width):
            yield offset, width, offset * 8 // bits, offset * 8 // max(bits, 8)

    def _quad(self, quad: int) -> list[str]:
        lines = [
            f"  {{ const float4 s = __ldg(reinterpret_cast<const float4*>(scale) + {quad});",
        ]
        if self.epilogue.out_dtype == "int32":
            lines[0] = "  {"
        lines += self._bias(quad)
        for row in range(2):
            lines += self._quad_row(quad, row)
        return [*lines, "  }"]

    def _bias(self, quad: int) -> list[str]:
        if not self.bias:
            return ["  const int4 b0 = {0, 0, 0, 0}, b1 = b0;"]
        second_bias = f"__ldg(reinterpret_cast<const int4*>(bias1) + {quad})"
        return [
            f"  const int4 b0 = __ldg(reinterpret_cast<const int4*>(bias0) + {quad});",
            f"  const int4 b1 = {second_bias if self.row_bias else 'b0'};",
        ]

    def _quad_row(self, quad: int, row: int) -> list[str]:
        """Four channels of one row, from accumulators to output words."""
        totals = [
            f"(int)acc[{(2 * quad + e // 2) * 4 + row * 2 + e % 2}] + b{row}.{'xyzw'[e]}"
            for e in range(4)
        ]
        if self.epilogue.out_dtype == "int32":
            return [f"  out{row}[{4 * quad + e}] = {totals[e]};" for e in range(4)]
        values = []
        for e in range(4):
            index, place = self._residual_place(4 * quad + e)
            addend = f"addend_@(words{row}[{index}], {place}, second)"
            if self.epilogue.residual_dtype is None:
                addend = "0.f"
            values.append(f"rescale_@({totals[e]}, s.{'xyzw'[e]}, {addend}, first, second)")
        if self.epilogue.out_dtype == "float32":
            clamp = "__float_as_uint(bounded_@({}, second))"
            return [f"  out{row}[{4 * quad + e}] = {clamp.format(values[e])};" for e in range(4)]
        arguments = ",\n    ".join(values)
        word = looked_up(self.epilogue, f"quantise4_@({arguments}, second)")
        return [f"  out{row}[{quad}] = {word};"]

    def _residual_place(self, channel: int) -> tuple[int, int]:
        """Register of a channel's residual, and which of its values it is."""
        values = element(self.epilogue.residual_dtype or "int8").per_word
        return channel // values, channel % values

    def _narrow(self, row: int) -> list[str]:
        """Bytes to nibbles; of rows of an odd number of values the last nibble is 0."""
        lines = []
        for word in range(_words(self.channels, self.epilogue.out_dtype)):
            second = f"out{row}[{2 * word + 1}]" if 8 * word + 4 < self.channels else "0u"
            lines.append(f"  out{row}[{word}] = narrow8_@(out{row}[{2 * word}], {second});")
            if self.pitch % 2:
                lines.append(
                    f"  if (left < {8 * word + 8}) out{row}[{word}] &= "
                    f"left > {8 * word} ? (1u << 4 * (left - {8 * word})) - 1u : 0u;"
                )
        return lines

    def _stores(self, row: int) -> list[str]:
        lines = []
        for offset, width, channel, place in self._vectors(self.epilogue.out_dtype):
            guard = f"ok{row} && {channel} < left" if self.tail else f"ok{row}"
            value = gather(width, offset, f"out{row}")
            lines.append(
                f"  if ({guard}) *reinterpret_cast<{VECTORS[width]}*>(y{row} + {place}) = {value};"
            )
        return lines


def _words(channels: int, dtype: str) -> int:
    """Registers that hold a row's values as they are stored."""
    return -(-channels // element(dtype).per_word)
