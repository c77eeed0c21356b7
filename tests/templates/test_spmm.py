"""Sparse products: their meaning in numpy, and matrices and arguments that they do not take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.templates.epilogue import Epilogue, apply_epilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure

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


def test_digits_of_sixteen_bits_have_longer_sums_unless_they_end_in_int32() -> None:
    wide = replace(WORKLOAD, weight_dtype="int16", in_dtype="int16")
    (b, residual), constants = wide.random_case(np.random.default_rng(3))
    sums = wide.matrix(constants).to_dense().astype(np.int64) @ (
        b.astype(np.int64) - constants["b_zero_point"]
    )
    assert np.abs(sums).max() > 1 << 32
    terms = [constants[name] for name in ("bias", "scale", "scalars")]
    expected = apply_epilogue(wide.epilogue, sums.T, *terms, residual.T).T
    np.testing.assert_array_equal(wide.reference((b, residual), constants)[0], expected)
    with pytest.raises(InputError, match="sums of at most 1 products of int16 and int16 fit"):
        replace(wide, epilogue=Epilogue("int32"))


def test_sums_of_floats_have_float_bias_and_no_zero_point() -> None:
    epilogue = Epilogue("float16", "float16", activation="relu")
    floats = replace(WORKLOAD, in_dtype="float16", weight_dtype="float16", epilogue=epilogue)
    (b, residual), constants = floats.random_case(np.random.default_rng(3))
    assert "b_zero_point" not in constants and constants["bias"].dtype == np.float32
    floats.check_constants(constants)
    sums = floats.matrix(constants).to_dense().astype(np.float64) @ b.astype(np.float64)
    terms = [constants[name] for name in ("bias", "scale", "scalars")]
    expected = apply_epilogue(epilogue, sums.T.astype(np.float32), *terms, residual.T).T
    np.testing.assert_array_equal(floats.reference((b, residual), constants)[0], expected)
    for name in ("values", "bias"):
        wrong = {**constants, name: constants[name].copy()}
        wrong[name].flat[0] = np.inf
        with pytest.raises(InputError, match="NaN or infinite values"):
            floats.check_constants(wrong)


def test_specs_say_what_the_random_case_is() -> None:
    activations, constants = WORKLOAD.random_case(np.random.default_rng(2))
    assert [spec.shape for spec in WORKLOAD.inputs] == [array.shape for array in activations]
    WORKLOAD.check_constants(constants)
    assert WORKLOAD.retyped(["uint8", "int8"], ["uint8"]) == WORKLOAD
    assert WORKLOAD.retyped(["int8", "int8"], ["int8"]).in_dtype == "int8"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"vector": 3}, "vectors of 3 rows: choose one of 2, 4, 8, 16, 32, 64, 128"),
        ({"in_dtype": "float16"}, "in_dtype 'float16': one of int4"),
        ({"in_dtype": "float16", "weight_dtype": "bfloat16"}, "or float16 or bfloat16 for both"),
        (
            {"in_dtype": "float16", "weight_dtype": "float16"},
            "out_dtype 'uint8' of a product of floats: one of float16, bfloat16, float32",
        ),
        (
            {
                "in_dtype": "float16",
                "weight_dtype": "float16",
                "epilogue": Epilogue("float16", "int8"),
            },
            "residual_dtype 'int8' of a product of floats",
        ),
        ({"n": 0}, "extents are at least 1"),
        ({"epilogue": Epilogue("int8", table=True)}, "no table"),
        ({"epilogue": Epilogue("int4")}, "4 bits"),
        (
            {"k": 1 << 20, "structure": Structure(1 << 20, 1 << 20, 1 << 20)},
            "products of int8 and uint8 fit",
        ),
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
    ids=["columns", "scale", "pointers", "values"],
)
def test_constants_that_do_not_fit_are_one_line(name, at, value, complaint) -> None:
    constants = WORKLOAD.random_case(np.random.default_rng(2))[1]
    constants[name][at] = value
    with pytest.raises(InputError, match=complaint):
        WORKLOAD.check_constants(constants)


def test_values_of_four_bits_are_in_their_range() -> None:
    narrow = replace(WORKLOAD, weight_dtype="int4")
    with pytest.raises(InputError, match="values lie outside -8 to 7, those of int4"):
        narrow.check_constants(WORKLOAD.random_case(np.random.default_rng(2))[1])


def test_a_matrix_of_another_class_is_refused() -> None:
    constants = WORKLOAD.random_case(np.random.default_rng(2))[1]
    narrow = replace(WORKLOAD, structure=Structure(160, 20, 8))
    with pytest.raises(InputError, match="not of Structure"):
        narrow.check_constants(constants)
