"""Constants along an axis, and what quantised ones mean."""

from __future__ import annotations

import numpy as np

from autoq.graph.ir import Operation


def along_axis(values: np.ndarray, axis: int | None, rank: int) -> np.ndarray:
    """A scalar as it is, a vector shaped so that it broadcasts along `axis` of `rank` axes."""
    if axis is None:
        return values
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)


DEQUANTISATIONS = ("DequantizeLinear", "DequantizeBlocks")
"""Operations that make real numbers of integers. Of the second the integers are a constant matrix,
and attributes scale and zero_point have a value for each `block` of numbers along `axis`."""


def by_blocks(values: np.ndarray, node: Operation, shape: tuple[int, ...]) -> np.ndarray:
    """The scale or zero point of each number of a matrix under a DequantizeBlocks operation."""
    axis = node.attributes["axis"]
    repeated = np.repeat(values, node.attributes["block"], axis)
    return repeated.take(range(shape[axis]), axis)


def dequantised(array: np.ndarray, node: Operation) -> np.ndarray:
    """float32 meaning of integers under one of DEQUANTISATIONS."""
    values = node.attributes["scale"], node.attributes["zero_point"]
    if node.op == "DequantizeBlocks":
        scale, zero_point = (by_blocks(value, node, array.shape) for value in values)
    else:
        axis = node.attributes["axis"]
        scale, zero_point = (along_axis(value, axis, array.ndim) for value in values)
    return ((array.astype(np.int64) - zero_point).astype(np.float32) * scale).astype(np.float32)
