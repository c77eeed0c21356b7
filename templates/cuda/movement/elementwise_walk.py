"""The order in which an element-wise kernel visits arrays that broadcast to a common shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


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


def dense_strides(shape: tuple[int, ...], rank: int) -> list[int]:
    """Element strides of a dense array along `rank` axes, 0 along those it is broadcast on."""
    dense = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    kept = [0 if size == 1 else stride for size, stride in zip(shape, dense, strict=True)]
    return [0] * (rank - len(shape)) + kept


def merged_axes(
    shape: tuple[int, ...], columns: Sequence[Sequence[int]]
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Sizes of the merged axes, and the strides of each operand along them."""
    sizes, merged = [1], [[0] for _ in columns]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        strides = [column[axis] for column in columns]
        pairs = list(zip(merged, strides, strict=True))
        if sizes[-1] == 1 or all(done[-1] == size * stride for done, stride in pairs):
            sizes[-1] *= size
            for done, stride in pairs:
                done[-1] = stride
        else:
            sizes.append(size)
            for done, stride in pairs:
                done.append(stride)
    return sizes, [tuple(done) for done in merged]
