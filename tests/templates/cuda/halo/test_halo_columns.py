"""Tiles of the halo convolution whose last columns are stored by themselves, on the emulator."""

from __future__ import annotations

import dataclasses

import pytest
from ptx.kernels import wrong
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.launch.team import Team
from autoq.templates.cuda.halo.config import WeightRing
from autoq.templates.cuda.halo.conv2d_halo import TEMPLATE
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")


@needs_nvcc
@pytest.mark.parametrize("block_n", [144, 176, 208, 240])
def test_every_column_is_stored(block_n):
    workload = Conv2d(n=1, h=7, w=9, c=32, k=block_n, r=3, s=3, padding=(1, 1, 1, 1))
    config = tile_of(workload, block_n, team=Team(2, True), turns=False)
    assert wrong(TEMPLATE, workload, config, TARGET, ["eager"]) is None


@needs_nvcc
@pytest.mark.parametrize("channels_outer", [False, True])
def test_columns_of_two_blocks_with_residuals(channels_outer):
    epilogue = Epilogue(out_dtype="uint8", residual_dtype="uint8")
    workload = Conv2d(n=2, h=7, w=9, c=32, k=140, r=3, s=3, padding=(1, 1, 1, 1), epilogue=epilogue)
    config = tile_of(workload, 144, channels_outer=channels_outer)
    assert wrong(TEMPLATE, workload, config, TARGET) is None


def tile_of(workload, block_n, **knobs):
    """The default with flat tiles of a whole output and a ring of weights."""
    config = dataclasses.replace(
        TEMPLATE.default(workload, TARGET), tile=TileShape(True, 1, 7, 9), row_bytes=32,
        block_n=block_n, weights=WeightRing(3, 1), **knobs,
    )  # fmt: skip
    assert TEMPLATE.space(workload, TARGET).rejection(config) is None
    return config
