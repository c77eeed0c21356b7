"""conv2d_swapped_im2col: loads, packing and stores against numpy; it compiles without spills."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
from halo_cases import CASES, assert_sums

from autoq.kernel import compile_kernel
from autoq.templates.cuda.halo.swapped.conv2d_swapped_im2col import TEMPLATE, matches, pack_weight
from autoq.templates.cuda.halo.swapped.im2col_plan import SwappedIm2colPlan, SwappedIm2colTiling
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
STRIDED = (
    Conv2d(n=3, h=29, w=31, c=64, k=96, r=3, s=3, stride=(2, 2), padding=(1, 1, 1, 1),
           in_dtype="uint8", epilogue=Epilogue("uint8")),
    Conv2d(n=5, h=14, w=13, c=96, k=144, r=3, s=5, stride=(2, 1), padding=(1, 2, 0, 3),
           dilation=(1, 2), in_dtype="uint8", zero_point_border=True, epilogue=Epilogue("int8")),
    Conv2d(n=3, h=15, w=17, c=288, k=208, r=1, s=1, stride=(2, 2), in_dtype="uint8",
           epilogue=Epilogue("uint8")),
)  # fmt: skip
ONE_TAP = (
    Conv2d(n=5, h=9, w=7, c=96, k=144, r=1, s=1, epilogue=Epilogue("int8")),
    Conv2d(n=2, h=8, w=11, c=64, k=80, r=1, s=1, padding=(1, 0, 0, 2), in_dtype="uint8",
           zero_point_border=True, epilogue=Epilogue("uint8")),
)  # fmt: skip
SERVED = [workload for workload in (*CASES, *STRIDED, *ONE_TAP) if matches(workload, TARGET)]
SMALL = (
    Conv2d(n=2, h=9, w=8, c=48, k=32, r=3, s=3, stride=(2, 1), padding=(1, 0, 2, 1)),
    Conv2d(n=3, h=6, w=7, c=32, k=80, r=2, s=3, padding=(0, 2, 1, 0), dilation=(2, 1)),
    Conv2d(n=3, h=7, w=10, c=160, k=48, r=1, s=1, stride=(3, 2)),
)


def load(plan: SwappedIm2colPlan, x: np.ndarray, m: int, chunk: int) -> np.ndarray:
    """What an im2col load leaves, [columns, row_bytes]: pixels past the last one are zeros here."""
    work, tile = plan.workload, plan.tile
    tap, first = chunk // tile.chunks_of_a_tap, chunk % tile.chunks_of_a_tap * tile.row_bytes
    rows = np.zeros((tile.columns, tile.row_bytes), np.int64)
    for column in range(tile.columns):
        pixel = m * tile.columns + column
        image = pixel // (work.p * work.q)
        p, q = plan.output_pixel(m, column)
        h = p * work.stride[0] - work.padding[0] + tap // work.s * work.dilation[0]
        w = q * work.stride[1] - work.padding[1] + tap % work.s * work.dilation[1]
        if image < work.n and 0 <= h < work.h and 0 <= w < work.w:
            channels = x[image, h, w, first : first + tile.row_bytes]
            rows[column, : len(channels)] = channels
    return rows


@pytest.mark.parametrize("workload", SMALL, ids=str)
@pytest.mark.parametrize("columns, row_bytes, block_n", [(64, 32, 64), (80, 64, 128)])
def test_chunks_times_packed_weights_are_the_convolution(workload, columns, row_bytes, block_n):
    rng = np.random.default_rng(3)
    config = dataclasses.replace(
        TEMPLATE.default(workload, TARGET), tile=TileShape(True, 1, 1, columns),
        row_bytes=row_bytes, block_n=block_n,
    )  # fmt: skip
    plan = SwappedIm2colPlan(SwappedIm2colTiling(workload, config, TARGET.units))
    tile = plan.tile
    x = rng.integers(-128, 128, workload.x_shape)
    weight = rng.integers(-128, 128, workload.weight_shape).astype(np.int8)
    packed = pack_weight(weight, tile, block_n).astype(np.int64)
    packed = packed.reshape(-1, tile.chunks, block_n // 16, 2, 8, row_bytes)
    # Back from fragment rows to channels: row 16 w + 8 h + g is channel 16 w + 2 g + h.
    packed = packed.swapaxes(3, 4).reshape(-1, tile.chunks, block_n, row_bytes)
    y = np.concatenate(
        [
            sum(load(plan, x, m, chunk) @ packed[:, chunk].reshape(-1, row_bytes).T
                for chunk in range(tile.chunks))
            for m in range(tile.tiles)
        ]
    )  # fmt: skip
    y = y[: tile.pixels, : workload.k].reshape(workload.y_shape)
    assert_sums(y, workload, x, weight)


@pytest.mark.parametrize("workload", SERVED, ids=str)
def test_default_and_samples_are_legal_and_fit(workload):
    space = TEMPLATE.space(workload, TARGET)
    default = TEMPLATE.default(workload, TARGET)
    assert space.legal(default), space.rejection(default)
    for config in [default, *space.sample(np.random.default_rng(0), 20)]:
        tiling = SwappedIm2colTiling(workload, config, TARGET.units)
        buffers = config.consumers * config.store_stages
        assert tiling.store_offset >= tiling.weights_end
        assert tiling.barrier_offset >= tiling.store_offset + buffers * tiling.store_bytes
        assert tiling.store_bytes >= 64 * tiling.tile.columns
        assert tiling.barrier_offset + 8 * tiling.barriers <= tiling.smem_bytes
        assert tiling.smem_bytes <= TARGET.smem_bytes


@pytest.mark.parametrize(
    "change",
    [{"k": 24}, {"c": 16}, {"epilogue": Epilogue("int32")},
     {"epilogue": Epilogue("int8", "int8")}, {"stride": (9, 9)}],
    ids=str,
)  # fmt: skip
def test_declines_what_it_cannot_compute(change):
    assert not matches(dataclasses.replace(CASES[0], **change), TARGET)
    assert not matches(CASES[0], parse_target("cuda:sm_80"))


@pytest.mark.skipif(
    shutil.which("nvcc", path="/usr/local/cuda/bin") is None and shutil.which("nvcc") is None,
    reason="nvcc is not installed",
)
@pytest.mark.parametrize("workload", STRIDED, ids=str)
def test_default_and_a_sample_compile(workload):
    default = TEMPLATE.default(workload, TARGET)
    (sample,) = TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(5), 1)
    for config in (default, sample):
        kernel = compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET)
        assert kernel.launches[0].smem_bytes == SwappedIm2colTiling(workload, config, 1).smem_bytes
        assert kernel.spill_bytes == 0
