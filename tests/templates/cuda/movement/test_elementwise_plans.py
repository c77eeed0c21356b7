"""Element-wise kernels under plans other than the fastest known."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only, gpu_target
from kernel_runs import emulated_function, run_function_on_gpu
from test_elementwise import EXACT, HOPPER, inputs_of
from with_nvcc import needs_nvcc

from autoq.graph.lowering.fusions import elementwise_prim_func
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.kernel import compile_kernel
from autoq.kernel.lowering import cuda_source, lower
from autoq.templates.cuda.movement.elementwise import Plan, Successor
from autoq.templates.target import parse_target

PLANS = [Plan(64, 8, Successor.LOADED), Plan(512, 2, Successor.STORED), Plan(128, 1)]
GATE = EXACT["gate"]


@needs_nvcc
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_every_element_is_exact_emulated(plan):
    arrays = inputs_of(GATE)
    expected = evaluate_fusion(GATE, arrays)
    function = elementwise_prim_func(GATE, HOPPER, plan)
    got = emulated_function(function, HOPPER, arrays, np.empty_like(expected))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("successor", Successor)
def test_every_element_is_exact_on_gpu(successor):
    target, node = gpu_target(), EXACT["gate of many pixels"]
    kernel = compile_kernel(elementwise_prim_func(node, target, Plan(128, 2, successor)), target)
    end_if_compile_only()
    arrays = inputs_of(node)
    expected = evaluate_fusion(node, arrays)
    np.testing.assert_array_equal(run_function_on_gpu(kernel, arrays, expected), expected)


@pytest.mark.parametrize("successor", Successor)
def test_the_successor_starts_once_and_where_the_plan_says(successor):
    source = cuda_source(
        lower(elementwise_prim_func(GATE, HOPPER, Plan(128, 2, successor)), HOPPER), HOPPER
    )
    compute = source[source.index("void compute(") :]
    before, *behind = compute[: compute.index("\n}\n")].split("launch_dependents")
    assert len(behind) == (successor is not Successor.FIRST)
    if behind:
        assert ".read(" in before and ".read(" not in behind[0]
        assert ("write<V>" in behind[0]) == (successor is Successor.LOADED)
    launched = source[source.rindex("main_kernel") :].count("launch_dependents")
    assert launched == (successor is Successor.FIRST)


def test_older_gpus_have_no_successor_to_start():
    target = parse_target("cuda:sm_80")
    functions = [elementwise_prim_func(GATE, target, Plan(128, 2, each)) for each in Successor]
    sources = {cuda_source(lower(function, target), target) for function in functions}
    assert len(sources) == 1 and "griddepcontrol" not in sources.pop()


def test_the_cpu_has_no_plans():
    with pytest.raises(ValueError, match="no element-wise kernel for cpu"):
        elementwise_prim_func(GATE, parse_target("cpu"), PLANS[0])
