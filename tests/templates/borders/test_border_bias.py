"""Border bias: padding with 0 and the table equal padding with the zero point."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autoq.templates.borders.bias import border_bias
from autoq.templates.borders.classes import border_classes
from autoq.templates.operators.conv2d import Conv2d


@st.composite
def convolutions(draw) -> Conv2d:
    r, s = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    padding = tuple(draw(st.integers(0, 5)) for _ in range(4))
    reach_h, reach_w = dilation[0] * (r - 1) + 1, dilation[1] * (s - 1) + 1
    h = max(draw(st.integers(1, 9)), reach_h - padding[0] - padding[2])
    w = max(draw(st.integers(1, 9)), reach_w - padding[1] - padding[3])
    stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Conv2d(1, h, w, 2, 3, r, s, stride, padding, dilation, zero_point_border=True)


def direct(workload: Conv2d, x: np.ndarray, weight: np.ndarray, outside: int) -> np.ndarray:
    """Convolution by its definition, [p, q, k]."""
    top, left, bottom, right = workload.padding
    padded = np.pad(
        x[0].astype(np.int64), ((top, bottom), (left, right), (0, 0)), constant_values=outside
    )
    y = np.zeros((workload.p, workload.q, workload.k), np.int64)
    for p in range(workload.p):
        for q in range(workload.q):
            for r in range(workload.r):
                for s in range(workload.s):
                    row = p * workload.stride[0] + r * workload.dilation[0]
                    column = q * workload.stride[1] + s * workload.dilation[1]
                    y[p, q] += weight[:, r, s].astype(np.int64) @ padded[row, column]
    return y


@settings(max_examples=60, deadline=None)
@given(convolutions(), st.integers(-128, 127), st.integers(0, 2**32 - 1), st.booleans())
def test_table_equals_padding_with_the_zero_point(workload, zero_point, seed, bordered) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, workload.x_shape).astype(np.int8)
    weight = rng.integers(-128, 128, workload.weight_shape).astype(np.int8)
    rows, columns = border_classes(workload)
    borders = rng.integers(-1000, 1000, (rows.count, columns.count, workload.k))
    bias = (borders if bordered else borders[0, 0]).astype(np.int32)
    table = border_bias(workload, weight, bias, zero_point)
    assert table.shape == (rows.count, columns.count, workload.k)
    of_pixels = borders[rows.places()[:, None], columns.places()] if bordered else bias
    exact = direct(workload, x, weight, zero_point) + of_pixels
    exact -= zero_point * weight.astype(np.int64).sum(axis=(1, 2, 3))
    padded_with_zero = direct(workload, x, weight, 0)
    for p in range(workload.p):
        for q in range(workload.q):
            got = padded_with_zero[p, q] + table[rows.of(p), columns.of(q)]
            np.testing.assert_array_equal(got, exact[p, q])


def test_one_class_without_border() -> None:
    workload = Conv2d(1, 5, 5, 2, 3, 3, 3, padding=(1, 1, 1, 1))
    table = border_bias(workload, np.ones((3, 3, 3, 2), np.int8), np.zeros(3, np.int32), 2)
    np.testing.assert_array_equal(table, np.full((1, 1, 3), -36))
