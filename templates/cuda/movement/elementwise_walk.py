"""The order in which an element-wise kernel visits arrays that broadcast to a common shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoq.templates.arrays.broadcasting import dense_strides, merged_axes


@dataclass(frozen=True)
class Walk:
    """The output as rows of `row` neighbouring elements, `rows` of them to each index of `outer`.

    strides: for each operand the elements between neighbours along every axis of
    `(*outer, rows, row)`, 0 along those that it is broadcast on.
    """

    outer: tuple[int, ...]
    rows: int
    row: int
    strides: tuple[tuple[int, ...], ...]

    @classmethod
    def over(cls, shape: tuple[int, ...], operands: Sequence[tuple[int, ...]], lanes: int) -> Walk:
        """The walk over `shape` with operands that broadcast to it as in numpy.

        Neighbouring axes on which all operands agree are one axis; if that is all of them, rows
        have up to `lanes` elements.
        """
        sizes, columns = merged_axes(
            shape, [dense_strides(operand, len(shape)) for operand in operands]
        )
        if len(sizes) == 1:
            row = math.gcd(sizes[0], lanes)
            columns = [(column[0] * row, column[0]) for column in columns]
            return cls((), sizes[0] // row, row, tuple(columns))
        *outer, rows, row = sizes
        return cls(tuple(outer), rows, row, tuple(columns))
