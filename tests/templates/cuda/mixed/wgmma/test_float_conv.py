"""Convolutions of 16-bit floats on wgmma: on the emulator, on a GPU, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_kernels import assert_right, hopper_target, sampled
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.errors import InputError
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.float_conv2d_wgmma import TEMPLATE
from autoq.templates.cuda.mixed.wgmma.windows import Windows
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CONFIG = MixedConfig(
    block_m=32, consumers=1, k_groups=1, row_blocks=1, steps=1, stages=4, cluster=2, group_m=4
)  # fmt: skip
UNEVEN = FloatConv2d(
    2, 9, 8, 72, 104, 2, 3, (2, 1), (1, 0, 1, 1), (1, 2), bias=True, activation="relu",
    residual=True, residual_first=True,
)  # fmt: skip
GROUPED = MixedConfig(
    block_m=16, consumers=2, k_groups=2, row_blocks=1, steps=1, stages=4, cluster=1, group_m=4
)  # fmt: skip
GROUPS = [
    replace(UNEVEN, c=64, k=128, groups=8),  # 8 channels to 16 filters: half a step
    FloatConv2d(1, 7, 9, 144, 144, 3, 3, padding=(1, 1, 1, 1), groups=3, bias=True),  # across tiles
    FloatConv2d(2, 6, 5, 384, 96, 1, 2, groups=2, in_dtype="bfloat16", out_dtype="float32"),
    FloatConv2d(1, 8, 8, 80, 160, 3, 3, (2, 2), (1, 1, 1, 1), groups=10),  # 8 to 16
]
CASES = [
    *GROUPS,
    UNEVEN,
    replace(UNEVEN, in_dtype="bfloat16", out_dtype="float32", residual_first=False),
    FloatConv2d(2, 28, 28, 128, 128, 3, 3, padding=(1, 1, 1, 1), bias=True, activation="silu"),
    FloatConv2d(2, 14, 14, 64, 256, 1, 1, (2, 2)),
    FloatConv2d(3, 31, 30, 8, 64, 7, 7, (2, 2), (3, 3, 3, 3), out_dtype="bfloat16"),
    FloatConv2d(1, 17, 40, 24, 16, 3, 3, padding=(4, 4, 4, 4), dilation=(4, 4), bias=True),
    FloatConv2d(8, 7, 7, 512, 512, 3, 3, padding=(1, 1, 1, 1), in_dtype="bfloat16"),
]


@needs_nvcc
def test_every_element_is_right_on_the_emulator() -> None:
    assert TEMPLATE.matches(UNEVEN, TARGET)
    assert TEMPLATE.space(UNEVEN, TARGET).rejection(CONFIG) is None
    assert_right_emulated(TEMPLATE, UNEVEN, CONFIG, TARGET)


@needs_nvcc
@pytest.mark.parametrize("workload", GROUPS, ids=str)
def test_tiles_multiply_the_channels_of_their_groups(workload: FloatConv2d) -> None:
    assert TEMPLATE.matches(workload, TARGET)
    assert TEMPLATE.space(workload, TARGET).rejection(GROUPED) is None
    assert_right_emulated(TEMPLATE, workload, GROUPED, TARGET)


def test_groups_share_no_rows_of_x_among_tiles_of_other_channels() -> None:
    space = TEMPLATE.space(GROUPS[0], TARGET)
    for change in ({"cluster": 2}, {"row_blocks": 2}, {"k_groups": 1}):
        assert "groups_have_tiles" in (space.rejection(replace(GROUPED, **change)) or "")
    assert TEMPLATE.default(GROUPS[0], TARGET).block_n == 64


def test_groups_of_few_channels_are_left_to_other_templates() -> None:
    assert not TEMPLATE.matches(replace(GROUPS[0], groups=16), TARGET)


@pytest.mark.parametrize("workload", GROUPS, ids=str)
def test_windows_hold_what_filters_read(workload: FloatConv2d) -> None:
    weight = np.arange(1, 1 + np.prod(workload.weight_shape)).reshape(workload.weight_shape)
    windows = Windows(workload, 64)
    spread = windows.spread(weight)
    assert spread.shape == (*workload.weight_shape[:3], windows.width)
    filters, channels = workload.k // workload.groups, workload.c // workload.groups
    for one in range(workload.k):
        first = one // filters * channels - windows.first(one // 64)
        assert np.array_equal(spread[one, ..., first : first + channels], weight[one])
    assert (spread != 0).sum() == weight.size


@pytest.mark.gpu
@pytest.mark.parametrize("workload", CASES, ids=repr)
def test_every_element_is_right(workload: FloatConv2d) -> None:
    configs = [TEMPLATE.default(workload, TARGET), *sampled(TEMPLATE, workload, TARGET, 11, 2)]
    assert_right(TEMPLATE, workload, [(config, TARGET) for config in configs], hopper_target())


def test_pixels_that_fill_no_16_bytes_and_far_corners_are_not_matched() -> None:
    assert not TEMPLATE.matches(replace(UNEVEN, c=12), TARGET)
    assert not TEMPLATE.matches(replace(UNEVEN, k=20), TARGET)
    assert not TEMPLATE.matches(replace(UNEVEN, padding=(0, 129, 0, 0)), TARGET)
    assert not TEMPLATE.matches(UNEVEN, parse_target("cuda:sm_80"))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"in_dtype": "float32"}, "one of float16, bfloat16"),
        ({"residual": False}, "residual_first needs a residual"),
        ({"h": 1, "padding": (0, 0, 0, 0)}, "smaller than the filter"),
        ({"c": 0}, "c"),
    ],
)
def test_what_makes_no_convolution_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(UNEVEN, **change)
