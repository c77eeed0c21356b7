"""CUDA source of the epilogue of a thread's fragment rows: consecutive channels of two rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import is_four_bit, stored_bytes
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.device.memory.word_vectors import VECTORS, scatter
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.fragments.two_rows import (
    residual_words,
    row_head,
    row_outputs,
    row_stores,
    rows_function,
)
from autoq.templates.epilogue.cuda.values.elements import value_factors
from autoq.templates.epilogue.cuda.values.requantisation import (
    OF_ONE_SCALE,
    SHORT,
    Form,
    Requantisation,
)


@dataclass(frozen=True)
class FragmentRows:
    """Epilogue of the two fragment rows of a thread, `channels` consecutive channels of each.

    `pitch` is the number of output channels; `tail` says that a tile may reach beyond them.
    Pointers of scale and bias are 16-byte aligned and readable for all `channels`; without `bias`,
    as in short forms, the accumulators hold it already (`started_rows.py`). A float bias or
    a factor lies `shift_at` numbers behind its scale, a multiple of 4, and of a dynamic epilogue
    the sum of a channel's weights `columns_at` numbers behind its bias, such a multiple too.
    """

    epilogue: Epilogue
    channels: int
    pitch: int
    tail: bool
    row_bias: bool = False
    bias: bool = True
    shift_at: int = 0
    columns_at: int = 0

    @property
    def residual_words(self) -> int:
        """Registers that hold one row's residual."""
        return residual_words(self.epilogue, self.channels)

    def load(self) -> DeviceFunction:
        """load(words, residual pointer, ok, channels left): one row's residual."""
        lines = [row_head("load_residual", self.epilogue)]
        dtype = self.epilogue.residual_dtype or "int8"
        for offset, width, channel, place in self.vectors(dtype):
            guard = f"ok && {channel} < left" if self.tail else "ok"
            lines.append(f"  {{ {VECTORS[width]} v = {{}};")
            lines.append(
                f"  if ({guard}) v = __ldg(reinterpret_cast<const {VECTORS[width]}*>(residual"
                f" + {place}));"
            )
            lines += [f"  {text}" for text in scatter(width, offset)]
            lines.append("  }")
        return device_function("load_residual", "\n".join([*lines, "}\n"]))

    def rows(self, form: Form = Form.ANY) -> DeviceFunction:
        """rows(acc, scale, bias0, bias1, scalars, words0, words1, y0, y1, ok0, ok1, left).

        acc: accumulators of one group of columns, [channels / 2][row][2]; bias1 is read with
        `row_bias` only; scale and scalars are not read for int32 outputs (any pointer will do);
        words: residual registers of each row. Scales of both rows, or the numbers of the run that a
        dynamic epilogue has, come behind, and last the table, where the epilogue has them.

        A short form has limits and the residual's zero point instead of biases and scalars: the
        eight numbers of `short_forms/words.py` in registers; scale is then a thread's place
        in the shared table of `epilogue_table.py`.
        """
        requantisation = Requantisation(self.epilogue, form)
        body = []
        for quad in range(self.channels // 4):
            body += ["  {", *self.operands(quad, form)]
            for row in range(2):
                totals = [self.total(quad, row, e, form) for e in range(4)]
                scales = [
                    value_factors(self.epilogue, self.scale(part, form), f"row{row}", f"f.{part}")
                    for part in "xyzw"
                ]
                body += row_outputs(requantisation, row, quad, totals, scales)
            body.append("  }")
        for row in range(2):
            if is_four_bit(self.epilogue.out_dtype):
                body += self._narrow(row)
            body += row_stores(row, self.vectors(self.epilogue.out_dtype), self.tail)
        return rows_function(requantisation, self._out_words, body)

    @property
    def _out_words(self) -> int:
        """Registers of a row's outputs; those of 4 bits are bytes before they are narrowed."""
        return max(self.channels // 4, _words(self.channels, self.epilogue.out_dtype))

    def vectors(self, dtype: str) -> Iterator[tuple[int, int, int, int]]:
        """Accesses of a row: byte offset, bytes, first channel, offset of the row's pointer.

        Each is the widest that a row of `pitch` elements keeps aligned.
        """
        bits = element(dtype).bits
        size = self.channels * bits // 8
        width = math.gcd(16, size, stored_bytes((self.pitch,), dtype))
        for offset in range(0, size, width):
            yield offset, width, offset * 8 // bits, offset * 8 // max(bits, 8)

    def operands(self, quad: int, form: Form) -> list[str]:
        """Scale and bias of four channels."""
        if form in OF_ONE_SCALE:
            return []
        if form in SHORT:
            return [f"  const float4 s = reinterpret_cast<const float4*>(scale)[{4 * quad}];"]
        lines = []
        if self.epilogue.out_dtype != "int32" and not self.epilogue.scale_group:
            lines = [f"  const float4 s = __ldg(reinterpret_cast<const float4*>(scale) + {quad});"]
        if self.epilogue.float_bias or self.epilogue.factor:
            place = self.shift_at // 4 + quad
            lines.append(
                f"  const float4 f = __ldg(reinterpret_cast<const float4*>(scale) + {place});"
            )
        if self.bias:
            second_bias = f"__ldg(reinterpret_cast<const int4*>(bias1) + {quad})"
            lines += [
                f"  const int4 b0 = __ldg(reinterpret_cast<const int4*>(bias0) + {quad});",
                f"  const int4 b1 = {second_bias if self.row_bias else 'b0'};",
            ]
        if self.epilogue.dynamic:
            place = self.columns_at // 4 + quad
            lines.append(f"  const int4 w = __ldg(reinterpret_cast<const int4*>(bias0) + {place});")
            starts = (f"b0.{e} - (int)x_zero_point * w.{e}" for e in "xyzw")
            lines.append(f"  const int4 b = make_int4({', '.join(starts)});")
        return lines

    def scale(self, part: str, form: Form = Form.ANY) -> str:
        """Of one of four channels; sums of groups of scales are scaled already."""
        if form in OF_ONE_SCALE:
            return "0.f"
        if self.epilogue.dynamic:
            return f"__fmul_rn(s.{part}, x_scale)"
        return "0.f" if self.epilogue.scale_group else f"s.{part}"

    def total(self, quad: int, row: int, e: int, form: Form) -> str:
        """Accumulator of channel 4 * quad + e of a fragment row, with its bias."""
        total = f"(int)acc[{(2 * quad + e // 2) * 4 + row * 2 + e % 2}]"
        if self.epilogue.dynamic:
            return f"{total} + b.{'xyzw'[e]}"
        return f"{total} + b{row}.{'xyzw'[e]}" if self.bias and form not in SHORT else total

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


def _words(channels: int, dtype: str) -> int:
    """Registers that hold a row's values as they are stored."""
    return -(-channels // element(dtype).per_word)
