"""The halo's address map and weight packing against the convolution's definition."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from halo_cases import CASES, random_arrays

from autoq.search.space import Space
from autoq.templates.cuda.device.weights import row_channels
from autoq.templates.cuda.halo.conv2d_halo import TEMPLATE, matches, pack_weight
from autoq.templates.cuda.halo.space import tile_shapes
from autoq.templates.cuda.halo.tile import BLOCK_ROWS, HaloTile
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.cuda.halo.tiling import HaloTiling
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.oracle.reference import reference
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
SMALL = (
    Conv2d(n=3, h=9, w=11, c=16, k=20, r=3, s=3, padding=(1, 0, 2, 1)),
    Conv2d(n=2, h=12, w=10, c=48, k=16, r=2, s=4, padding=(0, 3, 1, 2), dilation=(2, 1)),
    Conv2d(n=2, h=8, w=15, c=32, k=33, r=3, s=2, padding=(1, 2, 1, 2), dilation=(1, 3)),
)


def load_halo(tile: HaloTile, x: np.ndarray, m: int, chunk: int) -> np.ndarray:
    """What one TMA box leaves in shared memory: [touched rows, row_bytes], 77 where unwritten."""
    work = tile.workload
    _, rows, columns = tile.grid
    first = (
        m // (rows * columns) * tile.shape.images,
        m // columns % rows * tile.shape.height - work.padding[0],
        m % columns * tile.shape.width - work.padding[1],
        chunk * tile.row_bytes,
    )
    extents = (tile.shape.images, tile.halo_height, tile.halo_width, tile.row_bytes)
    box = np.zeros(extents, np.int64)
    for index in np.ndindex(*extents[:3]):
        at = tuple(a + b for a, b in zip(first, index, strict=False))
        if all(0 <= a < size for a, size in zip(at, x.shape, strict=False)):
            channels = x[at][first[3] : first[3] + tile.row_bytes]
            box[index][: len(channels)] = channels
    smem = np.full((tile.touched_bytes // tile.row_bytes, tile.row_bytes), 77)
    smem[: tile.halo_rows] = box.reshape(-1, tile.row_bytes)[: len(smem)]
    return smem


def emulate(tile: HaloTile, x: np.ndarray, weight: np.ndarray, block_n: int) -> np.ndarray:
    """The kernel's sums int64 [n, p, q, k] by its own addresses; every pixel written once."""
    work = tile.workload
    packed = pack_weight(weight, tile, block_n).astype(np.int64)
    packed = packed.reshape(len(packed), tile.chunks, tile.steps, tile.step_bytes)
    y = np.zeros(work.y_shape, np.int64)
    written = np.zeros(work.y_shape[:3], int)
    for m in range(tile.tiles):
        halos = [load_halo(tile, x, m, chunk) for chunk in range(tile.chunks)]
        _, rows, columns = tile.grid
        origin = (
            m // (rows * columns) * tile.shape.images,
            m // columns % rows * tile.shape.height,
            m % columns * tile.shape.width,
        )
        for block, row in np.ndindex(tile.blocks, BLOCK_ROWS):
            halves = range(2 if tile.pairs_taps else 1)
            total = np.zeros(len(packed), np.int64)
            for chunk, step in np.ndindex(tile.chunks, tile.steps):
                at = [tile.shared_row(block, row, step, half) for half in halves]
                total += packed[:, chunk, step] @ halos[chunk][at].reshape(-1)
            image, in_row, column = tile.pixel(block, row)
            at = (origin[0] + image, origin[1] + in_row, origin[2] + column)
            inside = in_row < tile.shape.height and column < tile.shape.width
            if inside and all(a < b for a, b in zip(at, work.y_shape, strict=False)):
                y[at] = total[: work.k]
                written[at] += 1
    assert (written == 1).all()
    return y


@pytest.mark.parametrize("workload", SMALL, ids=str)
@pytest.mark.parametrize(
    "flat, images, height, width, row_bytes",
    [
        (False, 1, 8, 8, 32),
        (False, 2, 16, 8, 16),
        (True, 2, 3, 5, 16),
        (True, 1, 8, 4, 64),
        (True, 1, 2, 8, 32),
    ],
)
def test_shifted_reads_are_the_convolution(workload, flat, images, height, width, row_bytes):
    rng = np.random.default_rng(1)
    tile = HaloTile(workload, TileShape(flat, images, height, width), row_bytes)
    x = rng.integers(-128, 128, workload.x_shape)
    weight = rng.integers(-128, 128, workload.weight_shape).astype(np.int8)
    plain = dataclasses.replace(
        workload, epilogue=dataclasses.replace(workload.epilogue, out_dtype="int32")
    )
    bias = np.zeros(workload.k, np.int32)
    scalars = np.zeros(8, np.float32)
    constants = {"weight": weight, "bias": bias, "scalars": scalars}
    expected = reference(plain, [x.astype(np.int8)], constants)
    np.testing.assert_array_equal(emulate(tile, x, weight, 16), expected)


def test_pairs_of_an_odd_filter_row_have_a_zero_second_tap():
    workload = SMALL[0]
    tile = HaloTile(workload, TileShape(True, 1, 3, 5), 16)
    weight = np.ones(workload.weight_shape, np.int8)
    packed = pack_weight(weight, tile, 16).reshape(32, 1, 3, 2, 2, 16)
    assert packed[: workload.k, :, :, 1, 1].sum() == 0
    assert packed.sum() == weight.sum()


def test_weight_rows_are_a_permutation_of_a_tile():
    for block_n in (16, 32, 64, 96, 192):
        assert sorted(row_channels(block_n)) == list(range(block_n))


@pytest.mark.parametrize("workload", CASES, ids=str)
def test_default_and_samples_are_legal_and_lay_out_without_overlap(workload):
    assert matches(workload, TARGET)
    space: Space = TEMPLATE.space(workload, TARGET)
    default = TEMPLATE.default(workload, TARGET)
    assert space.legal(default), space.rejection(default)
    for config in [default, *space.sample(np.random.default_rng(0), 20)]:
        tiling = HaloTiling(workload, config, TARGET.units)
        tile = tiling.tile
        assert tiling.weight_offset >= (config.halo_stages - 1) * tile.slot_bytes + tile.load_bytes
        assert tiling.smem_bytes <= TARGET.smem_bytes
        assert tiling.smem_bytes >= (
            (config.halo_stages - 1) * tile.slot_bytes + tile.touched_bytes
        )
        assert tiling.barrier_offset % 8 == 0
        assert tiling.weight_offset % 1024 == 0
        assert tiling.grid * tiling.waves >= tiling.work
        arrays = TEMPLATE.pack(
            workload, config, random_arrays(workload, np.random.default_rng())[1]
        )
        assert arrays[0].shape == (tiling.n_tiles * config.block_n * tile.reduction,)


@pytest.mark.parametrize(
    "change",
    [
        {"stride": (2, 2)},
        {"groups": 2},
        {"c": 24},
        {"in_dtype": "float32", "weight_dtype": "float32"},
        {"r": 1, "s": 1},
    ],
)
def test_declines_what_it_cannot_compute(change):
    assert not matches(dataclasses.replace(CASES[0], **change), TARGET)
    assert not matches(CASES[0], parse_target("cuda:sm_80"))


@pytest.mark.parametrize(
    "change",
    [{}, {"c": 1024, "r": 7, "s": 7}, {"dilation": (24, 24), "padding": (24, 24, 24, 24)},
     {"dilation": (1, 60), "padding": (1, 60, 1, 60)}, {"n": 1, "w": 400, "k": 8},
     {"h": 600, "w": 600, "c": 4096, "r": 33, "s": 33, "padding": (0, 0, 0, 0)},
     {"n": 1, "h": 300, "w": 300, "k": 8, "r": 241, "s": 241, "padding": (0, 0, 0, 0)}],
    ids=str,
)  # fmt: skip
def test_matches_exactly_where_some_configuration_is_legal(change):
    workload = dataclasses.replace(CASES[0], **change)
    if not tile_shapes(workload):
        assert not matches(workload, TARGET)
        return
    drawn = TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(2), 1)
    assert matches(workload, TARGET) == bool(drawn)
