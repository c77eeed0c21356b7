"""NHWCnc by its definition, there and back; what has no such form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoq.templates.arrays.layout import (
    LAYOUTS,
    NHWC,
    NHWCNC,
    block_channels,
    fits,
    from_nhwc,
    shape_in,
    to_nhwc,
)
from autoq.templates.arrays.storage import stored
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d

SHAPES = st.tuples(
    st.integers(1, 3).map(lambda b: 8 * b), st.integers(1, 4), st.integers(1, 4),
    st.integers(1, 3).map(lambda b: 32 * b),
)  # fmt: skip
DTYPES = st.sampled_from(["int8", "uint8", "int4", "uint4"])


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.sampled_from(LAYOUTS), DTYPES)
def test_there_and_back(shape, layout, dtype):
    x = np.arange(np.prod(shape)).reshape(shape)
    there = from_nhwc(x, layout, dtype)
    assert there.shape == shape_in(shape, layout, dtype)
    np.testing.assert_array_equal(to_nhwc(there, layout), x)


@settings(max_examples=40, deadline=None)
@given(SHAPES, DTYPES, st.data())
def test_nhwcnc_is_its_definition(shape, dtype, data):
    x = np.arange(np.prod(shape)).reshape(shape)
    n, h, w, c = (data.draw(st.integers(0, size - 1)) for size in shape)
    size = 32 if dtype.endswith("int4") else 16
    assert from_nhwc(x, NHWCNC, dtype)[n // 8, h, w, c // size, n % 8, c % size] == x[n, h, w, c]


@pytest.mark.parametrize("dtype", ["int8", "uint4"])
def test_a_row_of_a_block_is_16_bytes(dtype):
    shape = shape_in((8, 2, 2, 64), NHWCNC, dtype)
    assert stored(shape, dtype)[0][-2:] == (8, 16)
    assert shape[-1] == block_channels(dtype)


def test_only_whole_blocks_fit():
    assert fits(8, 16, "int8") and fits(16, 48, "uint8") and fits(8, 96, "int4")
    assert not fits(8, 48, "uint4")
    assert not fits(4, 16, "int8") and not fits(12, 16, "int8")
    assert not fits(8, 24, "int8") and not fits(8, 16, "float32")


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 4, "in_layout": NHWCNC},
        {"c": 24, "in_layout": NHWCNC},
        {"k": 24, "out_layout": NHWCNC},
        {"epilogue": Epilogue("float32"), "out_layout": NHWCNC},
        {"epilogue": Epilogue("int8", "float32"), "out_layout": NHWCNC},
        {"epilogue": Epilogue("int8", "int4"), "out_layout": NHWCNC},
        {"c": 48, "in_dtype": "int4", "in_layout": NHWCNC},
        {"k": 48, "epilogue": Epilogue("uint4"), "out_layout": NHWCNC},
        {"in_layout": "NCHW"},
    ],
    ids=str,
)
def test_convolutions_refuse_what_does_not_fill_blocks(fields):
    sizes = {"n": 8, "h": 4, "w": 4, "c": 32, "k": 32, "r": 3, "s": 3}
    Conv2d(**sizes, in_layout=NHWCNC, out_layout=NHWCNC)
    with pytest.raises(ValueError, match=r"layout|blocks"):
        Conv2d(**{**sizes, **fields})


def test_layouts_show_in_names():
    conv = Conv2d(8, 4, 4, 32, 32, 3, 3)
    names = {str(Conv2d(8, 4, 4, 32, 32, 3, 3, in_layout=i, out_layout=o))
             for i in LAYOUTS for o in LAYOUTS}  # fmt: skip
    assert len(names) == 4 and str(conv) == "N8 3x3 4x4x32->32"
    assert conv == Conv2d(8, 4, 4, 32, 32, 3, 3, in_layout=NHWC, out_layout=NHWC)
