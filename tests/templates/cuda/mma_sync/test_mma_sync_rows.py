"""Addresses of the mma.sync kernel's rows against the layouts' own pack functions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoq.templates.arrays.element import element
from autoq.templates.arrays.layout import LAYOUTS, NHWCNC, from_nhwc
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.plan import MmaSyncPlan
from autoq.templates.cuda.mma_sync.rows import (
    image_start,
    input_pitches,
    output_channel,
    output_start,
    pixel_of_row,
)
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

PAIRS = list(itertools.product(LAYOUTS, LAYOUTS))
BLOCKED = Conv2d(16, 5, 6, 64, 96, 3, 3, (2, 1), (1, 0, 1, 1), in_layout=NHWCNC, out_layout=NHWCNC)


def elements(shape: tuple[int, ...], layout: str, dtype: str) -> np.ndarray:
    """Byte of memory where each [n, h, w, c] of an array in a layout lies, int64."""
    n, h, w, c = shape
    numbers = np.arange(n * h * w * c)
    at = np.empty_like(numbers)
    at[from_nhwc(numbers.reshape(shape), layout, dtype).reshape(-1)] = numbers
    return at.reshape(shape) * element(dtype).bits // 8


CONVOLUTIONS = st.builds(
    lambda n, h, w, c, k, stride, padding, layouts, dtypes: Conv2d(
        8 * n, h, w, 32 * c, 32 * k, 2, 3, stride, padding,
        in_dtype=dtypes[0], epilogue=Epilogue(dtypes[1]),
        in_layout=layouts[0], out_layout=layouts[1],
    ),
    st.integers(1, 2), st.integers(2, 5), st.integers(3, 5), st.integers(1, 3), st.integers(1, 3),
    st.tuples(st.integers(1, 2), st.integers(1, 3)), st.tuples(*[st.integers(0, 2)] * 4),
    st.sampled_from(PAIRS), st.tuples(*[st.sampled_from(["int8", "uint4"])] * 2),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(CONVOLUTIONS)
def test_rows_run_over_all_pixels(conv):
    image, p, q = pixel_of_row(conv, np.arange(conv.n * conv.p * conv.q))
    numbers = (image * conv.p + p) * conv.q + q
    assert (np.sort(numbers) == np.arange(len(numbers))).all()


@settings(max_examples=25, deadline=None)
@given(CONVOLUTIONS)
def test_addresses_are_those_of_the_layouts(conv):
    rows, channels = np.arange(conv.n * conv.p * conv.q), np.arange(conv.k)
    image, p, q = pixel_of_row(conv, rows)
    out = conv.epilogue.out_dtype
    found = output_start(conv, out, rows)[:, None] + output_channel(conv, out, channels)
    expected = elements((conv.n, conv.p, conv.q, conv.k), conv.out_layout, out)[image, p, q]
    np.testing.assert_array_equal(found, expected)
    pixel_pitch, channel_pitch = input_pitches(conv)
    pixels = np.arange(conv.h * conv.w) * pixel_pitch
    pixels = image_start(conv, np.arange(conv.n))[:, None] + pixels
    at = elements((conv.n, conv.h, conv.w, conv.c), conv.in_layout, conv.in_dtype)
    values = 128 // element(conv.in_dtype).bits  # of 16 bytes
    found = pixels[:, :, None] + np.arange(0, conv.c // values) * 16 * channel_pitch
    np.testing.assert_array_equal(found, at.reshape(conv.n, -1, conv.c)[:, :, ::values])


def _copy_addresses(conv: Conv2d, compute: str) -> np.ndarray:
    """First byte of x that each copy of a block's first stage reads, in the order of copies."""
    config = MmaSyncConfig(2, 1, 2, 4, 2, False, 2, True, 1, compute)
    plan = MmaSyncPlan(conv, config, parse_target("cuda:sm_80"))
    at = elements((conv.n, conv.h, conv.w, conv.c), conv.in_layout, conv.in_dtype)
    index = np.arange(plan.pixel_copies)
    image, p, q = pixel_of_row(conv, plan.row_of_copy(index))
    values = plan.tiling.piece_read * 8 // element(conv.in_dtype).bits
    return at[image, p, q, plan.piece_of_copy(index) * values]


@pytest.mark.parametrize(
    ("dtype", "compute"), [("int8", "s8"), ("int4", "s4"), ("int4", "s8_unpacked")]
)
def test_eight_copies_read_128_consecutive_bytes(dtype, compute):
    """What NHWCnc is for; in NHWC only a stage's bytes of a pixel lie together."""
    conv = Conv2d(16, 8, 8, 256, 64, 1, 1, in_layout=NHWCNC, in_dtype=dtype, weight_dtype=dtype)
    steps = np.diff(_copy_addresses(conv, compute).reshape(-1, 8), axis=1)
    assert (steps == 16).all()
    steps = np.diff(_copy_addresses(conv.in_nhwc, compute).reshape(-1, 8), axis=1)
    assert (steps[:, 3] != 16).all()


def test_eight_rows_of_a_fragment_store_128_consecutive_bytes():
    at = output_start(BLOCKED, "int8", np.arange(BLOCKED.n * BLOCKED.p * BLOCKED.q)).reshape(-1, 8)
    assert (at[:, 0] % 128 == 0).all() and (np.diff(at, axis=1) == 16).all()
