"""References of convolutions and products: every sum exact, whatever its tiles and threads are."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.measure.arrays import random_case
from autoq.templates.arrays.layout import from_nhwc, to_nhwc
from autoq.templates.arrays.storage import value_dtype
from autoq.templates.epilogue import Epilogue, apply_epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.oracle import convolution_sums
from autoq.templates.oracle.convolution_sums import ConvolutionSums

FLOATS = {"in_dtype": "float32", "weight_dtype": "float32", "epilogue": Epilogue("float32")}
BORDER = {"zero_point_border": True}
CONVOLUTIONS = [
    Conv2d(3, 9, 7, 5, 6, 3, 3, (2, 1), (1, 1, 1, 1), in_dtype="uint8"),
    Conv2d(2, 11, 8, 6, 9, 3, 2, (1, 2), (0, 2, 1, 1), (2, 3), 3, "uint8", **BORDER),
    Conv2d(1, 3, 3, 4, 4, 3, 3, (1, 1), (4, 4, 4, 4), **BORDER),
    Conv2d(1, 2, 2, 3, 4, 1, 1, (1, 1), (3, 0, 0, 3), **BORDER),
    Conv2d(2, 9, 9, 12, 12, 5, 5, (2, 2), (2, 2, 2, 2), groups=12, in_dtype="uint8", **BORDER),
    Conv2d(2, 9, 5, 7, 7, 3, 3, (1, 1), (2, 2, 2, 2), (2, 2), groups=7),
    Conv2d(1, 6, 6, 4, 12, 3, 3, groups=4, in_dtype="uint8"),
    Conv2d(1, 7, 9, 1, 1, 3, 3, in_dtype="uint8", epilogue=Epilogue("int32")),
    Conv2d(2, 6, 6, 9, 8, 3, 3, (1, 1), (1, 1, 1, 1), in_dtype="uint4", weight_dtype="int4",
           epilogue=Epilogue("uint4", "int4", True), **BORDER),
    Conv2d(2, 5, 5, 16, 8, 1, 1, (2, 2), in_dtype="int4", epilogue=Epilogue("int8", table=True)),
    Conv2d(2, 5, 5, 6, 8, 3, 3, epilogue=Epilogue("uint8", "int8", True, concatenates=True)),
    Conv2d(8, 6, 5, 32, 16, 3, 3, (1, 1), (1, 1, 1, 1), in_layout="NHWCnc", out_layout="NHWCnc",
           epilogue=Epilogue("int8", "uint8")),
    Conv2d(2, 7, 5, 6, 4, 3, 3, (2, 1), (1, 1, 0, 0), groups=2, **FLOATS),
    Conv2d(2, 7, 5, 6, 6, 3, 3, (1, 1), (1, 1, 1, 1), groups=6, **FLOATS),
]  # fmt: skip
PRODUCTS = [
    Gemm(7, 30, 65, in_dtype="uint8", epilogue=Epilogue("int32")),
    Gemm(3, 17, 5, epilogue=Epilogue("uint8", "uint8", True)),
    Gemm(5, 9, 33, **FLOATS),
]


def _in_float64(conv, activations, constants):
    """The reference over the float64 sum of every tap: exact for integers below 2**53."""
    layouts = (conv.in_layout, conv.out_layout)
    x, *residual = (to_nhwc(a, at) for a, at in zip(activations, layouts, strict=False))
    integer = conv.in_dtype != "float32"
    zero_point = constants.get("x_zero_point", 0) if integer else 0
    top, left, bottom, right = conv.padding
    edges = ((0, 0), (top, bottom), (left, right), (0, 0))
    padded = np.pad(x.astype(np.float64), edges, constant_values=zero_point)
    weight = constants["weight"].astype(np.float64)
    depth, filters = conv.c // conv.groups, conv.k // conv.groups
    total = np.zeros((conv.n, conv.p, conv.q, conv.k))
    for p in range(conv.p):
        for q in range(conv.q):
            h, w = p * conv.stride[0], q * conv.stride[1]
            box = padded[:, h:, w:][:, :: conv.dilation[0], :: conv.dilation[1]]
            box = box[:, : conv.r, : conv.s].reshape(conv.n, conv.r, conv.s, conv.groups, depth)
            taps = weight.reshape(conv.groups, filters, conv.r, conv.s, depth)
            total[:, p, q] = np.einsum("nrsgc,gfrsc->ngf", box, taps).reshape(conv.n, conv.k)
    total -= zero_point * weight.sum(axis=(1, 2, 3))
    y = apply_epilogue(
        conv.epilogue,
        total.astype(np.int32 if integer else np.float32),
        constants["bias"],
        constants.get("scale"),
        constants["scalars"],
        residual[0] if residual else None,
        constants.get("table"),
    )
    assert y.dtype == value_dtype(conv.epilogue.out_dtype)
    return from_nhwc(y, conv.out_layout, conv.epilogue.out_dtype)


def _product_in_float64(gemm, activations, constants):
    images = [array.reshape(gemm.m, 1, 1, -1) for array in activations]
    weight = constants["weight"].reshape(gemm.n, 1, 1, gemm.k)
    return _in_float64(gemm.as_conv2d(), images, {**constants, "weight": weight}).reshape(
        gemm.y_shape
    )


def _small_tiles(monkeypatch, rng):
    """Limits that cut even small workloads along every axis."""
    for limit, most in (
        ("_TILE_OPERATIONS", 64), ("_TILE_PIXELS", 9), ("_TILE_CHANNELS", 6), ("_BLOCK", 40),
        ("_TILE_SUMS", 200), ("_TILE_VALUES", 2000), ("_DEPTHWISE_SUMS", 100),
    ):  # fmt: skip
        monkeypatch.setattr(convolution_sums, limit, int(rng.integers(1, most)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("workload", CONVOLUTIONS + PRODUCTS, ids=str)
def test_a_reference_is_the_sum_in_float64(workload, small, threads, monkeypatch):
    rng = np.random.default_rng(threads)
    for seed in range(3):
        if small:
            _small_tiles(monkeypatch, rng)
        activations, constants = random_case(workload, seed)
        slow = _product_in_float64 if isinstance(workload, Gemm) else _in_float64
        expected = slow(workload, activations, constants)
        (y,) = workload.reference_in_threads(activations, constants, threads)
        assert y.dtype == expected.dtype and y.flags.c_contiguous
        if y.dtype == np.float32:
            np.testing.assert_allclose(y, expected, rtol=1e-6)
        else:
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("in_dtype", "x", "zero_point", "weight", "depth"),
    [
        ("uint8", 255, 0, -128, 5000),
        ("uint8", 255, 0, 127, 513),
        ("uint8", 0, 255, -128, 3001),
        ("int8", -128, 0, -128, 4097),
        ("int8", -128, 127, -128, 2999),
        ("int8", 127, -128, 127, 66001),
    ],
)
@pytest.mark.parametrize("form", ["product", "filters", "groups"])
def test_the_largest_sums_are_exact(in_dtype, x, zero_point, weight, depth, form):
    """Extremes with a few odd numbers among them, which float32 sums past 2**24 lose."""
    rng = np.random.default_rng(depth)
    shape = {
        "product": (2, 1, 1, depth),
        "filters": (1, 4, 3, -(-depth // 6)),
        "groups": (1, 4, 3, 2 * -(-depth // 6)),
    }[form]
    taps = (1, 1) if form == "product" else (3, 2)
    groups = 2 if form == "groups" else 1
    conv = Conv2d(*shape, 4, *taps, groups=groups, in_dtype=in_dtype, epilogue=Epilogue("int32"))
    images = np.full(conv.x_shape, x, in_dtype)
    filters = np.full(conv.weight_shape, weight, np.int8)
    for array, odd in ((images, 1), (filters, 3)):
        array[rng.random(array.shape) < 0.01] = odd
    images.flat[0] = x
    constants = {
        "weight": filters, "bias": np.arange(4, dtype=np.int32), "x_zero_point": zero_point,
        "scalars": np.zeros(8, np.float32),
    }  # fmt: skip
    expected = _in_float64(conv, (images,), constants)
    assert np.abs(expected.astype(np.int64)).min() > 1 << 23
    np.testing.assert_array_equal(conv.reference((images,), constants)[0], expected)


def test_sums_past_int32_wrap_around():
    conv = Gemm(1, 1, 140_000, in_dtype="uint8", epilogue=Epilogue("int32")).as_conv2d()
    x, weight = np.full(conv.x_shape, 255, np.uint8), np.full(conv.weight_shape, 127, np.int8)
    sums = ConvolutionSums(conv, x, weight, 0)
    (tile,) = sums.tiles(1)
    exact = 255 * 127 * 140_000
    assert exact > 2**32 and sums.of(tile).item() == (exact + 2**31) % 2**32 - 2**31


def test_tiles_cover_the_output_once_and_stay_small():
    wide = Conv2d(1, 1, 3_000_000, 16, 32, 1, 1)
    deep = Gemm(1024, 8, 1 << 18).as_conv2d()
    rows = Conv2d(3, 1024, 1024, 3, 1500, 3, 3, (2, 2))
    depthwise = Conv2d(2, 100, 100, 5000, 5000, 3, 3, groups=5000)
    for conv in (wide, deep, rows, depthwise):
        x = np.broadcast_to(np.int8(1), conv.x_shape)
        weight = np.broadcast_to(np.int8(1), conv.weight_shape)
        tiles = ConvolutionSums(conv, x, weight, 0).tiles(16)
        places = {(t.images.start, t.rows.start, t.columns.start, t.channels.start) for t in tiles}
        assert len(places) == len(tiles) >= 32
        assert sum(np.prod(t.shape) for t in tiles) == np.prod(conv.y_shape)
        for tile in tiles:
            pixels = np.prod(tile.shape[:3])
            assert pixels * tile.shape[3] <= 1 << 20
            assert pixels * np.prod(conv.weight_shape[1:]) <= 1 << 23
