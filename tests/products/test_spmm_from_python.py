"""Sparse products from Python: matrices of every kind, and mistakes in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import tvm_ffi

import autoq
from autoq.errors import InputError
from autoq.records import read_records
from autoq.templates.sparse.strided import to_strided
from autoq.templates.sparse.vector_matrix import from_dense

RNG = np.random.default_rng(4)
A = RNG.integers(-128, 128, (27, 50), np.int8) * (RNG.random((27, 50)) < 0.2)
B = RNG.integers(-128, 128, (50, 19), np.int8)
SUMS = A.astype(np.int32) @ B


@pytest.mark.parametrize(
    "a",
    [
        A,
        scipy.sparse.csr_array(A.astype(np.int64)),
        scipy.sparse.bsr_array(A[:26], blocksize=(2, 5)),
        to_strided(from_dense(A, 4), 16, shuffled=True),
    ],
    ids=["dense", "csr", "bsr", "sr-bcrs"],
)
def test_sums_are_exact_for_every_kind_of_matrix(a: Any) -> None:
    for b in (B, tvm_ffi.from_dlpack(B)):
        y = autoq.spmm(a, b, target="cpu")
        np.testing.assert_array_equal(y, SUMS[: y.shape[0]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_have_sums_of_float32(dtype: str) -> None:
    a, b = A.astype(dtype), (B / 64).astype(dtype)
    bias, scale = np.arange(27, dtype=np.float32), RNG.uniform(0.1, 1, 27).astype(np.float32)
    sums = A.astype(np.float32) @ b.astype(np.float32)
    y = autoq.spmm(a, b, target="cpu")
    assert str(y.dtype) == dtype
    np.testing.assert_array_equal(y, sums.astype(dtype))
    y = autoq.spmm(a, b, target="cpu", bias=bias, scale=scale, out_dtype="float32")
    np.testing.assert_array_equal(y, (sums + bias[:, None]) * scale[:, None])


@pytest.mark.usefixtures("in_this_process")
def test_an_operator_is_tuned_and_its_outputs_are_quantised(tmp_path) -> None:
    scale, bias = RNG.uniform(1e-3, 2e-3, 27), RNG.integers(-99, 99, 27)
    options = {"out_dtype": "uint8", "scale": scale, "bias": bias, "low": 0, "b_zero_point": -3,
               "out_zero_point": 5, "vector": 4, "target": "cpu"}  # fmt: skip
    product = autoq.spmm_operator(A, 19, **options)
    records = tmp_path / "sparse.jsonl"
    autoq.tune([product.workload], trials=2, output=records, target="cpu")
    assert {one.workload for one in read_records(records).records} == {product.workload}
    tuned = autoq.spmm_operator(A, 19, **options, tuning_records=[records])
    assert tuned.source == str(records) and product.source == "default"
    sums = A.astype(np.int32) @ (B.astype(np.int32) + 3) + bias[:, None]
    scaled = sums.astype(np.float32) * scale.astype(np.float32)[:, None]
    expected = np.clip(np.rint(scaled), 0, 250) + 5
    for one in (product, tuned):
        np.testing.assert_array_equal(one(B), expected)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"a": A.astype(np.float32)}, "holds float32; quantise it to int8 first"),
        ({"b": B.astype(np.float16)}, "holds int8 and b float16: convert one of them"),
        (
            {"a": A.astype(np.float16), "b": B.astype(np.float16), "out_dtype": "int8"},
            "out_dtype 'int8' of a product of floats: one of float16",
        ),
        ({"a": A.astype(np.int32) * 1000}, "8 or 16 bits are expected"),
        ({"a": A.astype(np.int16) * 4}, "no kernel for cpu"),
        ({"b": B.astype(np.int32)}, "in_dtype 'int32': one of int4"),
        ({"b": B[0]}, r"b of shape \[19\]: two axes"),
        ({"b": B[:49]}, r"input 'b': expected int8 \[50, 19\], found int8 \[49, 19\]"),
        ({"vector": 3}, "vectors of 3 rows: choose one of 2, 4, 8"),
        ({"vector": 10**9}, "vectors of 1000000000 rows: choose one of 2, 4, 8"),
        ({"vector": 0}, "vectors of 0 rows"),
        ({"scale": 1.0}, "neither a scale nor bounds"),
        ({"out_dtype": "int8"}, "out_dtype 'int8': give a scale"),
        ({"out_dtype": "int8", "scale": np.nan}, "scale has NaN"),
        ({"out_dtype": "int8", "scale": [1.0, 2.0]}, r"scale is float64\[2\]: .* \[27\]"),
        ({"out_dtype": "int8", "scale": 1, "out_zero_point": 128}, "out_zero_point 128"),
        ({"out_dtype": "int8", "scale": [1.0, [2.0]]}, r"scale: a number of float32 or \[27\]"),
        ({"out_dtype": "int8", "scale": 1e300}, "scale: what fits float32"),
        ({"out_dtype": "int8", "scale": 1, "low": np.nan}, "low nan and high inf: y is clamped"),
        ({"out_dtype": "int8", "scale": 1, "low": 5, "high": 1}, "low 5 and high 1: y is clamped"),
        ({"bias": 1 << 31}, "bias: what fits int32"),
        ({"b_zero_point": 200}, "b_zero_point 200: -128 to 127"),
        ({"colour": 1}, "unknown option 'colour'"),
    ],
    ids=lambda item: "-".join(item) if isinstance(item, dict) else "",
)
def test_mistakes_are_one_line(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        autoq.spmm(**{"a": A, "b": B, "target": "cpu", **arguments})
