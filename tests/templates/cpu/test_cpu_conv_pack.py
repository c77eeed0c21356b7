"""Packed weights and biases, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import random_layer

from autoq.templates.cpu.conv.config import ConvConfig
from autoq.templates.cpu.conv.pack import pack_conv
from autoq.templates.cpu.conv.tiling import ConvTiling, normalised
from autoq.templates.cpu.dot import multiply_add, vnni
from autoq.templates.operators.conv2d import Conv2d

CASES = {
    "joint": (Conv2d(1, 8, 8, 3, 40, 2, 3), vnni("int8"), 2),
    "grouped": (Conv2d(1, 8, 8, 16, 36, 2, 3, groups=2), vnni("int8"), 1),
    "dilated": (Conv2d(1, 8, 8, 5, 33, 2, 3, dilation=(1, 2)), vnni("uint8"), 2),
    "few filters": (Conv2d(1, 8, 8, 5, 6, 1, 3), multiply_add("int8", False, 8), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_weight_elements(name):
    workload, dot, vectors = CASES[name]
    tiling = _tiling(workload, dot, vectors)
    _, constants = random_layer(workload)
    weight = constants["weight"]
    packed = pack_conv(tiling, constants)[0]
    tiles, rows, columns, steps, _ = packed.shape
    channels = workload.c // workload.groups
    filters = workload.k // workload.groups
    seen = set()
    by_lane = packed.reshape(tiles, rows, columns, steps, vectors, dot.lanes, dot.depth)
    for index, value in np.ndenumerate(by_lane):
        tile, r, s, step, vector, lane, depth = index
        group, channel_tile = divmod(tile, tiling.channel_tiles)
        start = (channel_tile * vectors + vector) * dot.lanes
        filter_ = max(min(start, filters - dot.lanes), 0) + lane
        element = step * dot.depth + depth
        column, channel = divmod(element, channels) if tiling.joint else (s, element)
        if filter_ >= filters or column >= workload.s or channel >= channels:
            assert value == 0
            continue
        assert value == weight[group * filters + filter_, r, column, channel], index
        seen.add((group * filters + filter_, r, column, channel))
    assert len(seen) == weight.size


def test_bias_folds_the_zero_point_and_the_sign_shift():
    workload, dot, vectors = CASES["grouped"]
    tiling = _tiling(workload, dot, vectors)
    _, constants = random_layer(workload, x_zero_point=-7)
    _, bias, scale, scalars, fill = pack_conv(tiling, constants)
    sums = constants["weight"].astype(int).sum(axis=(1, 2, 3))
    assert fill.tolist() == [128 - 7]
    expected = constants["bias"] - (128 - 7) * sums
    channels = [0, 2, 18, 20]  # lanes 0..15 hold filters 0..15 of a group, the next 2..17
    np.testing.assert_array_equal(bias[:, 0], expected[channels])
    np.testing.assert_array_equal(scale[:, 0], constants["scale"][channels])
    np.testing.assert_array_equal(scalars, constants["scalars"])


def test_fill_is_the_zero_point_as_the_kernel_reads_it():
    for in_dtype, zero_point, fill in (("int8", -7, 121), ("uint8", 7, 7)):
        padded = Conv2d(1, 8, 8, 16, 16, 3, 3, padding=(1, 1, 1, 1), in_dtype=in_dtype,
                        zero_point_border=True)  # fmt: skip
        tiling = _tiling(padded, vnni(in_dtype), 1)
        _, constants = random_layer(padded)
        constants["x_zero_point"] = zero_point
        packed = pack_conv(tiling, constants)[-1]
        assert packed.dtype == np.uint8 and packed.tolist() == [fill]


def _tiling(workload, dot, vectors) -> ConvTiling:
    config = ConvConfig(dot.lanes, 1, 1, vectors, 1, 1, True)
    return ConvTiling(normalised(workload), config, dot)
