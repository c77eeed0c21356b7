"""Boxes of output pixels and their fragment schedules against numpy's lowered matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mma_sync_numpy import convolve, ldmatrix, multiply

from autoq.templates.arrays.layout import NHWCNC
from autoq.templates.cuda.mma_sync.box import LANES, PixelBox
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.cuda.mma_sync.fragments import fragment_schedule
from autoq.templates.cuda.mma_sync.multiply_taps import address_of_load, registers_of_load
from autoq.templates.cuda.mma_sync.pack import pack_weight
from autoq.templates.cuda.mma_sync.plan import MmaSyncPlan
from autoq.templates.cuda.mma_sync.tiling import fragment_of_weights
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_80")
OUTSIDE = -1


@st.composite
def boxes(draw) -> PixelBox:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    r, s = draw(pair)
    stride, dilation = draw(pair), draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    padding = draw(st.tuples(*[st.integers(0, 2)] * 4))
    n, h, w = draw(st.integers(1, 9)), draw(st.integers(5, 12)), draw(st.integers(5, 21))
    conv = Conv2d(n, h, w, 16, 16, r, s, stride, padding, dilation)
    columns = draw(st.sampled_from([1, 2, 4, 7]))
    return PixelBox(conv, columns * draw(st.integers(1, 4)), columns, draw(st.booleans()))


def lowered_pixel(conv: Conv2d, pixel: tuple[int, int, int], tap: int) -> int:
    """Number of the input pixel that an output pixel reads for a tap, by the definition."""
    image, p, q = pixel
    h = p * conv.stride[0] - conv.padding[0] + tap // conv.s * conv.dilation[0]
    w = q * conv.stride[1] - conv.padding[1] + tap % conv.s * conv.dilation[1]
    inside = image < conv.n and 0 <= h < conv.h and 0 <= w < conv.w
    return (image * conv.h + h) * conv.w + w if inside else OUTSIDE


def halo_of(box: PixelBox, number: int) -> np.ndarray:
    """Number of the input pixel in every slot, as the copies fill them."""
    conv = box.conv
    image, first_h, first_w = box.origin(number)
    found = np.full(box.slots, OUTSIDE)
    for slot in range(box.slots):
        lane, h, w = box.halo_pixel(slot)
        h, w = first_h + h, first_w + w
        if image + lane < conv.n and 0 <= h < conv.h and 0 <= w < conv.w:
            found[slot] = ((image + lane) * conv.h + h) * conv.w + w
    return found


@settings(max_examples=60, deadline=None)
@given(boxes())
def test_boxes_hold_every_output_pixel_once(box):
    conv = box.conv
    number, row = np.divmod(np.arange(box.count * box.fragments * LANES), box.fragments * LANES)
    image, p, q = box.pixel(number, row)
    inside = (image < conv.n) & (p < conv.p) & (q < conv.q)
    found = (image * conv.p + p)[inside] * conv.q + q[inside]
    assert (np.sort(found) == np.arange(conv.n * conv.p * conv.q)).all()


@settings(max_examples=60, deadline=None)
@given(boxes(), st.booleans(), st.integers(1, 2), st.integers(0, 1 << 30))
def test_a_turns_operands_are_the_lowered_matrix(box, reuse, warps, draw):
    """Played load by load: register pairs hold the right pixels whenever they multiply."""
    whole = PixelBox(box.conv, warps * box.fragments, box.columns, box.images)
    schedule = fragment_schedule(box, box.fragments, 2, reuse)
    number, warp = draw % whole.count, draw % warps
    halo = halo_of(whole, number)
    first_slot = warp * whole.slots_between(box.fragments)
    held = [(None, None)] * schedule.pairs
    turns = schedule.turns
    for index in range(-1, len(turns)):
        if index + 1 < len(turns):
            for load in turns[index + 1].loads:
                for slot, pair in zip(load.slots, load.pairs, strict=True):
                    at = first_slot + slot
                    held[pair] = (load.k_tile, halo[at : at + LANES].tolist())
        if index < 0:
            continue
        turn = turns[index]
        for fragment, pair in enumerate(turn.operands):
            rows = (warp * box.fragments + fragment) * LANES + np.arange(LANES)
            pixels = [whole.pixel(number, int(row)) for row in rows]
            expected = [lowered_pixel(box.conv, pixel, turn.tap) for pixel in pixels]
            assert held[pair] == (turn.k_tile, expected)
    assert {(turn.k_tile, turn.tap) for turn in turns} == set(np.ndindex(2, box.index.columns))


@settings(max_examples=60, deadline=None)
@given(boxes())
def test_reuse_loads_each_distinct_fragment_once(box):
    schedule = fragment_schedule(box, box.fragments, 1, True)
    first_pixels = [
        (fragment // box.columns) * box.width + fragment % box.columns
        for fragment in range(box.fragments)
    ]
    assert schedule.loaded == len(np.unique(box.index.table()[first_pixels]))
    again = fragment_schedule(box, box.fragments, 1, False)
    assert again.loaded == box.fragments * box.index.columns


def test_register_reuse_of_a_3x3_filter():
    """A warp of 64 pixels, 4 rows of 16: a third of the loads in fewer registers."""
    box = PixelBox(Conv2d(8, 56, 56, 64, 64, 3, 3, padding=(1, 1, 1, 1)), 8, 2, False)
    reused, again = (fragment_schedule(box, 8, 1, reuse) for reuse in (True, False))
    assert (reused.loaded, again.loaded) == (24, 72)
    assert reused.pairs < again.pairs


WORKLOADS = (
    Conv2d(1, 5, 9, 40, 24, 3, 3, (1, 1), (1, 1, 1, 1)),
    Conv2d(9, 5, 4, 64, 20, 3, 2, (2, 1), (1, 0, 1, 1), (1, 2)),
    Conv2d(2, 3, 18, 24, 32, 2, 3, (1, 2), (0, 1, 1, 1), groups=2),
    Conv2d(8, 4, 5, 32, 16, 3, 3, (1, 1), (1, 1, 1, 1), in_layout=NHWCNC),
)
CONFIGS = (
    MmaSyncConfig(2, 1, 1, 2, 1, False, 2, True, 1, "s8", "shared", "weights", 1, False),
    MmaSyncConfig(1, 2, 2, 2, 2, False, 2, False, 1, "s8", "register", "weights", 2, False),
    MmaSyncConfig(2, 1, 2, 4, 1, False, 2, True, 1, "s8", "register", "weights", 2, True),
    MmaSyncConfig(1, 2, 1, 2, 1, False, 2, False, 1, "s8", "shared", "weights", 2, True),
)


def stage_of(plan: MmaSyncPlan, x: np.ndarray, weight: np.ndarray, m: int, n: int, step: int):
    """Bytes of shared memory after the copies of one step, by their definition."""
    conv, tiling = plan.conv, plan.tiling
    stage = np.full(tiling.stage_bytes, 99, np.int8)
    group, (image, first_h, first_w) = n // tiling.group_tiles_n, tiling.box.origin(m)
    for index in range(plan.pixel_copies):
        lane, h, w = tiling.box.halo_pixel(plan.row_of_copy(index))
        h, w, channel = first_h + h, first_w + w, plan.chunk_byte(step, index)
        at = plan.pixel_offset(index)
        stage[at : at + tiling.piece] = 0
        inside = image + lane < conv.n and 0 <= h < conv.h and 0 <= w < conv.w
        if inside and channel < tiling.group_c:
            first = group * tiling.group_c + channel
            stage[at : at + tiling.piece] = x[image + lane, h, w, first : first + tiling.piece]
    for index in range(plan.weight_copies):
        at = plan.weight_offset(index)
        row, unit = divmod(index, plan.units_read)
        stage[at : at + 16] = weight[n, step, row, unit * 16 : unit * 16 + 16]
    return stage


def warp_products(plan: MmaSyncPlan, stages: list[np.ndarray], warp_row: int, warp_column: int):
    """Accumulators of a warp, int64 [row tiles, column tiles, 32 lanes, 4]."""
    config, lanes = plan.config, np.arange(32)
    first_slot = warp_row * plan.tiling.box.slots_between(config.warp_fragments)
    acc = np.zeros((config.WARP_ROW_TILES, config.WARP_COL_TILES, 32, 4), np.int64)
    a = np.zeros((32, plan.pixel_registers, 4), np.int8)
    turns = plan.tiling.fragments.turns
    for stage in stages:
        for index, turn in enumerate(turns):
            loads = turn.loads if index == 0 else ()
            loads += turns[index + 1].loads if index + 1 < len(turns) else ()
            for load in loads:
                registers = registers_of_load(load)
                found = ldmatrix(stage, address_of_load(plan, first_slot, load, lanes))
                a[:, registers] = found[:, : len(registers)]
            row = plan.weight_start + turn.tap * config.block_n * config.row_bytes
            for j in range(config.WARP_COL_TILES):
                at = fragment_of_weights(config, warp_column, j // 2, turn.k_tile, lanes)
                b = ldmatrix(stage, row + at)[:, j % 2 * 2 : j % 2 * 2 + 2]
                for i in range(config.WARP_ROW_TILES):
                    upper, lower = (2 * pair for pair in turn.operands[2 * i : 2 * i + 2])
                    pixels = a[:, [upper, lower, upper + 1, lower + 1]]
                    acc[i, j] += multiply(plan, pixels, b)
    return acc


def accumulate(plan: MmaSyncPlan, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Accumulators as the kernel's threads store them, int64 [n, p, q, k]; x is NHWC."""
    conv, tiling, config = plan.conv, plan.tiling, plan.config
    y = np.full((conv.n, conv.p, conv.q, conv.k), -(1 << 40))
    for m, n in np.ndindex(tiling.tiles_m, tiling.tiles_n):
        stages = [stage_of(plan, x, weight, m, n, step) for step in range(tiling.steps)]
        group, column = divmod(n, tiling.group_tiles_n)
        for warp_row, warp_column in np.ndindex(config.BLK_ROW_WARPS, config.BLK_COL_WARPS):
            acc = warp_products(plan, stages, warp_row, warp_column)
            for i, g, lane, half, e in np.ndindex(
                config.WARP_ROW_TILES, config.column_groups, 32, 2, config.run
            ):
                row = warp_row * config.warp_m + i * 16 + half * 8 + lane // 4
                image, p, q = tiling.box.pixel(m, row)
                channel = column * config.block_n + warp_column * config.warp_n
                channel += g * 4 * config.run + lane % 4 * config.run + e
                inside = image < conv.n and p < conv.p and q < conv.q
                if inside and channel < tiling.group_k:
                    value = acc[i, g * config.run // 2 + e // 2, lane, half * 2 + e % 2]
                    y[image, p, q, group * tiling.group_k + channel] = value
    return y


@pytest.mark.parametrize(
    ("conv", "config"),
    [
        (conv, config)
        for i, conv in enumerate(WORKLOADS)
        for j, config in enumerate(CONFIGS)
        if (i + j) % 2 == 0
    ],
    ids=lambda value: str(value) if isinstance(value, Conv2d) else value.duplicates,
)
def test_halo_and_schedule_make_the_convolution(conv, config):
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, conv.in_nhwc.x_shape).astype(np.int8)
    weight = rng.integers(-128, 128, conv.weight_shape).astype(np.int8)
    plan = MmaSyncPlan(conv, config, TARGET)
    found = accumulate(plan, x, pack_weight(plan.tiling, weight))
    np.testing.assert_array_equal(found, convolve(conv, x, weight))


STAGE = Conv2d(8, 28, 28, 128, 128, 3, 3, padding=(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("conv", "change", "rule"),
    [
        (Conv2d(8, 28, 28, 64, 64, 1, 1), {}, "duplicates='register' is not one of ('none',)"),
        (Conv2d(8, 29, 29, 64, 64, 3, 3, (3, 3)), {}, "duplicates='register' is not one of"),
        (
            Conv2d(8, 28, 28, 64, 64, 2, 2, dilation=(4, 4)),
            {"box_columns": 4, "images": True},
            "taps_share_pixels",
        ),
        (STAGE, {"duplicates": "none", "images": True}, "box_is_for_known_duplicates"),
        (STAGE, {"box_columns": 8}, "warp_covers_whole_rows"),
        (Conv2d(8, 29, 29, 64, 64, 1, 3), {"box_columns": 1}, "fragments_coincide"),
        (Conv2d(8, 29, 29, 64, 64, 7, 7), {"CHUNK": 2}, "code_is_short"),
        (STAGE, {"REORDER_INNER": True}, "reorder_changes_something"),
    ],
)
def test_rejections_name_their_rule(conv, change, rule):
    knobs = dict(
        BLK_ROW_WARPS=2, BLK_COL_WARPS=1, WARP_ROW_TILES=2, WARP_COL_TILES=8, CHUNK=1,
        REORDER_INNER=False, stages=2, swizzle=True, blocks_per_sm=1, duplicates="register",
        box_columns=2, images=False,
    )  # fmt: skip
    space = TEMPLATE.space(conv, parse_target("cuda:sm_90a"))
    assert rule in (space.rejection(MmaSyncConfig(**knobs | change)) or "")
