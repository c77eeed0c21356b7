"""The sampled product's reference against plain loops, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.sparse.structure import Structure

WORKLOAD = Sddmm(13, 30, 7, 4, Structure(40, 10, 20), out_dtype="float32")


@pytest.mark.parametrize("stride", [0, 8])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int4"])
def test_the_reference_is_what_loops_give(stride: int, dtype: str) -> None:
    k = 6 if dtype == "int4" else 7
    workload = replace(WORKLOAD, stride=stride, a_dtype=dtype, b_dtype=dtype, k=k)
    (a, b), constants = workload.random_case(np.random.default_rng(5))
    (y,) = workload.reference((a, b), constants)
    pointers, columns = constants["pointers"], constants["columns"]
    seen, start = np.zeros(y.shape, bool), 0
    for vector_row in range(4):
        own = columns[pointers[vector_row] : pointers[vector_row + 1]]
        for number, column in enumerate(own):
            for r in range(4):
                row, place = vector_row * 4 + r, start + number
                at = (place // stride, r, place % stride) if stride else (place, r)
                total = int(a[min(row, 12)].astype(np.int64) @ b[column].astype(np.int64))
                scale = constants["row_scale"][min(row, 12)]
                value = np.float32(total) * scale * constants["column_scale"][column]
                assert y[at] == (value if row < 13 else 0)
                seen[at] = True
        start += -(-len(own) // (stride or 1)) * (stride or 1)
    assert not y[~seen].any() and seen.any()


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"vector": 3}, "vectors of 3 rows"),
        ({"stride": 7}, "a stride of 7"),
        ({"a_dtype": "int16"}, "int16 and int8: choose integers"),
        ({"a_dtype": "float16"}, "float16 and int8"),
        ({"a_dtype": "int4", "b_dtype": "uint4"}, "k = 7 values of 4 bits"),
        ({"out_dtype": "int8"}, "out_dtype 'int8' of int8: choose int32"),
        ({"a_dtype": "float16", "b_dtype": "float16", "out_dtype": "int32"}, "choose float16"),
        ({"a_dtype": "int16", "b_dtype": "int16", "out_dtype": "int32"}, "at most 1 products"),
        ({"k": 200_000}, "k = 200000: sums of at most 131071 products of int8 and int8 fit int32"),
    ],
)
def test_what_is_refused(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        replace(WORKLOAD, **changed)


@pytest.mark.parametrize(
    ("name", "at", "value", "complaint"),
    [
        ("columns", 3, 30, "column 30; the matrix has 30"),
        ("pointers", -1, 99, "expected to rise"),
        ("row_scale", 0, np.nan, "row_scale has NaN"),
        ("column_scale", 0, np.inf, "column_scale has NaN or infinite"),
    ],
)
def test_constants_that_do_not_fit(name: str, at: int, value: float, complaint: str) -> None:
    constants = WORKLOAD.random_case(np.random.default_rng(2))[1]
    constants[name][at] = value
    with pytest.raises(InputError, match=complaint):
        WORKLOAD.check_constants(constants)


def test_a_mask_of_another_class_is_refused() -> None:
    constants = WORKLOAD.random_case(np.random.default_rng(2))[1]
    with pytest.raises(InputError, match="not of Structure"):
        replace(WORKLOAD, structure=Structure(40, 10, 4)).check_constants(constants)
