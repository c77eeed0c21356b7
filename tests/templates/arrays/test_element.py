"""The table of element types says what numpy, ml_dtypes and C say."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

from autoq.templates.arrays.element import ELEMENTS, INTEGER_RANGE, element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.oracle.random_arrays import random_array

INTEGERS = [row for row in ELEMENTS.values() if row.range]
C_TYPES = {
    "signed char": ctypes.c_byte, "unsigned char": ctypes.c_ubyte, "short": ctypes.c_short,
    "unsigned short": ctypes.c_ushort, "int": ctypes.c_int, "unsigned": ctypes.c_uint,
    "long long": ctypes.c_longlong, "unsigned long long": ctypes.c_ulonglong,
    "float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool,
}  # fmt: skip


@pytest.mark.parametrize("row", INTEGERS, ids=lambda row: row.name)
def test_ranges_are_those_of_the_dtypes(row):
    own = getattr(ml_dtypes, row.name, None) or row.name
    limits = ml_dtypes.iinfo(own)
    assert row.range == (limits.min, limits.max)
    assert row.dtype.type(row.range[0]) == row.range[0]
    assert row.dtype.type(row.range[1]) == row.range[1]


@pytest.mark.parametrize("row", ELEMENTS.values(), ids=lambda row: row.name)
def test_sizes_are_those_of_numpy_and_c(row):
    assert row.per_byte * row.bits == max(row.bits, 8)
    if row.packed:
        with pytest.raises(ValueError, match=f"2 values of {row.name} share a byte"):
            _ = row.bytes
    else:
        assert row.bytes == row.dtype.itemsize and str(row.dtype) == row.name
    if row.c_type in C_TYPES:
        assert ctypes.sizeof(C_TYPES[row.c_type]) * 8 == max(row.bits, 8)
    assert row.floating == (row.dtype.kind not in "iub")


def test_quantised_types_are_the_integers_of_a_byte_and_less():
    assert set(INTEGER_RANGE) == {"int4", "uint4", "int8", "uint8"}


def test_an_unknown_name_is_refused_in_one_line():
    with pytest.raises(ValueError, match="'int3': known are int4, uint4, int8"):
        element("int3")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float32"])
def test_random_floats_are_normal_in_every_type(dtype):
    values = random_array(np.random.default_rng(1), (50, 40), dtype)
    assert str(values.dtype) == dtype
    wide = values.astype(np.float32)
    assert abs(wide.mean()) < 0.1 and 0.9 < wide.std() < 1.1


@pytest.mark.parametrize(
    ("dtype", "size"), [("float16", 42), ("bfloat16", 42), ("float8_e4m3fn", 21), ("int4", 12)]
)
def test_specs_count_the_bytes_of_their_elements(dtype, size):
    spec = TensorSpec("x", (3, 7), dtype)
    assert spec.bytes == size and spec.element.name == dtype
