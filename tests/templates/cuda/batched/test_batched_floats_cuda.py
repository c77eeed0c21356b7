"""Products of float32 activations with fused multiply-adds: right on the emulator and a GPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gpu_kernels import assert_right, gpu_target, sampled
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.templates.cuda.simt.batched_gemm_floats import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import parse_target

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a")
FLOAT32 = {"in_dtype": "float32", "other_dtype": "float32", "epilogue": Epilogue("float32")}
SCORES = BatchedGemm(8, 128, 128, 64, 12, x_order="bmhk", other_order="bnhk", **FLOAT32)


def random_workload(seed: int) -> BatchedGemm:
    """Of random extents and orders."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(rng.integers(1, 150)) for _ in range(3))
    orders = [str(rng.choice(names)) for names in (
        ("bhmk", "bmhk"), ("bhnk", "bhkn", "bnhk", "bkhn"), ("bhmn", "bmhn"))]  # fmt: skip
    named = dict(zip(("x_order", "other_order", "y_order"), orders, strict=True))
    batch, heads = (int(rng.integers(1, 3)) for _ in range(2))
    return BatchedGemm(batch, m, n, k, heads, **named, **FLOAT32)


@needs_nvcc
@pytest.mark.parametrize("seed", range(5))
def test_random_products_are_right(seed: int) -> None:
    workload, target = random_workload(seed), parse_target(f"cuda:{ARCHS[seed]}")
    (config,) = TEMPLATE.space(workload, target).sample(np.random.default_rng(seed), 1)
    assert_right_emulated(TEMPLATE, workload, config, target)


@needs_nvcc
@pytest.mark.parametrize("arch", ARCHS)
def test_defaults_compile_without_spills(arch: str) -> None:
    target = parse_target(f"cuda:{arch}")
    config = TEMPLATE.default(SCORES, target)
    assert compile_kernel(TEMPLATE.build(SCORES, config, target), target).spill_bytes == 0


def test_what_it_declines() -> None:
    target = parse_target("cuda:sm_75")
    assert TEMPLATE.matches(SCORES, target)
    assert not TEMPLATE.matches(SCORES, parse_target("cpu"))
    assert not TEMPLATE.matches(dataclasses.replace(SCORES, epilogue=Epilogue("float16")), target)
    assert not TEMPLATE.matches(BatchedGemm(1, 8, 8, 8), target)


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [SCORES, *map(random_workload, range(100, 108))], ids=str)
def test_right_on_gpu(workload: BatchedGemm) -> None:
    target = gpu_target()
    configs = [TEMPLATE.default(workload, target)]
    configs += sampled(TEMPLATE, workload, target, seed=3, count=3)
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target, seed=9)
