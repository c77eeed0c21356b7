"""conv2d_halo computes every column of tiles whose last group of columns is narrow elsewhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.halo.conv2d_halo import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")


@needs_nvcc
@pytest.mark.parametrize("columns", [144, 208])
def test_every_column_of_a_tile_is_stored(columns):
    workload = Conv2d(
        1, 8, 8, 16, columns, 3, 3, padding=(1, 1, 1, 1), in_dtype="uint8",
        epilogue=Epilogue("uint8"),
    )  # fmt: skip
    space = TEMPLATE.space(workload, TARGET)
    whole = space.restricted({"block_n": (columns,)})
    for config in whole.sample(np.random.default_rng(0), 1):
        assert config.block_n == columns
        assert_right_emulated(TEMPLATE, workload, config, TARGET)
    narrow = dataclasses.replace(config, block_n=16)
    assert config.channels == narrow.channels == 4
