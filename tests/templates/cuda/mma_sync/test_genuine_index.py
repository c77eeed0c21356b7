"""The genuine-index map against numpy: equal indices are the same element of an index image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoq.templates.cuda.mma_sync.genuine_index import GenuineIndex, halo_origin
from autoq.templates.operators.conv2d import Conv2d

OUTSIDE = -1


@st.composite
def tiles(draw) -> tuple[Conv2d, GenuineIndex, int, int]:
    """A convolution of one channel, a tile size, and the output pixel where a tile begins."""
    pair = st.tuples(st.integers(1, 4), st.integers(1, 4))
    r, s = draw(pair)
    stride, dilation = draw(pair), draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    padding = draw(st.tuples(*[st.integers(0, 3)] * 4))
    least = [dilation[0] * (r - 1) + 1, dilation[1] * (s - 1) + 1]
    h, w = (draw(st.integers(size, size + 9)) for size in least)
    conv = Conv2d(1, h, w, 1, 1, r, s, stride, padding, dilation)
    height, width = draw(st.integers(1, conv.p)), draw(st.integers(1, conv.q))
    p, q = draw(st.integers(0, conv.p - height)), draw(st.integers(0, conv.q - width))
    return conv, GenuineIndex.of(conv, height, width), p, q


def lowered(conv: Conv2d, padded: np.ndarray, height: int, width: int, p: int, q: int):
    """The im2col matrix of a tile, [height * width, r * s], by the convolution's definition."""
    matrix = np.empty((height * width, conv.r * conv.s), padded.dtype)
    for y, x, r, s in np.ndindex(height, width, conv.r, conv.s):
        row = (p + y) * conv.stride[0] + r * conv.dilation[0]
        column = (q + x) * conv.stride[1] + s * conv.dilation[1]
        matrix[y * width + x, r * conv.s + s] = padded[row, column]
    return matrix


def padded_image(conv: Conv2d, image: np.ndarray, value: int) -> np.ndarray:
    top, left, bottom, right = conv.padding
    return np.pad(image, ((top, bottom), (left, right)), constant_values=value)


@settings(max_examples=150, deadline=None)
@given(tiles())
def test_equal_indices_are_the_same_element(tile):
    conv, index, p, q = tile
    top, left, bottom, right = conv.padding
    shape = (conv.h + top + bottom, conv.w + left + right)
    places = np.arange(np.prod(shape)).reshape(shape)
    matrix, table = lowered(conv, places, index.height, index.width, p, q), index.table()
    assert table.shape == matrix.shape == (index.rows, index.columns)
    pairs = set(zip(table.reshape(-1).tolist(), matrix.reshape(-1).tolist(), strict=True))
    # One to one between genuine indices and places: neither side occurs in two pairs.
    assert len(pairs) == len(np.unique(table)) == len(np.unique(matrix)) == index.distinct
    assert table.min() == 0 and table.max() == index.halo - 1


@settings(max_examples=150, deadline=None)
@given(tiles())
def test_the_halo_holds_what_the_lowered_matrix_repeats(tile):
    """Fetching the halo once and reading it through the map gives the lowered matrix."""
    conv, index, p, q = tile
    image = np.arange(conv.h * conv.w).reshape(conv.h, conv.w)
    first_h, first_w = halo_origin(conv, p, q)
    halo = np.full((index.halo_height, index.halo_width), OUTSIDE)
    for h, w in np.ndindex(halo.shape):
        if 0 <= first_h + h < conv.h and 0 <= first_w + w < conv.w:
            halo[h, w] = image[first_h + h, first_w + w]
    expected = lowered(conv, padded_image(conv, image, OUTSIDE), index.height, index.width, p, q)
    np.testing.assert_array_equal(halo.reshape(-1)[index.table()], expected)


def test_the_papers_example():
    """A 3x3 filter over a 6x6 image: nine rows of a row of outputs repeat each pixel thrice."""
    index = GenuineIndex(4, 4, (3, 3))
    assert index.halo == index.distinct == 36
    assert index.rows * index.columns == 144
    # Output (0, 0) at tap (1, 1), (0, 1) at (1, 0) and (1, 1) at (0, 0) are input pixel (1, 1).
    assert {index.genuine(0, 4), index.genuine(1, 3), index.genuine(5, 0)} == {7}


@pytest.mark.parametrize(
    ("index", "distinct"),
    [
        (GenuineIndex(4, 4, (1, 1)), 16),
        (GenuineIndex(2, 2, (3, 3), (4, 4)), 36),
        (GenuineIndex(1, 1, (3, 3), (1, 1), (2, 2)), 9),
        (GenuineIndex(2, 3, (3, 3), (2, 2)), 35),
    ],
)
def test_distinct_counts_what_occurs(index, distinct):
    assert index.distinct == distinct == len(np.unique(index.table()))
