"""Products with pruned weights in every pattern on a GPU, over random sizes and sparsities."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import compiled, gpu_target, sampled
from workloads.pruned import PATTERNS, knowing, pruned_case

from autoq.measure.arrays import stored_activations, stored_outputs
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.pruning.pattern import Pattern
from autoq.runtime.cuda.driver import Device
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.sparse.sparsity import PATTERNS as CLASSES
from autoq.templates.sparse.sparsity import TWO_FOUR, Sparsity
from autoq.templates.target import Target

pytestmark = pytest.mark.gpu


def assert_all_right(workload: Gemm | FloatGemm, case: tuple, target: Target) -> int:
    """How many kernels make use of the zeros; each is right, by default and by one more choice."""
    values, constants = case
    dense = {template.name for template in matching(workload.dense, target)}
    own = [each for each in matching(workload, target) if each.name not in dense]
    expected = stored_outputs(workload, workload.dense.reference_in_threads(values, constants, 8))
    for template in own:
        configs = [template.default(workload, target), *sampled(template, workload, target, 5, 1)]
        kernels = compiled(template, workload, [(config, target) for config in configs], target)
        bench = CudaBench(Device(), stored_activations(workload, values), expected)
        for config, kernel in zip(configs, kernels, strict=True):
            loaded = bench.load(kernel, template.pack(workload, config, constants))
            for poison in (0x55, 0xAA):
                wrong = complaints(loaded.run_over(poison), expected, workload, target)
                assert not wrong, f"{template.name} {config}: {wrong}"
            assert not bench.restore_inputs(), f"{template.name} {config} writes to its inputs"
    return len(own)


@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_random_weights(pattern: Pattern, seed: int, dtype: str) -> None:
    target = gpu_target()
    rng = np.random.default_rng(seed)
    most = (300, 40, 60) if seed else (90, 12, 12)
    m, n, k = (int(rng.integers(least, end)) for least, end in zip((30, 6, 6), most, strict=True))
    extents = m, 16 * n, 16 * k
    dense = Gemm(*extents) if dtype == "int8" else FloatGemm(*extents, weight_dtype="float16")
    sparsity = 0.5 if pattern.kind == "vw" else float(rng.uniform(0.76, 0.9))
    case = pruned_case(rng, dense, pattern, sparsity)
    assert assert_all_right(knowing(dense, case[1], target), case, target)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", [name for name in CLASSES if name != TWO_FOUR])
def test_weights_of_nothing_but_zeros_and_without_any(name: str, kept: bool) -> None:
    target = gpu_target()
    dense = Gemm(140, 272, 400)
    case = dense.random_case(np.random.default_rng(6))
    weight = case[1]["weight"]
    weight[...] = np.where(weight == 0, 1, weight) * kept
    workload = dense.with_sparsity(Sparsity.of(name, weight, 1 if name == "ew" else 16))
    assert isinstance(workload, Gemm)
    assert assert_all_right(workload, case, target) or (kept and name == "ew")
