"""Layouts of the mma.sync kernel against numpy: its copies and fragments make a convolution."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from mma_sync_cases import CASES, INT4_CASES, case_id, random_blocked
from mma_sync_numpy import accumulate, convolve

from autoq.measure.arrays import random_case
from autoq.templates.arrays.layout import NHWCNC, to_nhwc
from autoq.templates.arrays.storage import to_stored
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE, matches
from autoq.templates.cuda.mma_sync.pack import channel_of_row, pack_channels, pack_weight
from autoq.templates.cuda.mma_sync.plan import MmaSyncPlan
from autoq.templates.cuda.mma_sync.space import compute_types
from autoq.templates.cuda.mma_sync.tiling import (
    matrix_offset,
    unit_offset,
)
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target, parse_target

FOUR_BIT = (
    Conv2d(1, 5, 4, 48, 36, 2, 3, (2, 1), (1, 0, 1, 1), (1, 2), groups=2),
    Conv2d(1, 4, 5, 64, 24, 3, 1, (1, 1), (1, 1, 0, 2)),
    Conv2d(1, 4, 3, 48, 16, 3, 2, (1, 1), (1, 1, 1, 0)),
)

TARGET = parse_target("cuda:sm_80")

WORKLOADS = (
    Conv2d(1, 5, 6, 64, 40, 3, 2, (2, 1), (1, 0, 1, 1), (1, 2)),
    Conv2d(2, 4, 5, 12, 24, 2, 3, (1, 1), (1, 1, 0, 2)),
    Conv2d(1, 5, 4, 32, 36, 3, 3, (1, 1), (1, 1, 1, 1), groups=2),
    Conv2d(8, 3, 2, 48, 32, 3, 3, (2, 1), (1, 1, 1, 0), in_layout=NHWCNC, out_layout=NHWCNC),
    Conv2d(16, 2, 3, 32, 20, 1, 2, in_layout=NHWCNC),
    Conv2d(8, 2, 2, 24, 32, 2, 2, (1, 1), (1, 1, 0, 0), groups=2, out_layout=NHWCNC),
)
CONFIGS = (
    MmaSyncConfig(2, 1, 1, 8, 1, False, 2, True, 1),
    MmaSyncConfig(1, 2, 2, 4, 2, True, 3, False, 1),
    MmaSyncConfig(2, 2, 1, 2, 4, False, 2, True, 1),
    MmaSyncConfig(1, 1, 2, 4, 1, True, 2, False, 1),
)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: "-".join(map(str, vars(c).values())))
@pytest.mark.parametrize("conv", WORKLOADS, ids=str)
def test_copies_and_fragments_make_the_convolution(conv, config):
    check_convolution(conv, config, TARGET)


@pytest.mark.parametrize(
    ("conv", "arch"), list(zip(FOUR_BIT, ("sm_75", "sm_80", "sm_80"), strict=True)), ids=str
)
@pytest.mark.parametrize(
    ("in_dtype", "weight_dtype", "compute", "config"),
    [
        ("int4", "int4", "s4", CONFIGS[0]),
        ("uint4", "int4", "s4", CONFIGS[1]),
        ("int4", "int4", "s8_unpacked", CONFIGS[2]),
        ("uint4", "int4", "s8_unpacked", CONFIGS[1]),
        ("uint8", "int4", "s8_unpacked", CONFIGS[3]),
        ("int4", "int8", "s8_unpacked", CONFIGS[1]),
    ],
)
def test_four_bit_values_make_the_convolution(in_dtype, weight_dtype, compute, config, conv, arch):
    conv = dataclasses.replace(conv, in_dtype=in_dtype, weight_dtype=weight_dtype)
    config = dataclasses.replace(config, stages=2, compute=compute)
    check_convolution(conv, config, parse_target(f"cuda:{arch}"))


def check_convolution(conv: Conv2d, config: MmaSyncConfig, target: Target) -> None:
    (x,), constants = random_case(conv, 3)
    x = to_nhwc(x, conv.in_layout)
    plan = MmaSyncPlan(conv, config, target)
    packed = pack_weight(plan.tiling, constants["weight"])
    found = accumulate(plan, to_stored(x, conv.in_dtype).view(np.int8), packed)
    np.testing.assert_array_equal(found, convolve(conv, x, constants["weight"]))


@pytest.mark.parametrize("conv", FOUR_BIT, ids=str)
@pytest.mark.parametrize(
    ("in_dtype", "weight_dtype"), [("int4", "int4"), ("uint8", "int4"), ("uint4", "int8")]
)
def test_waiting_nibbles_have_places_of_their_own(conv, in_dtype, weight_dtype):
    conv = dataclasses.replace(conv, in_dtype=in_dtype, weight_dtype=weight_dtype)
    config = dataclasses.replace(CONFIGS[1], compute="s8_staged")
    plan = MmaSyncPlan(conv, config, TARGET)
    tiling = plan.tiling
    taken = np.zeros(tiling.smem_bytes, int)
    tiles = tiling.tile_stages * tiling.stage_bytes
    assert tiling.tile_stages == (2 if in_dtype == "int4" else config.stages)
    for stage in range(config.stages):
        if tiling.unpacks_pixels:
            for index in range(plan.pixel_copies):
                at = plan.packed_pixel(stage, index)
                assert at >= tiles and at % tiling.piece_read == 0
                taken[at : at + tiling.piece_read] += 1
        if tiling.unpacks_weights:
            for index in range(plan.weight_copies):
                at = plan.packed_weight(stage, index)
                assert at >= tiles and at % 16 == 0
                taken[at : at + 16] += 1
    assert (taken[tiles:] == 1).all() and not taken[:tiles].any()


@pytest.mark.parametrize(("in_dtype", "most"), [("int4", 131072), ("uint4", 69912)])
def test_long_reductions_are_not_unpacked(in_dtype, most):
    """16 times each operand leaves 24 bits for sums of products."""
    for arch, first in (("sm_80", "s4"), ("sm_90a", "s8_unpacked")):
        fits, long = (
            Gemm(8, 8, k, in_dtype=in_dtype, weight_dtype="int4").as_conv2d()
            for k in (most - 8, most)
        )
        target = parse_target(f"cuda:{arch}")
        assert compute_types(fits, target)[0] == first
        assert set(compute_types(fits, target)) == {"s4", "s8_unpacked", "s8_staged"}
        assert compute_types(long, target) == ("s4",)
        assert not matches(dataclasses.replace(long, weight_dtype="int8"), target)


@pytest.mark.parametrize("seed", range(12))
def test_random_convolutions_in_nhwcnc_have_legal_configurations(seed):
    workload = random_blocked(seed)
    for arch in ("sm_75", "sm_80", "sm_90a"):
        target = parse_target(f"cuda:{arch}")
        assert TEMPLATE.matches(workload, target)
        space = TEMPLATE.space(workload, target)
        assert space.rejection(TEMPLATE.default(workload, target)) is None


@pytest.mark.parametrize("swizzle", [True, False])
@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_eight_rows_of_a_unit_cover_all_banks(chunk, swizzle):
    config = MmaSyncConfig(2, 2, 2, 8, chunk, False, 2, swizzle, 1)
    rows = np.arange(config.block_m)
    for unit in range(config.block_k // 16):
        banks = unit_offset(config, rows, unit).reshape(-1, 8) % 128 // 16
        assert (np.sort(banks, axis=1) == np.arange(8)).all()


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_eight_rows_of_a_unit_are_a_whole_matrix(chunk):
    """As in NHWCnc, so that 8 lanes copy 128 bytes as they are; no two units overlap."""
    config = MmaSyncConfig(2, 2, 2, 8, chunk, False, 2, True, 1)
    rows, units = np.arange(config.block_m), np.arange(config.block_k // 16)
    at = matrix_offset(config, rows[:, None], units)
    assert (np.diff(at.reshape(-1, 8, len(units)), axis=1) == 16).all()
    assert (np.sort(at.reshape(-1)) == np.arange(0, config.block_m * config.block_k, 16)).all()


@pytest.mark.parametrize("column_tiles", [2, 4, 8, 16])
def test_weight_rows_are_a_permutation(column_tiles):
    config = MmaSyncConfig(2, 2, 2, column_tiles, 1, False, 2, True, 1)
    assert (np.sort(channel_of_row(config)) == np.arange(config.block_n)).all()


def test_channels_are_padded_group_by_group():
    conv = Conv2d(1, 8, 8, 32, 36, 3, 3, groups=2)
    tiling = MmaSyncPlan(conv, CONFIGS[3], TARGET).tiling
    packed = pack_channels(tiling, np.arange(1, 37))
    assert (packed[:18] == np.arange(1, 19)).all()
    assert (packed[32:50] == np.arange(19, 37)).all()
    assert not packed[18:32].any()
    assert not packed[50:].any()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_90a"])
@pytest.mark.parametrize("workload", CASES + INT4_CASES, ids=case_id)
def test_default_is_legal(workload, arch):
    target = parse_target(f"cuda:{arch}")
    assert matches(workload, target)
    config = TEMPLATE.default(workload, target)
    assert TEMPLATE.space(workload, target).rejection(config) is None


ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a")
SIZES = (1, 3, 8, 17, 33, 200, 5000)


@pytest.mark.parametrize("arch", ARCHS)
def test_every_size_has_a_legal_default(arch):
    """Each architecture has every fifth of the sizes, another one first."""
    target = parse_target(f"cuda:{arch}")
    every = list(itertools.product(SIZES, SIZES, (4, 20, 160, 3600)))
    for m, n, k in every[ARCHS.index(arch) :: len(ARCHS)]:
        workload = Gemm(m, n, k)
        config = TEMPLATE.default(workload, target)
        assert TEMPLATE.space(workload, target).rejection(config) is None


@pytest.mark.parametrize(
    "workload",
    [
        Gemm(8, 8, 6),
        Gemm(8, 8, 64, in_dtype="float32", weight_dtype="float32"),
        Conv2d(1, 8, 8, 64, 64, 3, 3, groups=32),
        Conv2d(1, 40, 40, 64, 64, 16, 16),
        Conv2d(1 << 12, 256, 256, 64, 64, 1, 1),
        Conv2d(8, 8, 8, 64, 64, 3, 3, groups=8, in_layout=NHWCNC),
        Conv2d(8, 8, 8, 64, 64, 3, 3, groups=8, out_layout=NHWCNC),
    ],
    ids=str,
)
def test_declines_what_it_cannot_compute(workload):
    assert not matches(workload, TARGET)


def test_rejections_name_their_rule():
    conv = Conv2d(8, 56, 56, 64, 256, 3, 3, padding=(1, 1, 1, 1))
    space = TEMPLATE.space(conv, parse_target("cuda:sm_86"))
    too_wide = MmaSyncConfig(2, 2, 8, 16, 1, False, 2, True, 1)
    too_deep = MmaSyncConfig(2, 2, 4, 4, 4, False, 5, False, 1)
    idle = MmaSyncConfig(2, 2, 2, 4, 2, True, 2, True, 1)
    assert "registers_suffice" in space.rejection(too_wide)
    assert "shared_memory_suffices" in space.rejection(too_deep)
    assert "reorder_changes_something" in space.rejection(idle)
