"""Batched products of two activations on the CPU against the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import check, host
from workloads.batched_products import BATCHED, TABLES, case_id

from autoq.errors import InputError
from autoq.templates.cpu.batched.batched_gemm_direct import TEMPLATE, BatchedDirectConfig
from autoq.templates.cpu.batched.batched_gemm_vnni import TEMPLATE as VNNI
from autoq.templates.cpu.batched.batched_gemm_vnni import BatchedVnniConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import LONGEST_SUM, BatchedGemm
from autoq.templates.target import Target


@pytest.mark.parametrize("workload", BATCHED, ids=case_id)
def test_exact(workload):
    case = workload.random_case(np.random.default_rng(2))
    check(TEMPLATE, workload, *case)


def test_rows_of_a_last_task_move_back():
    workload = BatchedGemm(2, 7, 12, 5, other_order="bhkn")
    case = workload.random_case(np.random.default_rng(3))
    check(TEMPLATE, workload, *case, BatchedDirectConfig(3))


# Columns and k with tails, more tiles than one, more rows than a tile, every order and dtype.
WIDE = (
    (BatchedGemm(2, 7, 16, 64, 2, "uint8", "uint8", "bmhk", "bnhk"), None),
    (BatchedGemm(1, 13, 33, 131, 2, "uint8", "int8", other_order="bhkn"), (7, 3, 2)),
    (BatchedGemm(3, 5, 90, 3, in_dtype="int8", other_dtype="uint8"), (5, 2, 4)),
    (BatchedGemm(2, 19, 50, 70, 3, "int8", "int8", "bmhk", "bkhn", "bmhn"), (10, 1, 4)),
    (BatchedGemm(1, 1, 130, 66, epilogue=Epilogue("int32")), None),
    (BatchedGemm(1, 9, 40, 8, epilogue=Epilogue("float32", "uint8")), (9, 4, 3)),
    (BatchedGemm(2, 8, 18, 5, 2, "uint8", "int8", epilogue=Epilogue("uint8", "int8", True)), None),
)


@pytest.mark.skipif(not (host().vnni and host().avx512), reason="needs AVX512-VNNI")
@pytest.mark.parametrize(("workload", "config"), WIDE, ids=lambda item: str(item).replace(" ", "-"))
def test_vnni_is_exact(workload, config):
    case = workload.random_case(np.random.default_rng(5))
    config = config and BatchedVnniConfig(*config)
    assert config is None or VNNI.space(workload, host()).rejection(config) is None
    check(VNNI, workload, *case, config)


def test_vnni_takes_whole_vectors_of_columns_where_there_is_vnni():
    narrow, wide = BatchedGemm(1, 4, 15, 8), BatchedGemm(1, 4, 16, 8)
    target = Target("cpu", "znver5", units=2, vnni=True, avx512=True)
    assert VNNI.matches(wide, target) and not VNNI.matches(narrow, target)
    assert not VNNI.matches(wide, Target("cpu", "znver3", units=2, avx2=True))


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
