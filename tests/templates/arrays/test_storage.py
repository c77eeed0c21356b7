"""Packed nibbles: inverse of each other, and the bytes of ml_dtypes, onnx and hand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.storage import (
    pack_nibbles,
    stored,
    stored_bytes,
    to_stored,
    unpack_nibbles,
    value_dtype,
)
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.quantize import Quantize


def values_of(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    least, most = INTEGER_RANGE[dtype]
    rng = np.random.default_rng(seed)
    return rng.integers(least, most + 1, shape).astype(value_dtype(dtype))


@given(
    dtype=st.sampled_from(["int4", "uint4"]),
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    seed=st.integers(0, 99),
)
def test_packing_is_undone(dtype, shape, seed):
    values = values_of(dtype, shape, seed)
    packed = to_stored(values, dtype)
    assert (packed.shape, str(packed.dtype)) == stored(shape, dtype)
    assert packed.nbytes == stored_bytes(shape, dtype)
    back = unpack_nibbles(packed, shape[-1], dtype)
    assert back.dtype == value_dtype(dtype)
    np.testing.assert_array_equal(back, values)
    if shape[-1] % 2:
        assert not (packed[..., -1] >> 4).any()


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_bytes_are_those_of_onnx(dtype):
    values = values_of(dtype, (3, 4, 10))
    tensor = onnx.helper.make_tensor(
        "t", getattr(onnx.TensorProto, dtype.upper()), values.shape, values.reshape(-1).tolist()
    )
    raw = np.array(tensor.int32_data or list(tensor.raw_data)).astype(np.uint8)
    assert to_stored(values, dtype).tobytes() == raw.tobytes()


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_values_are_those_of_ml_dtypes(dtype):
    nibbles = np.arange(16, dtype=np.uint8)
    packed = nibbles[0::2] | nibbles[1::2] << 4
    typed = nibbles.astype(np.int8).astype(getattr(ml_dtypes, dtype))
    np.testing.assert_array_equal(unpack_nibbles(packed, 16, dtype), typed.astype(np.int64))


def test_low_nibble_comes_first():
    assert pack_nibbles(np.array([[1, -1, 7], [-8, 0, -2]], np.int8)).tolist() == [
        [0xF1, 0x07],
        [0x08, 0x0E],
    ]


@pytest.mark.parametrize("values", [np.array([8], np.int8), np.array([16], np.uint8)])
def test_values_out_of_range_are_refused(values):
    with pytest.raises(ValueError, match="can be stored"):
        pack_nibbles(values)


def test_bytes_of_workloads_count_halves():
    conv = Conv2d(2, 5, 5, 8, 7, 1, 1, in_dtype="int4", weight_dtype="int4",
                  epilogue=Epilogue("uint4", "int4"))  # fmt: skip
    assert conv.bytes == 2 * 25 * 4 + 7 * 4 + 2 * (2 * 25 * 4)
    assert Quantize(1, 4, 4, 3, 5, out_dtype="int4").bytes == 4 * 48 + 16 * 3
    assert Dequantize(1, 4, 4, 5, in_dtype="uint4").bytes == 16 * 3 + 4 * 80
