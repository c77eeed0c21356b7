"""A product whose second factor is an activation is an operator like any other."""

from __future__ import annotations

import numpy as np
import pytest
from batched_product.operator import BatchedProduct

import autoq

WORKLOAD = BatchedProduct(batch=3, m=5, n=7, k=16)


@pytest.mark.parametrize("threads", [1, 2])
def test_both_factors_are_given_at_each_call(threads: int) -> None:
    product = autoq.operator(WORKLOAD, target="cpu", registry="batched_product")
    assert product.source == "fixed"
    for seed in (1, 2):
        factors, constants = WORKLOAD.random_case(np.random.default_rng(seed))
        (expected,) = WORKLOAD.reference_in_threads(factors, constants, threads)
        np.testing.assert_array_equal(product(*factors), expected)
        np.testing.assert_array_equal(np.einsum("imk,ink->imn", *map(np.int32, factors)), expected)
