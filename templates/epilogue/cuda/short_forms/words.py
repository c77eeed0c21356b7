"""The numbers that the short forms of requantisation read: eight words, by name on both sides.

A kernel takes them as words behind the scalars. Which of these are integers and which floats stands
in a dtype, from which numpy writes them and CUDA reads them.
"""

from __future__ import annotations

import re

import numpy as np

BOUNDED = np.dtype([
    ("form", "<f4"),
    ("accumulator_offset", "<i4"),
    ("accumulator_span", "<i4"),
    ("accumulator_origin", "<f4"),
    ("accumulator_scale", "<f4"),
    ("residual_scale", "<f4"),
    ("output_offset", "<i4"),
    ("least_output", "<i4"),
])  # fmt: skip
"""Of `Form.BOUNDED`: what is added to the bits of a rounded accumulator and its largest value then,
the first of its values and its scale, which are times 2**-22 and 2**22; what is added to the bits
of a rounded output, and the least output."""

CONVERTED = np.dtype([
    ("form", "<f4"),
    ("start", "<f4"),
    ("share", "<f4"),
    ("origin", "<f4"),
    ("scale", "<f4"),
    ("residual_scale", "<f4"),
    ("offset", "<f4"),
    ("sign", "<f4"),
])  # fmt: skip
"""Of `Form.CONVERTED`: what is added to an accumulator to round it, one over its span and what
takes the rounding away again, its scale, 2**24 times the residual's, the sum's offset, and the sign
that the scales of the channels have got."""

READ = np.dtype([
    ("form", "<f4"),
    ("unused", "<f4", 4),
    ("start", "<i4"),
    ("zero_point", "<i4"),
    ("turned", "<u4"),
])  # fmt: skip
"""Of `Form.READ`: what sums without their bias start from, what is added to a rounded value, and
what turns the bits of four outputs.
The words are those that BOUNDED reads without a residual, or a kernel would keep others for it."""

ONE_SCALE = np.dtype([
    ("form", "<f4"),
    ("scale", "<f4"),
    ("addend", "<f4"),
    ("start", "<i4"),
    ("unused", "<i4", 4),
])  # fmt: skip
"""Of `Form.ONE_SCALE` and `Form.UNIFORM`: the scale of all channels, what is added to the scaled
bits of an accumulator, and what accumulators start from."""

ABOVE_FIRST = 256
"""The entry of a long table that a value of 0 selects, which is even: ties are to even."""

START_WORD = 3
"""The word of ONE_SCALE that is its `start`."""

WORDS = BOUNDED.itemsize // 4

NEITHER, IS_BOUNDED, IS_CONVERTED, IS_ONE_SCALE, IS_READ = 0.0, 1.0, 2.0, 3.0, 4.0
"""Values of `form`: which of them the numbers are for."""


def words_of(numbers: np.ndarray) -> np.ndarray:
    """One BOUNDED, CONVERTED or ONE_SCALE as a kernel takes it, float32 [WORDS]."""
    return numbers.view(np.float32).reshape(WORDS)


def with_numbers(source: str, dtype: np.dtype) -> str:
    """CUDA in which `number.NAME` is that field of a dtype, of the words `limits`.

    A struct in its place gives other machine code for some kernels.
    """
    for name, (kind, first) in (dtype.fields or {}).items():
        word = f"limits[{first // 4}]"
        value = f"__float_as_int({word})" if kind.kind in "iu" else word
        source = re.sub(rf"\bnumber\.{name}\b", value, source)
    return source
