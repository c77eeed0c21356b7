"""Products of one activation become one layer, whose results are what they were."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models.makers import model, node
from optimised_models import pair
from qdq.oracle import normal_feeds, run_in_memory

from autoq.frontend import from_model
from autoq.graph import Layer, evaluate, optimise
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.shared.shared_float_gemm import SharedFloatGemm
from autoq.templates.operators.shared.shared_gemm import SharedGemm
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")


def products(widths, scales=None):
    """A quantised product of x [9, 32] for each width, whose outputs have scales of their own."""
    rng = np.random.default_rng(0)
    scales = scales or [0.05 * (1 + i) for i in range(len(widths))]
    constants = {"s": np.float32(0.04), "z": np.uint8(120), "ws": np.float32(0.01),
                 "wz": np.int8(0)}  # fmt: skip
    nodes = pair("x", "d", "s")
    for i, (width, scale) in enumerate(zip(widths, scales, strict=True)):
        constants[f"w{i}"] = rng.integers(-100, 101, (32, width)).astype(np.int8)
        constants[f"b{i}"] = rng.normal(size=width).astype(np.float32)
        constants[f"s{i}"], constants[f"z{i}"] = np.float32(scale), np.uint8(100 + 9 * i)
        nodes += [
            node("DequantizeLinear", f"w{i} ws wz", f"v{i}"), node("MatMul", f"d v{i}", f"m{i}"),
            node("Add", f"m{i} b{i}", f"a{i}"),
            node("QuantizeLinear", f"a{i} s{i} z{i}", f"q{i}"),
            node("DequantizeLinear", f"q{i} s{i} z{i}", f"y{i}"),
        ]  # fmt: skip
    outputs = tuple(f"y{i}" for i in range(len(widths)))
    return model(nodes, {"x": ((9, 32), "float32")}, constants, outputs=outputs)


def workloads(graph):
    kinds = (Gemm, SharedGemm)
    found = [n.workload for n in graph.nodes if isinstance(n, Layer)]
    return [w for w in found if isinstance(w, kinds)]


@pytest.mark.parametrize(("widths", "counts"), [
    ((16, 16, 16), [3]), ((16, 16), [2]), ((16,) * 4, [2, 2]), ((16,) * 5, [3, 2]),
    ((16, 24, 16), [2, 1]), ((16, 24), [1, 1]), ((16,), [1]),
])  # fmt: skip
def test_products_of_one_input_share_a_layer(widths, counts):
    made = products(widths)
    graph = optimise(from_model(made), HOPPER)
    found = workloads(graph)
    assert sorted(getattr(w, "products", 1) for w in found) == sorted(counts)
    feeds = normal_feeds(made, np.random.default_rng(1))
    apart = evaluate(optimise(from_model(made), parse_target("cuda:sm_80")), feeds)
    together = evaluate(graph, feeds)
    expected = run_in_memory(made, feeds)
    for i in range(len(widths)):
        np.testing.assert_array_equal(together[f"y{i}"], apart[f"y{i}"])
        np.testing.assert_allclose(together[f"y{i}"], expected[f"y{i}"], atol=0.051 * (1 + i))


def test_products_of_floats_share_a_layer_and_keep_their_results():
    rng = np.random.default_rng(0)
    constants = {f"w{i}": rng.normal(size=(32, 16)).astype(np.float16) for i in range(3)}
    nodes = [node("MatMul", f"x w{i}", f"y{i}") for i in range(3)]
    made = model(nodes, {"x": ((9, 32), "float16")}, constants, outputs=("y0", "y1", "y2"))
    graph = optimise(from_model(made), HOPPER)
    found = [n.workload for n in graph.nodes if isinstance(n, Layer)]
    assert [type(work) for work in found] == [SharedFloatGemm] and found[0].products == 3
    feeds = {"x": rng.normal(size=(9, 32)).astype(np.float16)}
    together, expected = evaluate(graph, feeds), run_in_memory(made, feeds)
    for name, y in expected.items():
        np.testing.assert_allclose(together[name], y, rtol=2e-3, atol=2e-3)


def test_products_of_what_is_quantised_as_it_comes_share_a_layer():
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.integers(-100, 101, (32, 16)).astype(np.int8) for i in range(3)}
    nodes = [node("DynamicQuantizeLinear", "x", "q s z")]
    for i in range(3):
        nodes += [node("MatMulInteger", f"q w{i} z", f"m{i}"), node("Cast", f"m{i}", f"c{i}", to=1),
                  node("Mul", f"c{i} s", f"y{i}")]  # fmt: skip
    made = model(nodes, {"x": ((9, 32), "float32")}, weights, outputs=("y0", "y1", "y2"))
    graph = optimise(from_model(made), HOPPER)
    (found,) = workloads(graph)
    assert (found.products, found.epilogue.out_dtype) == (3, "float32")
    feeds = {"x": rng.normal(size=(9, 32)).astype(np.float32)}
    together, expected = evaluate(graph, feeds), run_in_memory(made, feeds)
    for name, y in expected.items():
        np.testing.assert_allclose(together[name], y, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("rows", "shared"), [(9, True), (132 * 256, False)])
def test_small_products_share_a_layer_rather_than_skip_zeros(rows, shared):
    rng = np.random.default_rng(0)
    kept = np.zeros((256, 256), bool)
    for start in range(0, 256, 64):
        kept[rng.permutation(256)[:64], start : start + 64] = True
    constants = {f"w{i}": rng.integers(1, 101, (256, 256)) * kept for i in range(3)}
    constants = {name: value.astype(np.int8) for name, value in constants.items()}
    constants |= {"s": np.float32(0.04), "z": np.uint8(120), "wz": np.int8(0),
                  "ws": np.float32(0.01)}  # fmt: skip
    nodes = pair("x", "d", "s")
    for i in range(3):
        nodes += [node("DequantizeLinear", f"w{i} ws wz", f"v{i}"),
                  node("MatMul", f"d v{i}", f"m{i}"), *pair(f"m{i}", f"y{i}")]  # fmt: skip
    made = model(nodes, {"x": ((rows, 256), "float32")}, constants, outputs=("y0", "y1", "y2"))
    graph = optimise(from_model(made), HOPPER)
    found = workloads(graph)
    if not shared:
        assert len(found) == 3 and all(work.sparsity is not None for work in found)
        return
    assert [work.products for work in found] == [3]
    feeds = normal_feeds(made, np.random.default_rng(1))
    together, expected = evaluate(graph, feeds), run_in_memory(made, feeds)
    for name, y in expected.items():
        np.testing.assert_allclose(together[name], y, atol=0.051)


def test_older_gpus_and_cpus_have_no_such_kernel():
    for name in ("cpu", "cuda:sm_80"):
        graph = optimise(from_model(products((16, 16, 16))), parse_target(name))
        assert all(isinstance(w, Gemm) for w in workloads(graph))


def test_products_of_different_inputs_stay_apart():
    made = products((16, 16))
    for each in made.graph.node:
        if each.output[0] == "m1":
            each.input[0] = "e"
    other = pair("x", "e", "s0")
    for each in reversed(other):
        made.graph.node.insert(0, each)
    assert all(isinstance(w, Gemm) for w in workloads(optimise(from_model(made), HOPPER)))
