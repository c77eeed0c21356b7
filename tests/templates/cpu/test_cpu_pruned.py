"""Products with pruned weights in every pattern on the CPU, over random sizes and sparsities."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import check, host
from workloads.pruned import PATTERNS, knowing, pruned_case

from autoq.pruning.pattern import Pattern
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.sparse.sparsity import PATTERNS as CLASSES
from autoq.templates.sparse.sparsity import TWO_FOUR, Sparsity


def exact(workload: Gemm, values: object, constants: dict[str, object]) -> int:
    """How many kernels make use of the zeros; all of them give what numpy does."""
    dense = {template.name for template in matching(workload.dense, host())}
    own = [each for each in matching(workload, host()) if each.name not in dense]
    for template in own:
        check(template, workload, values, constants, None)
    return len(own)


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_random_weights(pattern: Pattern) -> None:
    """Of bytes, and for every other pattern and single weights of float32."""
    rng = np.random.default_rng(5)
    found = 0
    both = PATTERNS.index(pattern) % 2 or pattern.kind == "ew"
    for single in (False, True) if both else (False,):
        extents = [int(rng.integers(1, 50)), *(int(e) for e in rng.integers(90, 300, 2))]
        dense = Gemm(*extents)
        if single:
            dense = Gemm(*extents, "float32", "float32", Epilogue("float32"))
        sparsity = 0.5 if pattern.kind == "vw" else float(rng.uniform(0.6, 0.95))
        values, constants = pruned_case(rng, dense, pattern, sparsity)
        found += exact(knowing(dense, constants, host()), values, constants)
    assert found or pattern.kind == "vw", "a CPU has no kernels of 2:4 weights"


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", [name for name in CLASSES if name != TWO_FOUR])
def test_weights_of_nothing_but_zeros_and_without_any(name: str, kept: bool) -> None:
    rng = np.random.default_rng(6)
    dense = Gemm(32, 80, 64)
    values, constants = dense.random_case(rng)
    weight = constants["weight"]
    weight[...] = np.where(weight == 0, 1, weight) * kept
    found = Sparsity.of(name, weight, 1 if name == "ew" else 16)
    workload = dense.with_sparsity(found)
    assert isinstance(workload, Gemm)
    workload.check_constants(constants)
    assert exact(workload, values, constants) or (kept and name == "ew")
