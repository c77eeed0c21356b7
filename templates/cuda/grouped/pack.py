"""Weights of the grouped convolution in words of four bytes, as its lanes read them."""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.grouped.tiling import UNIT, group_units, narrow, quads
from autoq.templates.operators.conv2d import Conv2d


def packed_shape(workload: Conv2d) -> tuple[int, ...]:
    """Shape of `pack_weight`."""
    taps, pairs = workload.r * workload.s, workload.r * ceil_div(workload.s, 2)
    if narrow(workload):
        return (workload.c // UNIT, pairs, UNIT, 4)
    return (workload.c // UNIT * group_units(workload), taps, UNIT, 4 * quads(workload))


def pack_weight(workload: Conv2d, weight: np.ndarray) -> np.ndarray:
    """The weight int8 [k, r, s, c / groups] as int8 `packed_shape`."""
    return (_pack_pairs if narrow(workload) else _pack_blocks)(workload, weight)


def _pack_blocks(workload: Conv2d, weight: np.ndarray) -> np.ndarray:
    """[c / 16 * units, taps, 16, quads * 4]: blocks of 16 outputs by 16 inputs of a group.

    An output's words are those of the quads that its group touches; where a group is narrower than
    four channels the other bytes are zero.
    """
    k, r, s, width = weight.shape
    units, row = group_units(workload), 4 * quads(workload)
    packed = np.zeros((k, r * s, units * row), np.int8)
    for output in range(k):
        first = output // width * width % row
        packed[output, :, first : first + width] = weight[output].reshape(r * s, width)
    blocks = packed.reshape(k // UNIT, UNIT, r * s, units, row).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks).reshape(packed_shape(workload))


def _pack_pairs(workload: Conv2d, weight: np.ndarray) -> np.ndarray:
    """[c / 16, r * pairs of taps, 16, 4]: two inputs at a tap, two at the next one in its row.

    A last tap that is multiplied alone has its inputs where a word of four channels has them.
    """
    k, r, s, width = weight.shape
    packed = np.zeros((k, r, s + s % 2, 2), np.int8)
    for output in range(k):
        first = output % 2 // width * width
        packed[output, :, :s, first : first + width] = weight[output]
    if s % 4 == 1:
        upper = np.arange(k) % 4 >= 2
        packed[upper, :, s - 1 :] = packed[upper, :, s - 1 :][:, :, ::-1]
    words = packed.reshape(k // UNIT, UNIT, -1, 4).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(words).reshape(packed_shape(workload))
