"""CUDA source of an epilogue that quantises by the range of all outputs, of a thread's rows.

A first pass leaves values in the place of their sums, and what they add to a range; when the range
of all is known a second one makes bytes of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.dynamic_bytes import DYNAMIC_BYTES
from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.device.launch.grid_range import RANGE, grid_range_source
from autoq.templates.epilogue.cuda.fragments.fragment_rows import FragmentRows
from autoq.templates.epilogue.cuda.fragments.two_rows import row_outputs, row_stores
from autoq.templates.epilogue.cuda.values.elements import value_factors
from autoq.templates.epilogue.cuda.values.requantisation import Form, Requantisation

_VALUES = r"""
namespace values_@ {RANGE}
__device__ __forceinline__ void values_of_@(unsigned* acc, const void* scale, const int* bias0,
    const int* bias1, const void* scalars, const unsigned* words0, const unsigned* words1,
    float* numbers, int ok0, int ok1, int left, float x_scale, float x_zero_point) {
  using namespace values_@;
  const float4 first = __ldg(reinterpret_cast<const float4*>(scalars));
  const float4 second = __ldg(reinterpret_cast<const float4*>(scalars) + 1);
  Range range = {numbers[0], numbers[1]};
BODY
  numbers[0] = range.least, numbers[1] = range.most;
}
"""
_BYTES = r"""
namespace bytes_@ {RANGE}
__device__ __forceinline__ void bytes_of_rows_@(const unsigned* acc, const float* numbers,
    unsigned char* y0, unsigned char* y1, int ok0, int ok1, int left) {
  using namespace bytes_@;
  const Steps steps = steps_of(numbers[0], numbers[1]);
  unsigned out0[WORDS], out1[WORDS];
BODY
}
"""
_MEET = r"""
namespace meet_@ {RANGE}
__device__ __forceinline__ void meet_all_@(
    float* numbers, void* words, void* shared, int block, int thread, float* scale_to,
    float* zero_to) {
  using namespace meet_@;
  unsigned left;
  const Steps steps = steps_of(of_grid<THREADS, BLOCKS>(
      {numbers[0], numbers[1]}, words, static_cast<float*>(shared), block, thread, left));
  numbers[0] = steps.scale, numbers[1] = steps.zero, numbers[2] = __uint_as_float(left);
  if (block == 0 && thread == 0) {
    *scale_to = steps.scale;
    *zero_to = steps.zero;
  }
}
"""
_CLEAR = r"""
namespace clear_@ {RANGE}
__device__ __forceinline__ void clear_all_@(const float* numbers, void* words, int thread) {
  clear_@::clear_words<BLOCKS>(words, thread, __float_as_uint(numbers[2]));
}
"""
_BARRIER = 7
"""The named barrier of all consumers of a block."""
RANGE_BYTES = 32
"""Shared memory of a consumer: two floats of each of its warps."""


@dataclass(frozen=True)
class RangeRows:
    """The helpers of one kernel: `rows` says where a thread's channels and their constants lie."""

    rows: FragmentRows

    def values(self) -> DeviceFunction:
        """values(acc, scale, bias0, bias1, scalars, words0, words1, numbers, ok0, ok1, left, ...).

        acc: sums of one group of columns, then their values; numbers: the least and the largest so
        far. x_scale and x_zero_point come last.
        """
        requantisation = Requantisation(self.rows.epilogue)
        body = []
        for quad in range(self.rows.channels // 4):
            body += ["  {", *self.rows.operands(quad, Form.ANY)]
            for row in range(2):
                totals = [self.rows.total(quad, row, e, Form.ANY) for e in range(4)]
                scales = [
                    value_factors(self.rows.epilogue, self.rows.scale(part), "", f"f.{part}")
                    for part in "xyzw"
                ]
                body.append(f"  unsigned out{row}[4];")
                body += row_outputs(requantisation, row, quad, totals, scales, first=0)
                for e in range(4):
                    body.append(f"  acc[{_accumulator(quad, row, e)}] = out{row}[{e}];")
                    there = f"ok{row} && {4 * quad + e} < left" if self.rows.tail else f"ok{row}"
                    value = f"__uint_as_float(out{row}[{e}])"
                    body.append(f"  if ({there}) range = join(range, {{{value}, {value}}});")
            body.append("  }")
        source = _VALUES.replace("RANGE", RANGE).replace("BODY", "\n".join(body))
        return device_function("values_of", requantisation.source() + source)

    def bytes(self) -> DeviceFunction:
        """bytes(acc, numbers, y0, y1, ok0, ok1, left): numbers are the scale and the zero point."""
        body, words = [], self.rows.channels // 4
        for row in range(2):
            for quad in range(words):
                four = ", ".join(
                    f"__uint_as_float(acc[{_accumulator(quad, row, e)}])" for e in range(4)
                )
                body.append(f"  {{ const float four[4] = {{{four}}};")
                body.append(f"  out{row}[{quad}] = bytes_of<4>(four, steps); }}")
            body += row_stores(row, self.rows.vectors("uint8"), self.rows.tail)
        source = _BYTES.replace("RANGE", RANGE + DYNAMIC_BYTES).replace("WORDS", str(words))
        return device_function("bytes_of_rows", source.replace("BODY", "\n".join(body)))


def _accumulator(quad: int, row: int, e: int) -> int:
    """The accumulator of channel 4 * quad + e of a fragment row."""
    return (2 * quad + e // 2) * 4 + row * 2 + e % 2


def meet_all(threads: int, blocks: int) -> DeviceFunction:
    """meet(numbers, words, shared, block, thread, scale, zero point), by so many threads a block.

    numbers: a thread's least and largest value, then the scale and the zero point of all, and how
    many blocks have left before its own, as bits.
    """
    source = _MEET.replace("THREADS", str(threads)).replace("BLOCKS", str(blocks))
    ranges = grid_range_source(_BARRIER) + DYNAMIC_BYTES
    return device_function("meet_all", source.replace("RANGE", ranges))


def clear_all(blocks: int) -> DeviceFunction:
    """clear(numbers, words, thread), when a thread has nothing else to do."""
    source = _CLEAR.replace("BLOCKS", str(blocks))
    return device_function("clear_all", source.replace("RANGE", grid_range_source(_BARRIER)))
