"""Sampled products from Python: masks of every kind, and mistakes in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import tvm_ffi

import autoq
from autoq.errors import InputError
from autoq.templates.sparse.strided import from_strided
from autoq.templates.sparse.vector_matrix import VectorMatrix, from_dense

RNG = np.random.default_rng(4)
A = RNG.integers(-128, 128, (27, 50), np.int8)
B = RNG.integers(-128, 128, (31, 50), np.int8)
MASK = RNG.random((27, 31)) < 0.1
KEPT = from_dense(MASK.astype(np.uint8), 4)
SUMS = A.astype(np.int32) @ B.T.astype(np.int32)


def sampled(mask: VectorMatrix) -> np.ndarray:
    """The sums of the vectors that a mask touches."""
    rows = -(-mask.rows // mask.vector) * mask.vector
    padded = np.zeros((rows, mask.columns), np.int32)
    padded[: mask.rows] = SUMS
    return padded.reshape(-1, mask.vector, mask.columns)[mask.vector_row_of, :, mask.indices]


@pytest.mark.parametrize(
    "mask",
    [MASK, KEPT, scipy.sparse.csr_array(MASK), scipy.sparse.coo_array(MASK.astype(np.float32))],
    ids=["dense", "vectors", "csr", "coo"],
)
@pytest.mark.parametrize("stride", [0, 8])
def test_sums_are_exact_for_every_kind_of_mask(mask: Any, stride: int) -> None:
    for b in (B, tvm_ffi.from_dlpack(B)):
        y = autoq.sddmm(A, b, mask, vector=4, stride=stride, target="cpu")
        matrix = y.matrix()
        found = from_strided(matrix) if stride else matrix
        np.testing.assert_array_equal(found.indices, KEPT.indices)
        np.testing.assert_array_equal(found.pointers, KEPT.pointers)
        np.testing.assert_array_equal(found.values, sampled(KEPT))


@pytest.mark.parametrize("kept", [0.0, 1.0])
def test_empty_and_full_masks(kept: float) -> None:
    mask = np.full(MASK.shape, kept, bool)
    y = autoq.sddmm(A, B, mask, vector=2, target="cpu")
    np.testing.assert_array_equal(y.matrix().values, sampled(from_dense(mask.astype(int), 2)))


def test_scales_follow_the_sums() -> None:
    rows, columns = RNG.uniform(0.5, 2, 27), RNG.uniform(0.5, 2, 31).astype(np.float32)
    options = {"row_scale": rows, "column_scale": columns, "out_dtype": "float32", "vector": 2}
    y = autoq.sddmm(A, B, MASK, **options, target="cpu").matrix().to_dense()
    whole = SUMS.astype(np.float32) * rows.astype(np.float32)[:, None] * columns
    np.testing.assert_array_equal(y[MASK], whole[MASK])
    half = autoq.sddmm(A.astype(np.float16), B.astype(np.float16), MASK, vector=2, target="cpu")
    np.testing.assert_allclose(half.matrix().to_dense()[MASK], SUMS[MASK], rtol=1e-4, atol=1)


def _torn(field: str) -> VectorMatrix:
    arrays = {"pointers": KEPT.pointers.copy(), "indices": KEPT.indices.copy()}
    arrays[field][-1] = 99
    return VectorMatrix(27, 31, 4, arrays["pointers"], arrays["indices"], KEPT.values)


@pytest.mark.parametrize(
    ("arguments", "options", "complaint"),
    [
        ((A, B[:, :49], MASK), {}, "rows of both have as many values"),
        ((A[:26], B, MASK), {}, r"the mask is \[27, 31\]; a and b take one of \[26, 31\]"),
        ((A[0], B, MASK), {}, "a of shape .50.: two axes"),
        ((A, B, MASK[0]), {}, "a mask of shape .31.: two axes"),
        ((A, B, "mask"), {}, "a sparse matrix is expected, found str"),
        ((A, B.astype(np.int16), MASK), {}, "int8 and int16: choose integers"),
        ((A, B, MASK), {"vector": 3}, "vectors of 3 rows: choose one of 2, 4, 8"),
        ((A, B, MASK), {"stride": 5}, "a stride of 5"),
        ((A, B, MASK), {"colour": 1}, "unknown option 'colour'"),
        ((A, B, MASK), {"row_scale": 2.0}, "row_scale: sums of int32 have no scale"),
        (
            (A, B, MASK),
            {"out_dtype": "float32", "column_scale": np.nan},
            "column_scale has NaN or infinite values",
        ),
        ((A, B, MASK), {"out_dtype": "float32", "row_scale": [1.0, 2.0]}, r"row_scale is float64"),
        ((A, B, MASK), {"out_dtype": "float32", "row_scale": [1.0, []]}, "row_scale: a number of"),
    ],
)
def test_mistakes_are_one_line(arguments: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        autoq.sddmm(*arguments, target="cpu", **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "complaint"),
    [("indices", "is column 99; the matrix has 31"), ("pointers", "expected to rise from 0 to")],
)
def test_torn_masks_are_one_line(field: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        autoq.sddmm(A, B, _torn(field), target="cpu")
