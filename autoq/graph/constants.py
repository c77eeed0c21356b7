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


def dequantised(array: np.ndarray, node: Operation) -> np.ndarray:
    """float32 meaning of integers under a DequantizeLinear operation."""
    axis = node.attributes["axis"]
    scale = along_axis(node.attributes["scale"], axis, array.ndim)
    zero_point = along_axis(node.attributes["zero_point"], axis, array.ndim)
    return ((array.astype(np.int64) - zero_point).astype(np.float32) * scale).astype(np.float32)
