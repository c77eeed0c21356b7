"""Sparse products: their meaning in numpy, and matrices and arguments that they do not take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.templates.epilogue import Epilogue, apply_epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.structure import Structure

CLASS = Structure(160, 20, 64)
WORKLOAD = Spmm(59, 23, 70, 8, CLASS, "uint8", epilogue=Epilogue("uint8", "int8", True))


@pytest.mark.parametrize("vector", [2, 4, 8])
def test_it_is_the_dense_product_and_the_epilogue_by_rows(vector: int) -> None:
    workload = replace(WORKLOAD, vector=vector)
    (b, residual), constants = workload.random_case(np.random.default_rng(3))
    a = workload.matrix(constants).to_dense().astype(np.int32)
    assert a.shape == (59, 70) and a.any()
    sums = a @ (b.astype(np.int32) - constants["b_zero_point"])
    terms = [constants[name] for name in ("bias", "scale", "scalars")]
    expected = apply_epilogue(workload.epilogue, sums.T, *terms, residual.T).T
    for threads in (1, 2):
        (found,) = workload.reference_in_threads((b, residual), constants, threads)
        np.testing.assert_array_equal(found, expected)
        assert len(np.unique(found)) > 100


def test_specs_say_what_the_random_case_is() -> None:
    activations, constants = WORKLOAD.random_case(np.random.default_rng(2))
    assert [spec.shape for spec in WORKLOAD.inputs] == [array.shape for array in activations]
    WORKLOAD.check_constants(constants)
    assert WORKLOAD.retyped(["uint8", "int8"], ["uint8"]) == WORKLOAD
    assert WORKLOAD.retyped(["int8", "int8"], ["int8"]).in_dtype == "int8"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"vector": 3}, "vectors of 3 rows: choose one of 2, 4, 8"),
        ({"in_dtype": "float16"}, "in_dtype 'float16': one of int8, uint8"),
        ({"n": 0}, "extents are at least 1"),
        ({"epilogue": Epilogue("int8", table=True)}, "no table"),
        ({"epilogue": Epilogue("int4")}, "4 bits"),
        ({"k": 1 << 20, "structure": Structure(1 << 20, 1 << 20, 1 << 20)}, "fit 32 bits"),
    ],
)
def test_arguments_that_it_does_not_take_are_one_line(change: dict, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        replace(WORKLOAD, **change)


@pytest.mark.parametrize(
    ("name", "at", "value", "complaint"),
    [
        ("columns", 5, 70, "index 5 is column 70; the matrix has 70"),
        ("scale", 3, np.nan, "scale has NaN or infinite values"),
        ("pointers", 1, -1, "expected to rise"),
        ("values", (-1, 7), 1, "values below row 59"),
    ],
)
def test_constants_that_do_not_fit_are_one_line(name, at, value, complaint) -> None:
    constants = WORKLOAD.random_case(np.random.default_rng(2))[1]
    constants[name][at] = value
    with pytest.raises(InputError, match=complaint):
        WORKLOAD.check_constants(constants)


def test_a_matrix_of_another_class_is_refused() -> None:
    constants = WORKLOAD.random_case(np.random.default_rng(2))[1]
    narrow = replace(WORKLOAD, structure=Structure(160, 20, 8))
    with pytest.raises(InputError, match="not of Structure"):
        narrow.check_constants(constants)
