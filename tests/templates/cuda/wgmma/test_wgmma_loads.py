"""Loads, K layout and packed weights together give the convolution, with TMA emulated in numpy."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import tvm.sym
import tvm.tirx
from wgmma_cases import CASES, TARGET, TEMPLATES, case_id

from autoq.templates.cuda.device.memory.tma import MAX_BOX, MAX_ELEMENT_STRIDE, Delivery
from autoq.templates.cuda.device.weights import pack_weight
from autoq.templates.cuda.wgmma import conv2d_im2col, conv2d_tap, gemm_wgmma
from autoq.templates.cuda.wgmma.loads import Im2colLoad, Load
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm

ANALYZER = tvm.sym.Analyzer()
SMALL = [case for case in CASES if case[1].operations < 60e6]
LOADS = {module.TEMPLATE.name: module._load for module in (gemm_wgmma, conv2d_im2col, conv2d_tap)}


def fetched(load: Load, m: int, sub_tile: int) -> list[int]:
    """Coordinates of a fetch, im2col offsets behind them."""
    word, handle = tvm.tirx.Var("word", "uint32"), tvm.tirx.Var("handle", "handle")
    arguments = load.fetch(word, handle, m, sub_tile, word, Delivery()).args
    integers = [int(value) for value in arguments if isinstance(value, tvm.tirx.IntImm)]
    return integers[: load.rank + (2 if isinstance(load, Im2colLoad) else 0)]


def constant(condition: object) -> bool:
    """Value of a condition over integers."""
    if isinstance(condition, bool):
        return condition
    return bool(int(ANALYZER.simplify(condition)))


def at(x: np.ndarray, index: tuple[int, ...]) -> np.ndarray | None:
    """A row of channels, None outside the tensor."""
    inside = all(0 <= i < size for i, size in zip(index, x.shape, strict=False))
    return x[index] if inside else None


def channels_of(row: np.ndarray | None, first: int, count: int) -> np.ndarray:
    """`count` channels of a row, zeros beyond its end."""
    out = np.zeros(count, np.int64)
    if row is not None:
        found = row[first : first + count]
        out[: len(found)] = found
    return out


def tiled_rows(x: np.ndarray, arguments: list[int], rank: int, origin: list[int]) -> np.ndarray:
    """A tiled load with element strides: [rows, box channels]."""
    box, steps = arguments[2 * rank - 1 : 3 * rank - 1], arguments[3 * rank - 1 : 4 * rank - 1]
    assert all(1 <= extent <= MAX_BOX for extent in box)
    assert all(1 <= step <= MAX_ELEMENT_STRIDE for step in steps)
    extents = [
        range(first, first + extent, step)
        for first, extent, step in zip(origin, box, steps, strict=True)
    ]
    indices = itertools.product(*reversed(extents[1:]))
    return np.stack([channels_of(at(x, index), origin[0], box[0]) for index in indices])


def im2col_rows(x: np.ndarray, arguments: list[int], origin: list[int]) -> np.ndarray:
    """An im2col load: base pixels walk the bounding box from the origin, wrapping at its ends."""
    lower, upper = arguments[7:9], arguments[9:11]
    channels, pixels = arguments[11:13]
    step_w, step_h = arguments[14:16]
    channel, w, h, n, offset_w, offset_h = origin
    rows = []
    for _ in range(pixels):
        rows.append(channels_of(at(x, (n, h + offset_h, w + offset_w)), channel, channels))
        w += step_w
        if w > x.shape[2] - 1 + upper[0]:
            w, h = lower[0], h + step_h
        if h > x.shape[1] - 1 + upper[1]:
            h, n = lower[1], n + 1
    return np.stack(rows)


def convolution(x: np.ndarray, weight: np.ndarray, work: Conv2d) -> np.ndarray:
    """Direct convolution, padded with 0: int64 [n, p, q, k]."""
    top, left, bottom, right = work.padding
    padded = np.pad(x.astype(np.int64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    out = np.zeros(work.y_shape, np.int64)
    for r, s in itertools.product(range(work.r), range(work.s)):
        h, w = r * work.dilation[0], s * work.dilation[1]
        rows = slice(h, h + (work.p - 1) * work.stride[0] + 1, work.stride[0])
        columns = slice(w, w + (work.q - 1) * work.stride[1] + 1, work.stride[1])
        out += padded[:, rows, columns] @ weight[:, r, s].astype(np.int64).T
    return out


@pytest.mark.parametrize("case", SMALL, ids=case_id)
def test_tiles_compute_the_convolution(case: tuple[str, Conv2d | Gemm]) -> None:
    name, workload = case
    work = workload.as_conv2d() if isinstance(workload, Gemm) else workload
    rng = np.random.default_rng(2)
    x = rng.integers(-20, 20, work.x_shape)
    weight = rng.integers(-20, 20, work.weight_shape, np.int8)
    expected = convolution(x, weight, work).reshape(-1, work.k)
    configs = TEMPLATES[name].space(workload, TARGET).sample(rng, 1)
    for config in [TEMPLATES[name].default(workload, TARGET), *configs]:
        load = LOADS[name](work, config)
        packed = pack_weight(weight, load.layout, config.block_n).astype(np.int64)
        written = np.zeros(len(expected), int)
        for m in range(load.m_tiles):
            total = tile_product(load, x, packed, m)[:, : work.k]
            for row in range(config.block_m):
                pixel = load.pixel(m, row)
                if not constant(pixel.exists):
                    continue
                index = int(pixel.index)
                written[index] += 1
                assert np.array_equal(total[row], expected[index]), (config, m, row)
                if load.rank == 4:
                    assert index % (work.p * work.q) == int(pixel.p) * work.q + int(pixel.q)
        assert np.all(written == 1), config


@pytest.mark.parametrize("case", SMALL, ids=case_id)
def test_loads_of_wider_elements_have_fewer_channels(case: tuple[str, Conv2d | Gemm]) -> None:
    name, workload = case
    work = workload.as_conv2d() if isinstance(workload, Gemm) else workload
    config = TEMPLATES[name].default(workload, TARGET)
    work = replace(
        work, in_dtype="float32", weight_dtype="float32", epilogue=Epilogue("float32"),
        border_bias=False,
    )  # fmt: skip
    load = LOADS[name](work, config)
    assert load.layout.row_channels * 4 == config.row_bytes
    strides = load.map_arguments()[4:7] if load.rank == 4 else load.map_arguments()[2:3]
    c, w, h = work.c, work.w, work.h
    assert strides == [4 * c, 4 * c * w, 4 * c * w * h][: load.rank - 1]
    rng = np.random.default_rng(3)
    x = rng.integers(-20, 20, work.x_shape)
    weight = rng.integers(-20, 20, work.weight_shape).astype(np.float32)
    expected = convolution(x, weight, work).reshape(-1, work.k)
    packed = pack_weight(weight, load.layout, config.block_n).astype(np.int64)
    m = load.m_tiles - 1
    total = tile_product(load, x, packed, m)[:, : work.k]
    pixels = [load.pixel(m, row) for row in range(load.rows)]
    inside = [row for row, pixel in enumerate(pixels) if constant(pixel.exists)]
    assert inside
    for row in inside:
        assert np.array_equal(total[row], expected[int(pixels[row].index)]), row


def tile_product(load: Load, x: np.ndarray, packed: np.ndarray, m: int) -> np.ndarray:
    """Activations times weights of one tile over all sub-tiles: [load.rows, packed rows]."""
    arguments, row_bytes = load.map_arguments(), load.layout.row_channels
    total = np.zeros((load.rows, len(packed)), np.int64)
    for sub_tile in range(packed.shape[1] // row_bytes):
        origin = fetched(load, m, sub_tile)
        if isinstance(load, Im2colLoad):
            rows = im2col_rows(x, arguments, origin)
        else:
            tensor = x if load.rank == 4 else x.reshape(-1, x.shape[-1])
            rows = tiled_rows(tensor, arguments, load.rank, origin)
        total += rows @ packed[:, sub_tile * row_bytes : (sub_tile + 1) * row_bytes].T
    return total
