"""Products with pruned weights in every pattern, emulated, over random sizes and sparsities."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc
from workloads.pruned import PATTERNS, knowing, pruned_case

from autoq.pruning.pattern import Pattern
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.sparse.sparsity import PATTERNS as CLASSES
from autoq.templates.sparse.sparsity import TWO_FOUR, Sparsity
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")


def own_kernels(workload: Gemm | FloatGemm) -> list[object]:
    """Templates that make use of the zeros."""
    dense = {template.name for template in matching(workload.dense, TARGET)}
    return [each for each in matching(workload, TARGET) if each.name not in dense]


def products(pattern: Pattern, extents: list[int]) -> list[Gemm | FloatGemm]:
    """A product of bytes, and one of 16-bit floats or, for every other pattern, of float32.

    Float32 has no kernel of 2:4 weights.
    """
    if PATTERNS.index(pattern) % 2 and pattern.kind != "vw":
        return [Gemm(*extents), Gemm(*extents, "float32", "float32", Epilogue("float32"))]
    return [Gemm(*extents), FloatGemm(*extents, weight_dtype="float16")]


@needs_nvcc
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_random_weights(pattern: Pattern) -> None:
    rng = np.random.default_rng(5)
    extents = [int(rng.integers(30, 90)), *(int(16 * e) for e in rng.integers(6, 12, 2))]
    for dense in products(pattern, extents):
        sparsity = 0.5 if pattern.kind == "vw" else float(rng.uniform(0.76, 0.9))
        case = pruned_case(rng, dense, pattern, sparsity)
        workload = knowing(dense, case[1], TARGET)
        own = own_kernels(workload)
        assert own
        for template in own:
            config = template.default(workload, TARGET)
            assert_right_emulated(template, workload, config, TARGET, case=case)


@needs_nvcc
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", [name for name in CLASSES if name != TWO_FOUR])
def test_weights_of_nothing_but_zeros_and_without_any(name: str, kept: bool) -> None:
    dense = Gemm(40, 72, 56)
    case = dense.random_case(np.random.default_rng(6))
    weight = case[1]["weight"]
    weight[...] = np.where(weight == 0, 1, weight) * kept
    workload = dense.with_sparsity(Sparsity.of(name, weight, 1 if name == "ew" else 16))
    assert isinstance(workload, Gemm)
    own = own_kernels(workload)
    assert own or (kept and name == "ew")
    for template in own:
        config = template.default(workload, TARGET)
        assert_right_emulated(template, workload, config, TARGET, case=case)
