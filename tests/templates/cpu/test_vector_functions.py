"""Functions of vectors against float64, over their whole range and at its ends."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import host, run_function
from scipy import special

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu import vector_functions
from autoq.templates.cpu.movement.rows import RowArrays, RowFormula, RowValue, row_kernel

ENDS = [0.0, -0.0, 1e-42, -1e-42, np.inf, -np.inf, np.nan, 3e38, -3e38]
FUNCTIONS = {
    "exp": (vector_functions.exp, np.exp, 120.0),
    "erf": (vector_functions.erf, special.erf, 6.0),
    "tanh": (vector_functions.tanh, np.tanh, 12.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_eight_units_in_the_last_place(name):
    compute, exact, end = FUNCTIONS[name]
    x = np.concatenate([np.linspace(-end, end, 1 << 16), np.geomspace(1e-30, 1, 999), ENDS])
    x = np.resize(x, 1 << 17).astype(np.float32)
    spec = TensorSpec("x", x.shape, "float32")
    arrays = RowArrays((), x.size, (spec,), ((),), (True,))
    formula = RowFormula(arrays, (RowValue(compute, (0,), True),), TensorSpec("y", *spec.stored))
    target = run_function(row_kernel(formula, None, host()), [x], x.shape, "float32")
    with np.errstate(over="ignore"):
        expected = exact(x.astype(np.float64))
        rounded = expected.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(target), np.isnan(rounded))
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(target[infinite], rounded[infinite])
    finite = np.isfinite(rounded)
    units = np.spacing(np.abs(rounded[finite])).astype(np.float64)
    assert np.max(np.abs(target[finite] - expected[finite]) / units) <= 8
