"""Strides of arrays that broadcast to a common shape as in numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence


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
