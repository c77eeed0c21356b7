"""Convolutions of 16-bit floats on wgmma: on the emulator, on a GPU, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_kernels import assert_right, hopper_target, sampled
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.errors import InputError
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.float_conv2d_wgmma import TEMPLATE
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
CASES = [
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
