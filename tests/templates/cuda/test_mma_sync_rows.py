"""Addresses of the mma.sync kernel's rows against the layouts' own pack functions."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autoq.templates.cuda.mma_sync_config import MmaSyncConfig
from autoq.templates.cuda.mma_sync_plan import MmaSyncPlan
from autoq.templates.cuda.mma_sync_rows import (
    image_start,
    input_pitches,
    output_channel,
    output_start,
    pixel_of_row,
)
from autoq.templates.layout import LAYOUTS, NHWCNC, from_nhwc
from autoq.templates.target import parse_target
from autoq.templates.workload import Conv2d

PAIRS = list(itertools.product(LAYOUTS, LAYOUTS))
BLOCKED = Conv2d(16, 5, 6, 64, 96, 3, 3, (2, 1), (1, 0, 1, 1), in_layout=NHWCNC, out_layout=NHWCNC)


def elements(shape: tuple[int, ...], layout: str) -> np.ndarray:
    """Element of memory where each [n, h, w, c] of an array in a layout lies, int64."""
    n, h, w, c = shape
    numbers = np.arange(n * h * w * c)
    at = np.empty_like(numbers)
    at[from_nhwc(numbers.reshape(shape), layout).reshape(-1)] = numbers
    return at.reshape(shape)


CONVOLUTIONS = st.builds(
    lambda n, h, w, c, k, stride, padding, layouts: Conv2d(
        8 * n, h, w, 16 * c, 16 * k, 2, 3, stride, padding,
        in_layout=layouts[0], out_layout=layouts[1],
    ),
    st.integers(1, 2), st.integers(2, 5), st.integers(3, 5), st.integers(1, 3), st.integers(1, 3),
    st.tuples(st.integers(1, 2), st.integers(1, 3)), st.tuples(*[st.integers(0, 2)] * 4),
    st.sampled_from(PAIRS),
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
    found = output_start(conv, "int8", rows)[:, None] + output_channel(conv, "int8", channels)
    expected = elements((conv.n, conv.p, conv.q, conv.k), conv.out_layout)[image, p, q]
    np.testing.assert_array_equal(found, expected)
    pixel_pitch, channel_pitch = input_pitches(conv)
    pixels = np.arange(conv.h * conv.w) * pixel_pitch
    pixels = image_start(conv, np.arange(conv.n))[:, None] + pixels
    pieces = np.arange(0, conv.c, 16)
    at = elements((conv.n, conv.h, conv.w, conv.c), conv.in_layout).reshape(conv.n, -1, conv.c)
    found = pixels[:, :, None] + pieces * channel_pitch
    np.testing.assert_array_equal(found, at[:, :, pieces])


def _copy_addresses(conv: Conv2d) -> np.ndarray:
    """First byte of x that each copy of a block's first stage reads, in the order of copies."""
    plan = MmaSyncPlan(
        conv, MmaSyncConfig(2, 1, 2, 4, 2, False, 2, True, 1), parse_target("cuda:sm_80")
    )
    at = elements((conv.n, conv.h, conv.w, conv.c), conv.in_layout)
    index = np.arange(plan.pixel_copies)
    image, p, q = pixel_of_row(conv, plan.row_of_copy(index))
    return at[image, p, q, plan.piece_of_copy(index) * plan.tiling.piece]


def test_eight_copies_read_128_consecutive_bytes():
    """What NHWCnc is for; in NHWC only a stage's 64 channels of a pixel lie together."""
    conv = Conv2d(16, 8, 8, 256, 64, 1, 1, in_layout=NHWCNC)
    steps = np.diff(_copy_addresses(conv).reshape(-1, 8), axis=1)
    assert (steps == 16).all()
    steps = np.diff(_copy_addresses(conv.in_nhwc).reshape(-1, 8), axis=1)
    assert (steps[:, 3] != 16).all()


def test_eight_rows_of_a_fragment_store_128_consecutive_bytes():
    at = output_start(BLOCKED, "int8", np.arange(BLOCKED.n * BLOCKED.p * BLOCKED.q)).reshape(-1, 8)
    assert (at[:, 0] % 128 == 0).all() and (np.diff(at, axis=1) == 16).all()
