"""Packed weights, widened as the kernel's registers are, are the weights again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autoq.templates.cuda.device.mma.fragments import scatter
from autoq.templates.cuda.mixed.config import MixedConfig
from autoq.templates.cuda.mixed.conversion import GroupScale
from autoq.templates.cuda.mixed.float_gemm_wgmma import TEMPLATE
from autoq.templates.cuda.mixed.plan import MixedPlan
from autoq.templates.element import INTEGER_RANGE, element
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CONFIG = MixedConfig(
    block_m=16, consumers=1, k_groups=1, row_blocks=2, steps=1, stages=4, cluster=1, group_m=1
)  # fmt: skip
THREADS = np.arange(128)
ROWS = THREADS // 32 * 16 + THREADS % 32 // 4


def as_float(words: np.ndarray, dtype: str) -> np.ndarray:
    return words.astype(np.uint16).view(element(dtype).dtype).astype(np.float32)


def widened(plan: MixedPlan, tile: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """What `convert` makes of a tile: float32 [4 instructions, 128 threads, 4 registers, 2].

    taken: 16-bit words [64] of the tile's rows, where no group has its own.
    """
    conversion, dtype = plan.conversion, plan.workload.in_dtype
    values = tile[: conversion.values_bytes]
    own = tile[conversion.values_bytes : conversion.sum_scales_at].view(np.uint32).reshape(-1, 64)
    of_sums = tile[conversion.sum_scales_at :].view(np.float32).reshape(-1, 64)
    result = np.empty((4, 128, 4, 2), np.float32)
    for step in range(4):
        scale = np.ones((128, 2), np.float32)
        less = np.stack([taken[ROWS], taken[ROWS + 8]], axis=1)
        group = step * conversion.groups // 4
        if conversion.group_words:
            pair = np.stack([own[group, ROWS], own[group, ROWS + 8]], axis=1)
            less = pair >> 16
            if conversion.scales_weights:
                scale = as_float(pair & 0xFFFF, dtype)
        if conversion.scales_sums:  # of the products, which is as if it were the weights'
            scale = np.stack([of_sums[group, ROWS], of_sums[group, ROWS + 8]], axis=1)
        less = as_float(less, dtype)
        for register in range(4):
            for place in (0, 1):
                if conversion.nibbles:
                    word = values.view(np.uint32).reshape(128, 4)[:, step]
                    raw = (word >> np.uint32(4 * register + 16 * place)) & 15
                else:
                    byte = values.reshape(2, 128, 2, 8)[step // 2, :, step % 2]
                    raw = byte[:, 2 * register + place]
                found = _value(plan, raw.astype(np.int32), register, less[:, register % 2])
                result[step, :, register, place] = found * scale[:, register % 2]
    return result


def _value(plan: MixedPlan, raw: np.ndarray, register: int, less: np.ndarray) -> np.ndarray:
    conversion = plan.conversion
    if conversion.nibbles and not conversion.half:
        return 128 + raw - less
    if conversion.nibbles:
        return 64 + raw + less if register % 2 else 1024 + raw - less
    if conversion.half:
        return 1024 + raw - less
    return (raw & 127) - (raw & 128) - (less if conversion.shifted else 0)


WEIGHT, SUM = GroupScale


@pytest.mark.parametrize(
    "group, zeros, scaled",
    [
        (0, False, WEIGHT), (0, True, WEIGHT), (32, True, WEIGHT), (64, False, WEIGHT),
        (128, True, WEIGHT), (32, False, SUM), (128, True, SUM),
    ],
)  # fmt: skip
@pytest.mark.parametrize("weight_dtype", INTEGER_RANGE)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_registers_hold_the_weights(
    dtype: str, weight_dtype: str, group: int, zeros: bool, scaled: GroupScale
) -> None:
    workload = FloatGemm(
        16, 200, 384, dtype, weight_dtype, dtype, group=group, zero_points=zeros
    )  # fmt: skip
    config = replace(CONFIG, group_scale=scaled)
    plan = MixedPlan(workload, config)
    _, constants = workload.random_case(np.random.default_rng(3))
    names = [spec.name for spec in TEMPLATE.packed(workload, config)]
    arrays = dict(zip(names, TEMPLATE.pack(workload, config, constants), strict=True))
    tiles = arrays["weight"].reshape(plan.padded_n // 64, plan.k_steps, plan.tile_bytes)
    taken = arrays.get("taken", np.zeros(plan.padded_n, np.uint32)) & 0xFFFF
    found = np.empty((plan.padded_n, plan.padded_k), np.float32)
    fragment = plan.atom.a_fragment()
    for block, of_block in enumerate(tiles):
        rows = slice(64 * block, 64 * block + 64)
        for step, tile in enumerate(of_block):
            for i, registers in enumerate(widened(plan, tile, taken[rows])):
                at = 64 * step + 16 * i
                found[rows, at : at + 16] = scatter(registers, fragment)
    if "scale" in arrays:
        found *= arrays["scale"][:, None]
    found = found[: workload.n, : workload.k]
    expected = workload.dequantised(constants)
    if group and scaled is WEIGHT:  # a scale of a group is rounded to 16 bits
        unit = 2.0**-11 if dtype == "float16" else 2.0**-8
        np.testing.assert_allclose(found, expected, rtol=unit, atol=unit * np.abs(expected).max())
    else:
        np.testing.assert_array_equal(found, expected)


def test_weights_of_floats_are_swizzled_rows() -> None:
    workload = FloatGemm(16, 100, 200, weight_dtype="float16")
    plan = MixedPlan(workload, CONFIG)
    _, constants = workload.random_case(np.random.default_rng(3))
    (weight,) = TEMPLATE.pack(workload, CONFIG, constants)
    chunks = weight.view(np.float16).reshape(plan.padded_n // 64, plan.k_steps, 64, 8, 8)
    row = np.arange(64)[:, None]
    plain = chunks[:, :, row, np.arange(8) ^ (row % 8)]
    found = plain.transpose(0, 2, 1, 3, 4).reshape(plan.padded_n, plan.padded_k)
    np.testing.assert_array_equal(found[:100, :200], constants["weight"])


def test_a_row_whose_groups_have_no_scale_is_zero() -> None:
    workload = FloatGemm(16, 64, 128, group=128)
    _, constants = workload.random_case(np.random.default_rng(3))
    constants["scale"][5] = 0
    names = [spec.name for spec in TEMPLATE.packed(workload, CONFIG)]
    arrays = dict(zip(names, TEMPLATE.pack(workload, CONFIG, constants), strict=True))
    plan = MixedPlan(workload, CONFIG)
    tiles = arrays["weight"].reshape(-1, plan.tile_bytes)[: plan.k_steps]
    shares = tiles[:, plan.conversion.values_bytes :].view(np.uint32) & 0xFFFF
    assert (shares[:2, 5] == 0).all() and (shares[:2, 4] != 0).all()
    assert np.isfinite(arrays["scale"]).all()
