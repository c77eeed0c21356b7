"""conv2d_swapped: address map, staging and packing against numpy; it compiles without spills."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
from halo_cases import CASES, assert_sums
from test_halo_tile import load_halo

from autoq.kernel import compile_kernel
from autoq.templates.cuda.device.launch.team import Team
from autoq.templates.cuda.device.memory.swizzle import swizzled_address
from autoq.templates.cuda.halo.config import ResidentWeights
from autoq.templates.cuda.halo.swapped.conv2d_swapped import TEMPLATE, matches, pack_weight
from autoq.templates.cuda.halo.swapped.plan import SwappedPlan
from autoq.templates.cuda.halo.swapped.tile import SwappedTile
from autoq.templates.cuda.halo.swapped.tiling import SwappedTiling
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
SERVED = [workload for workload in CASES if matches(workload, TARGET)]
SMALL = (
    Conv2d(n=2, h=9, w=11, c=16, k=32, r=3, s=3, padding=(1, 0, 2, 1)),
    Conv2d(n=1, h=12, w=10, c=48, k=16, r=2, s=4, padding=(0, 3, 1, 2), dilation=(2, 1)),
    Conv2d(n=2, h=8, w=11, c=32, k=80, r=3, s=2, padding=(1, 2, 1, 2), dilation=(1, 3)),
)


def load_tile(tile: SwappedTile, x: np.ndarray, m: int, chunk: int) -> np.ndarray:
    """What TMA leaves of a chunk: `load_halo`'s rows, but images innermost."""
    smem = np.full((tile.touched_bytes // tile.row_bytes, tile.row_bytes), 77)
    alone = load_halo(tile, x, m, chunk)[: tile.halo_rows]
    rows = alone.reshape(tile.shape.images, -1, tile.row_bytes).swapaxes(0, 1)
    smem[: tile.halo_rows] = rows.reshape(-1, tile.row_bytes)[: len(smem)]
    return smem


def product(tile: SwappedTile, x: np.ndarray, packed: np.ndarray, m: int) -> np.ndarray:
    """D int64 [weight rows, columns] of a tile, each column read where its descriptor points."""
    halos = [load_tile(tile, x, m, chunk) for chunk in range(tile.chunks)]
    halves = range(2 if tile.pairs_taps else 1)
    total = np.zeros((len(packed), tile.columns), np.int64)
    for column, chunk, step in np.ndindex(tile.columns, tile.chunks, tile.steps):
        group, within = column // 8 * tile.group_rows, column % 8
        first = group + within + tile.tap_row(step)
        at = [first + half * tile.pair_rows for half in halves]
        total[:, column] += packed[:, chunk, step] @ halos[chunk][at].reshape(-1)
    return total


def stage(plan: SwappedPlan, d: np.ndarray) -> np.ndarray:
    """Staging buffer [pixel, 64] that stmatrix leaves of one block D [64, columns].

    A thread holds rows g and g + 8 and columns 2t and 2t + 1 of its warp's part; the transposed
    store gives lane 8 i + j's address the pairs of channels of column j of matrix i.
    """
    columns = d.shape[1]
    flat = np.full(plan.tiling.store_bytes, -999, np.int64)
    for warp, column in np.ndindex(4, columns):
        address = plan.staged(column, warp)
        assert address == swizzled_address(column * 64 + warp * 16, 64)
        for g in range(8):
            flat[address + 2 * g] = d[warp * 16 + g, column]
            flat[address + 2 * g + 1] = d[warp * 16 + g + 8, column]
    return flat[swizzled_address(np.arange(columns * 64), 64)].reshape(columns, 64)


@pytest.mark.parametrize("workload", SMALL, ids=str)
@pytest.mark.parametrize(
    "flat, images, height, width, row_bytes",
    [(False, 1, 4, 8, 32), (False, 1, 3, 8, 16), (True, 1, 3, None, 64), (True, 1, 5, None, 16),
     (True, 8, 1, None, 16), (True, 16, 1, 4, 32), (True, 8, 2, None, 64)],
)  # fmt: skip
def test_columns_staging_and_clipped_stores_are_the_convolution(
    workload, flat, images, height, width, row_bytes
):
    rng = np.random.default_rng(3)
    width = width or workload.q
    config = dataclasses.replace(
        TEMPLATE.default(workload, TARGET),
        tile=TileShape(flat, images, height, width), row_bytes=row_bytes, block_n=64,
        team=Team(1, True), weights=ResidentWeights(),
    )  # fmt: skip
    plan = SwappedPlan(SwappedTiling(workload, config, TARGET.units))
    tile = plan.tile
    x = rng.integers(-128, 128, workload.x_shape)
    weight = rng.integers(-128, 128, workload.weight_shape).astype(np.int8)
    packed = pack_weight(weight, tile, 64).astype(np.int64)
    packed = packed.reshape(-1, tile.chunks * tile.steps, 64, tile.step_bytes).swapaxes(1, 2)
    packed = packed.reshape(-1, tile.chunks, tile.steps, tile.step_bytes)
    y = np.zeros(workload.y_shape, np.int64)
    written = np.zeros(workload.y_shape, int)
    for m in range(tile.tiles):
        d = product(tile, x, packed, m)
        image, top, left = plan.origin(m)
        for first in range(0, len(packed), 64):
            staged = stage(plan, d[first : first + 64])
            for row, column, i in np.ndindex(
                tile.shape.height, tile.store_width, tile.shape.images
            ):
                p, q = top + row, left + column
                if p >= workload.p or q >= workload.q or image + i >= workload.n:
                    continue
                channels = min(64, workload.k - first)
                at = (row * tile.store_width + column) * tile.shape.images + i
                y[image + i, p, q, first : first + channels] = staged[at, :channels]
                written[image + i, p, q, first : first + channels] += 1
                assert tile.pixel(0, at) == (i, row, column)
    assert (written == 1).all()
    assert_sums(y, workload, x, weight)


@pytest.mark.parametrize("workload", SERVED, ids=str)
def test_default_and_samples_are_legal_and_lay_out_without_overlap(workload):
    space = TEMPLATE.space(workload, TARGET)
    default = TEMPLATE.default(workload, TARGET)
    assert space.legal(default), space.rejection(default)
    for config in [default, *space.sample(np.random.default_rng(0), 20)]:
        tiling = SwappedTiling(workload, config, TARGET.units)
        tile = tiling.tile
        assert tile.shape.width == workload.q or tile.shape.height == 1 or not tile.shape.flat
        assert tile.shape.images == 1 or (tile.shape.flat and tile.shape.images % 8 == 0)
        assert tiling.store_offset % 1024 == tiling.store_bytes % 1024 == 0
        assert tiling.store_offset >= tiling.weights_end
        buffers = config.consumers * config.store_stages
        assert tiling.barrier_offset >= tiling.store_offset + buffers * tiling.store_bytes
        assert tiling.store_bytes >= 64 * max(tile.columns, tile.staged_rows)
        assert tiling.barrier_offset + 8 * tiling.barriers <= tiling.smem_bytes
        assert tiling.smem_bytes <= TARGET.smem_bytes


@pytest.mark.parametrize(
    "change",
    [{"stride": (2, 2)}, {"k": 24}, {"c": 24}, {"epilogue": Epilogue("int32")},
     {"epilogue": Epilogue("int8", "int8")}, {"r": 1, "s": 1}],
    ids=str,
)  # fmt: skip
def test_declines_what_it_cannot_compute(change):
    assert not matches(dataclasses.replace(CASES[0], **change), TARGET)
    assert not matches(CASES[0], parse_target("cuda:sm_80"))


@pytest.mark.skipif(
    shutil.which("nvcc", path="/usr/local/cuda/bin") is None and shutil.which("nvcc") is None,
    reason="nvcc is not installed",
)
@pytest.mark.parametrize("workload", SERVED[::2], ids=str)
def test_default_and_some_samples_compile(workload):
    samples = 1 if workload in SERVED[::4] else 0
    found = TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(5), samples)
    for config in (TEMPLATE.default(workload, TARGET), *found):
        kernel = compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET)
        tiling = SwappedTiling(workload, config, TARGET.units)
        assert kernel.registers <= tiling.config.registers.launch
        assert kernel.launches[0].smem_bytes == tiling.smem_bytes
        assert kernel.spill_bytes == 0
