"""Layouts of the mma.sync kernel against numpy: its copies and fragments make a convolution."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from mma_sync_cases import CASES, INT4_CASES, case_id, random_blocked

from autoq.measure.operands import random_case
from autoq.templates.cuda.conv2d_mma_sync import TEMPLATE, matches
from autoq.templates.cuda.mma_sync_config import MmaSyncConfig
from autoq.templates.cuda.mma_sync_pack import channel_of_row, pack_channels, pack_weight
from autoq.templates.cuda.mma_sync_plan import MmaSyncPlan
from autoq.templates.cuda.mma_sync_rows import output_channel, output_start, pixel_of_row
from autoq.templates.cuda.mma_sync_space import computes
from autoq.templates.cuda.mma_sync_tile import (
    fragment_of_pixels,
    fragment_of_weights,
    matrix_offset,
    unit_offset,
)
from autoq.templates.layout import NHWCNC, to_nhwc
from autoq.templates.storage import to_stored, unpack_nibbles
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Conv2d, Gemm

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


def scaled(unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """16 times the low and the high nibbles of bytes, int8."""
    return (unit.view(np.uint8) << 4).view(np.int8), (unit.view(np.uint8) & 0xF0).view(np.int8)


def stage_of(plan: MmaSyncPlan, x: np.ndarray, weight: np.ndarray, m: int, n: int, step: int):
    """Bytes of shared memory after the copies of one step, by their definition.

    x: stored activations, int8 [n, h, w, pixel bytes].
    """
    conv, tiling, config = plan.conv, plan.tiling, plan.config
    stage = np.full(tiling.stage_bytes, 99, np.int8)
    group = n // tiling.group_tiles_n
    for index in range(plan.pixel_copies):
        row = min(m * config.block_m + plan.row_of_copy(index), tiling.rows - 1)
        image, p, q = pixel_of_row(conv, row)
        row, column, tile_byte = plan.tap(step, index)
        h = p * conv.stride[0] - conv.padding[0] + row * conv.dilation[0]
        w = q * conv.stride[1] - conv.padding[1] + column * conv.dilation[1]
        piece = step * tiling.pieces_per_stage + plan.piece_of_copy(index)
        read = np.zeros(tiling.piece_read, np.int8)
        if piece < tiling.pieces and 0 <= h < conv.h and 0 <= w < conv.w:
            first = group * plan.source_byte(tiling.group_bytes) + plan.source_byte(tile_byte)
            read = x[image, h, w, first : first + tiling.piece_read]
        value = np.concatenate(scaled(read)) if tiling.unpacks_pixels else read
        for unit in range(-(-len(value) // 16)):
            part = value[unit * 16 : unit * 16 + 16]
            stage[plan.pixel_offset(index, unit) :][: len(part)] = part
    for index in range(plan.weight_copies):
        row, unit = divmod(index, plan.units_read)
        read = np.ascontiguousarray(weight[n, step, row, unit * 16 : unit * 16 + 16])
        for unit, part in enumerate(scaled(read) if tiling.unpacks_weights else (read,)):
            stage[plan.weight_offset(index, unit) :][:16] = part
    return stage


def ldmatrix(stage: np.ndarray, addresses: np.ndarray) -> np.ndarray:
    """The four bytes of each of four registers of 32 lanes: int8 [32, 4, 4]."""
    lanes = np.arange(32)
    found = np.empty((32, 4, 4), np.int8)
    for matrix in range(4):
        rows = addresses[matrix * 8 + lanes // 4]
        for byte in range(4):
            found[:, matrix, byte] = stage[rows + lanes % 4 * 4 + byte]
    return found


def values_of(registers: np.ndarray, compute: str, dtype: str) -> np.ndarray:
    """Values that a multiplication sees in registers int8 [32, r, 4], int64 [32, r, 4 or 8]."""
    if compute == "s4":
        return unpack_nibbles(registers.view(np.uint8), 8, dtype).astype(np.int64)
    return registers.view(np.uint8 if dtype.startswith("u") else np.int8).astype(np.int64)


def large_mma(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """m16n8k32 of bytes or m16n8k64 of nibbles by the PTX manual's fragments.

    a: [32, 4, v], b: [32, 2, v] with the v values of a register; [32, 4].
    """
    lanes, v = np.arange(32), a.shape[2]
    left, right = np.zeros((16, 8 * v), np.int64), np.zeros((8 * v, 8), np.int64)
    for i in range(v):
        for register in range(4):
            row, k = lanes // 4 + register % 2 * 8, lanes % 4 * v + i + register // 2 * 4 * v
            left[row, k] = a[:, register, i]
        for register in range(2):
            right[lanes % 4 * v + i + register * 4 * v, lanes // 4] = b[:, register, i]
    product = left @ right
    d = [
        product[lanes // 4 + register // 2 * 8, lanes % 4 * 2 + register % 2]
        for register in range(4)
    ]
    return np.stack(d, axis=1)


def small_mma(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """m8n8k16 of bytes or m8n8k32 of nibbles: a, b [32, v] -> [32, 2]."""
    lanes, v = np.arange(32), a.shape[1]
    left, right = np.zeros((8, 4 * v), np.int64), np.zeros((4 * v, 8), np.int64)
    for i in range(v):
        left[lanes // 4, lanes % 4 * v + i] = a[:, i]
        right[lanes % 4 * v + i, lanes // 4] = b[:, i]
    product = left @ right
    return np.stack([product[lanes // 4, lanes % 4 * 2 + e] for e in range(2)], axis=1)


def multiply(plan: MmaSyncPlan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What `multiply_registers` adds: a int8 [32, 4, 4], b [32, 2, 4] -> [32, 4]."""
    a = values_of(a, plan.config.compute, plan.conv.in_dtype)
    b = values_of(b, plan.config.compute, plan.conv.weight_dtype)
    if plan.large_mma:
        return large_mma(a, b)
    halves = [sum(small_mma(a[:, 2 * k + half], b[:, k]) for k in range(2)) for half in range(2)]
    return np.concatenate(halves, axis=1)


def accumulate(plan: MmaSyncPlan, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Accumulators as the kernel's threads store them, int64 [n, p, q, k]; x is NHWC."""
    conv, tiling, config = plan.conv, plan.tiling, plan.config
    lanes = np.arange(32)
    y = np.full(tiling.rows * conv.k, -(1 << 40))
    for m, n in np.ndindex(tiling.tiles_m, tiling.tiles_n):
        stages = [stage_of(plan, x, weight, m, n, step) for step in range(tiling.steps)]
        for warp_row, warp_column in np.ndindex(config.BLK_ROW_WARPS, config.BLK_COL_WARPS):
            acc = np.zeros((config.WARP_ROW_TILES, config.WARP_COL_TILES, 32, 4), np.int64)
            for stage, k in ((stage, k) for stage in stages for k in range(config.CHUNK)):
                b = [
                    ldmatrix(
                        stage,
                        plan.weight_start
                        + fragment_of_weights(config, warp_column, pair, k, lanes),
                    )
                    for pair in range(config.WARP_COL_TILES // 2)
                ]
                for i in range(config.WARP_ROW_TILES):
                    at = fragment_of_pixels(config, warp_row, i, k, lanes, plan.pixel_unit_offset)
                    a = ldmatrix(stage, at)
                    for j in range(config.WARP_COL_TILES):
                        part = np.ascontiguousarray(b[j // 2][:, j % 2 * 2 : j % 2 * 2 + 2])
                        acc[i, j] += multiply(plan, a, part)
            acc >>= plan.accumulator_shift
            group, column = divmod(n, tiling.group_tiles_n)
            for i, g, lane, half, e in np.ndindex(
                config.WARP_ROW_TILES, config.column_groups, 32, 2, config.run
            ):
                row = m * config.block_m + warp_row * config.warp_m + i * 16 + half * 8 + lane // 4
                channel = column * config.block_n + warp_column * config.warp_n
                channel += g * 4 * config.run + lane % 4 * config.run + e
                if row < tiling.rows and channel < tiling.group_k:
                    value = acc[i, g * config.run // 2 + e // 2, lane, half * 2 + e % 2]
                    in_row = output_channel(conv, "int8", group * tiling.group_k + channel)
                    y[output_start(conv, "int8", row) + in_row] = value
    return to_nhwc(y.reshape(conv.y_shape), conv.out_layout)


def convolve(conv: Conv2d, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The convolution's definition in integers, int64 [n, p, q, k]."""
    top, left, bottom, right = conv.padding
    padded = np.pad(x.astype(np.int64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    group_c, group_k = conv.c // conv.groups, conv.k // conv.groups
    y = np.zeros((conv.n, conv.p, conv.q, conv.k), np.int64)
    for k, p, q, r, s in np.ndindex(conv.k, conv.p, conv.q, conv.r, conv.s):
        h = p * conv.stride[0] + r * conv.dilation[0]
        w = q * conv.stride[1] + s * conv.dilation[1]
        first = k // group_k * group_c
        y[:, p, q, k] += padded[:, h, w, first : first + group_c] @ weight[k, r, s]
    return y


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
    (x,), operands = random_case(conv, 3)
    x = to_nhwc(x, conv.in_layout)
    plan = MmaSyncPlan(conv, config, target)
    packed = pack_weight(plan.tiling, operands["weight"])
    found = accumulate(plan, to_stored(x, conv.in_dtype).view(np.int8), packed)
    np.testing.assert_array_equal(found, convolve(conv, x, operands["weight"]))


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
        assert computes(fits, target)[0] == first
        assert set(computes(fits, target)) == {"s4", "s8_unpacked", "s8_staged"}
        assert computes(long, target) == ("s4",)
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


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a"])
def test_every_size_has_a_legal_default(arch):
    target = parse_target(f"cuda:{arch}")
    sizes = (1, 3, 8, 17, 33, 200, 5000)
    for m, n, k in ((m, n, 4 * k) for m in sizes for n in sizes for k in (1, 5, 40, 900)):
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
