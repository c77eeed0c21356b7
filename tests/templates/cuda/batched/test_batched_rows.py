"""Batched products with x from registers: right on the emulator and a GPU, without spills."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import assert_right, hopper_target
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc
from workloads.batched_products import case_id

from autoq.templates.cuda.batched.rows.batched_gemm_rows_wgmma import TEMPLATE
from autoq.templates.cuda.batched.rows.config import BatchedRowsConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")


def random_workload(seed: int) -> BatchedGemm:
    """Of random extents, orders and dtypes that the template takes."""
    rng = np.random.default_rng(seed)
    while True:
        m, n, k = int(rng.integers(1, 200)), 16 * int(rng.integers(1, 9)), int(rng.integers(1, 321))
        pairs = (int(rng.integers(1, 5)), int(rng.integers(1, 5)))
        x, other, out = (str(rng.choice(("int8", "uint8"))) for _ in range(3))
        orders = ("bhmk", str(rng.choice(("bhkn", "bkhn"))), str(rng.choice(("bhmn", "bmhn"))))
        workload = BatchedGemm(pairs[0], m, n, k, pairs[1], x, other, *orders, Epilogue(out))
        if TEMPLATE.matches(workload, HOPPER):
            return workload


@needs_nvcc
@pytest.mark.parametrize("seed", range(4))
def test_random_products_with_rows_anywhere_are_right(seed: int) -> None:
    workload = random_workload(seed)
    (config,) = TEMPLATE.space(workload, HOPPER).sample(np.random.default_rng(seed), 1)
    assert_right_emulated(TEMPLATE, workload, config, HOPPER)


@pytest.mark.parametrize(
    "workload",
    [
        BatchedGemm(1, 16, 64, 197, 2, "uint8", "int8", "bhmk", "bkhn", "bmhn"),
        BatchedGemm(1, 16, 64, 208, 1, "uint8", "int8", "bhmk", "bkhn", "bmhn"),
        BatchedGemm(1, 16, 24, 197, 1, "uint8", "int8", "bhmk", "bkhn", "bmhn"),
        BatchedGemm(1, 16, 64, 197, 1, "uint8", "int8", "bhmk", "bhnk", "bmhn"),
        BatchedGemm(1, 8, 64, 197, 2, "uint8", "int8", "bmhk", "bkhn", "bmhn"),
        BatchedGemm(1, 7, 64, 197, 1, "uint8", "int8", "bhmk", "bkhn", "bmhn"),
    ],
    ids=str,
)
def test_rows_of_no_whole_units_in_arrays_of_such(workload: BatchedGemm) -> None:
    """Rows of whole units, narrow ones of y, other by columns, x by heads, a part of a unit."""
    first = workload.m == 16 and workload.heads == 2
    assert TEMPLATE.matches(workload, HOPPER) == first
    assert not TEMPLATE.matches(workload, parse_target("cuda:sm_89"))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "workload",
    [
        BatchedGemm(8, 197, 64, 197, 12, "uint8", "int8", "bhmk", "bkhn", "bmhn"),
        *map(random_workload, range(20, 24)),
    ],
    ids=case_id,
)
def test_products_with_rows_anywhere_are_right_on_a_gpu(workload: BatchedGemm) -> None:
    """With every number of warpgroups."""
    target = hopper_target()
    space = TEMPLATE.space(workload, target)
    configs = [BatchedRowsConfig(row_groups, 1) for row_groups in (1, 2, 3, 4)]
    legal = [(config, target) for config in configs if config in space]
    assert legal
    assert_right(TEMPLATE, workload, legal, target)
