"""Grouped convolutions of 16-bit floats: every element, registers, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_kernels import assert_right, gpu_target, sampled
from ptx.kernels import assert_right_emulated
from recorded_times import recorded_times
from with_nvcc import needs_nvcc

from autoq.errors import InputError
from autoq.kernel.kernel_store import KernelStore
from autoq.templates.cuda.simt.float_conv2d_grouped import TEMPLATE
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.target import parse_target

HOPPER, AMPERE, TURING = (parse_target(f"cuda:sm_{arch}") for arch in ("90a", "80", "75"))
DEPTHWISE = FloatConv2d(
    2, 9, 8, 24, 24, 3, 3, (1, 2), (1, 0, 1, 1), (2, 1), bias=True, activation="silu", groups=24
)
UNEVEN = FloatConv2d(
    1, 7, 9, 12, 36, 2, 3, (2, 1), (1, 0, 1, 1), (1, 2), activation="relu", residual=True,
    residual_first=True, groups=6,
)  # fmt: skip
SMALL = [
    DEPTHWISE,
    UNEVEN,
    replace(UNEVEN, in_dtype="bfloat16", out_dtype="float32", residual_first=False),
    replace(DEPTHWISE, c=10, k=10, r=7, s=7, padding=(3, 3, 3, 3), groups=10, out_dtype="float32"),
    replace(DEPTHWISE, k=48),
]
LARGE = [
    FloatConv2d(8, 56, 56, 96, 96, 7, 7, padding=(3, 3, 3, 3), bias=True, groups=96),
    FloatConv2d(8, 14, 14, 672, 672, 5, 5, (2, 2), (1, 2, 2, 2), activation="silu", groups=672),
    FloatConv2d(8, 28, 28, 256, 256, 3, 3, padding=(1, 1, 1, 1), activation="relu", groups=32),
    FloatConv2d(8, 28, 28, 64, 64, 3, 3, padding=(6, 6, 6, 6), dilation=(6, 6),
                in_dtype="bfloat16", out_dtype="bfloat16", groups=2),
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("workload", SMALL, ids=str)
def test_every_element_is_right_on_the_emulator(workload: FloatConv2d) -> None:
    drawn = TEMPLATE.space(workload, HOPPER).sample(np.random.default_rng(2), 1)
    for config in (TEMPLATE.default(workload, HOPPER), *drawn):
        assert_right_emulated(TEMPLATE, workload, config, HOPPER)


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [*SMALL, *LARGE], ids=str)
def test_every_element_is_right(workload: FloatConv2d) -> None:
    target = gpu_target()
    configs = [TEMPLATE.default(workload, target), *sampled(TEMPLATE, workload, target, 11, 3)]
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target)


@pytest.mark.parametrize("workload", SMALL, ids=str)
def test_the_reference_is_that_of_each_group_by_itself(workload: FloatConv2d) -> None:
    arrays, constants = workload.random_case(np.random.default_rng(3))
    (found,) = workload.reference(arrays, constants)
    c, k = workload.c // workload.groups, workload.k // workload.groups
    for group in range(workload.groups):
        channels, filters = slice(group * c, group * c + c), slice(group * k, group * k + k)
        alone = replace(workload, c=c, k=k, groups=1)
        parts = {name: array[filters] for name, array in constants.items()}
        inputs = (arrays[0][..., channels], *(array[..., filters] for array in arrays[1:]))
        np.testing.assert_array_equal(found[..., filters], alone.reference(inputs, parts)[0])


@needs_nvcc
@pytest.mark.parametrize(("number", "workload"), list(enumerate(LARGE)), ids=str)
def test_defaults_spill_nothing(number: int, workload: FloatConv2d) -> None:
    """For the architectures by turns."""
    found = [one for one in (TURING, AMPERE, HOPPER) if TEMPLATE.matches(workload, one)]
    target = found[number % len(found)]
    config = TEMPLATE.default(workload, target)
    assert KernelStore(None).kernel(TEMPLATE, workload, config, target).spill_bytes == 0


def test_dense_ones_and_bfloat16_before_ampere_are_not_matched() -> None:
    assert TEMPLATE.matches(DEPTHWISE, TURING)
    assert not TEMPLATE.matches(replace(DEPTHWISE, groups=1), HOPPER)
    assert not TEMPLATE.matches(replace(DEPTHWISE, in_dtype="bfloat16"), TURING)
    assert not TEMPLATE.matches(DEPTHWISE, parse_target("cpu"))


def test_groups_that_divide_no_channels_are_refused() -> None:
    with pytest.raises(InputError, match="groups 5 do not divide the 24 and 24 channels"):
        replace(DEPTHWISE, groups=5)


def test_untuned_configurations_are_among_the_fast_ones_that_were_recorded():
    found = recorded_times(TEMPLATE, "H200", 36, lambda one: isinstance(one, FloatConv2d))
    ratios = [one.default_over_best for one in found]
    assert len(ratios) >= 22
    assert max(ratios) < 1.3
    assert np.mean(ratios) < 1.06
