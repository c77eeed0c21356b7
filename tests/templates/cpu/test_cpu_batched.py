"""Batched products of two activations on the CPU against the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from batched_cases import BATCHED, TABLES, case_id
from cpu_kernels import check, host

from autoq.errors import InputError
from autoq.templates.cpu.batched.batched_gemm_direct import TEMPLATE, BatchedDirectConfig
from autoq.templates.operators.batched_gemm import LONGEST_SUM, BatchedGemm


@pytest.mark.parametrize("workload", BATCHED, ids=case_id)
def test_exact(workload):
    case = workload.random_case(np.random.default_rng(2))
    check(TEMPLATE, workload, *case)


def test_rows_of_a_last_task_move_back():
    workload = BatchedGemm(2, 7, 12, 5, other_order="bhkn")
    case = workload.random_case(np.random.default_rng(3))
    check(TEMPLATE, workload, *case, BatchedDirectConfig(3))


def test_tables_are_declined():
    assert not any(TEMPLATE.matches(workload, host()) for workload in TABLES)


def test_sums_of_the_longest_rows_fit():
    workload = BatchedGemm(1, 1, 1, LONGEST_SUM, in_dtype="uint8", other_dtype="uint8")
    full = [np.full(spec.shape, 255, np.uint8) for spec in workload.inputs]
    _, constants = workload.random_case(np.random.default_rng(4))
    constants |= {"x_zero_point": 0, "other_zero_point": 0, "scale": np.float32([1e-8])}
    check(TEMPLATE, workload, full, constants)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"k": LONGEST_SUM + 1}, "fit 32 bits"),
        ({"x_order": "mbhk"}, "x_order 'mbhk': choose bhmk or bmhk"),
        ({"other_dtype": "int4"}, "activations of 'int4': choose int8 or uint8"),
        ({"m": 0}, "extents are at least 1"),
    ],
)
def test_what_is_no_batch_of_products(fields, message):
    with pytest.raises(InputError, match=message):
        BatchedGemm(**{"batch": 1, "m": 4, "n": 4, "k": 4, **fields})
