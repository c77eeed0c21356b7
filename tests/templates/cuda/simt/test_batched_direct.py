"""Batched products of activations: exact on the emulator, compiled everywhere, exact on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runs import assert_equal, check_on_gpu, emulated
from with_nvcc import needs_nvcc
from workloads.batched_products import BATCHED, TABLES, case_id

from autoq.kernel import compile_kernel
from autoq.templates.cuda.simt.batched_gemm_direct import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.oracle.reference import reference
from autoq.templates.target import parse_target

CUDA = parse_target("cuda:sm_75")
CASES = [*BATCHED, *TABLES]


@needs_nvcc
@pytest.mark.parametrize("workload", CASES, ids=case_id)
def test_exact_emulated(workload):
    activations, constants = workload.random_case(np.random.default_rng(5))
    config = TEMPLATE.space(workload, CUDA).sample(np.random.default_rng(workload.k), 1)[0]
    got = emulated(TEMPLATE, workload, config, CUDA, activations, constants)
    assert_equal(workload, got, reference(workload, activations, constants))


@needs_nvcc
@pytest.mark.parametrize("order", ["bnhk", "bkhn"])
def test_compiles_without_spills(order):
    workload = BatchedGemm(1, 197, 196, 64, 12, "uint8", "int8", "bmhk", order)
    config = TEMPLATE.default(workload, CUDA)
    kernel = compile_kernel(TEMPLATE.build(workload, config, CUDA), CUDA)
    assert kernel.spill_bytes == 0
    assert kernel.registers <= 128


@pytest.mark.gpu
@pytest.mark.parametrize("workload", CASES, ids=case_id)
def test_exact_on_gpu(workload):
    check_on_gpu(TEMPLATE, workload, *workload.random_case(np.random.default_rng(9)))


def test_outputs_of_four_bits_are_declined():
    workload = BatchedGemm(1, 8, 8, 16, epilogue=Epilogue("int4"))
    assert not TEMPLATE.matches(workload, CUDA)
