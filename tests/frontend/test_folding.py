"""Constant folding: bounded in bytes, operations and seconds, and nothing random in it."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models.makers import model, node
from onnx_models.operators import int64, with_constants
from refusals import assert_refused, saved

from autoq.errors import ModelError
from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.graph.folding_budget import BudgetError, FoldingBudget
from autoq.graph.passes.preparation.fold_constants import fold_operations
from autoq.templates.target import host_cpu

X = {"x": ((2, 3), "float32")}


def body(name: str) -> onnx.GraphProto:
    """A graph of one addition, as loops and branches hold it."""
    value = helper.make_tensor_value_info
    inputs = [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, [])]
    inputs.append(value("a", TensorProto.FLOAT, []))
    outputs = [value("go2", TensorProto.BOOL, []), value("b", TensorProto.FLOAT, [])]
    nodes = [node("Identity", "go", "go2"), node("Add", "a a", "b")]
    return helper.make_graph(nodes, name, inputs, outputs)


def branch() -> onnx.GraphProto:
    value = helper.make_tensor_value_info("b", TensorProto.FLOAT, [])
    return helper.make_graph([node("Identity", "one", "b")], "branch", [], [value])


CONSTANTS = {
    "n": np.int64(2**62), "yes": np.bool_(True), "one": np.float32(1), "half": np.float32(0.5),
    "row": np.ones((1, 4), np.float32),
}  # fmt: skip
RANDOM = {
    "RandomNormal": [node("RandomNormal", "", "r", shape=[2, 3]), node("Add", "x r")],
    "RandomUniform": [node("RandomUniform", "", "r", shape=[2, 3]), node("Add", "x r")],
    "RandomNormalLike": [node("RandomNormalLike", "one", "r"), node("Add", "x r")],
    "RandomUniformLike": [node("RandomUniformLike", "one", "r"), node("Add", "x r")],
    "Bernoulli": [node("Bernoulli", "half", "r"), node("Add", "x r")],
    "Multinomial": [node("Multinomial", "row", "r", sample_size=4), node("Cast", "r", to=1)],
    "Dropout of a constant": [node("Dropout", "one half yes", "r"), node("Add", "x r")],
    "Dropout": [node("Dropout", "x half yes")],
}
GRAPHS = {
    "Loop": [node("Loop", "n yes one", "r", body=body("loop")), node("Add", "x r")],
    "If": [
        node("ReduceMax", "x", "m", keepdims=0),
        node("Cast", "m", "c", to=9),
        node("If", "c", "r", then_branch=branch(), else_branch=branch()),
        node("Add", "x r"),
    ],
}


def of(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    used = {name for n in nodes for name in n.input}
    used |= {"one"} if any(n.op_type == "If" for n in nodes) else set()
    return model(nodes, X, {name: CONSTANTS[name] for name in CONSTANTS if name in used})


@pytest.mark.parametrize("name", RANDOM)
def test_random_values_are_not_folded(name, tmp_path):
    assert_refused(saved(of(RANDOM[name]), tmp_path), "not supported|at random")


@pytest.mark.parametrize("name", GRAPHS)
def test_nodes_that_hold_graphs_are_not_run(name, tmp_path):
    started = time.process_time()
    assert_refused(
        saved(of(GRAPHS[name]), tmp_path),
        "operator Loop is not supported|a condition that a run gives",
    )
    assert time.process_time() - started < 5


def test_dropout_of_inference_is_the_identity():
    kept = [node("Dropout", "x half no")]
    made = model(kept, X, {"half": np.float32(0.5), "no": np.bool_(False)})
    assert from_model(made).shape("y") == (2, 3)
    made = model([node("Dropout", "x zero yes")], X, {"zero": np.float32(0), "yes": np.bool_(True)})
    assert from_model(made).shape("y") == (2, 3)


def test_a_clipped_constant_keeps_its_shape(tmp_path):
    """Bounds are scalars; onnxruntime reads those of one value alike."""
    bounds = {"c": np.float32(-0.5), "hi": np.float32([0.25])}
    made = model([node("Clip", "c - hi", "b"), node("Add", "x b")], X, bounds)
    graph = from_model(made)
    (clipped,) = (graph.constants[name] for name in graph.operations[-1].inputs[1:])
    assert clipped.shape == () and clipped == -0.5
    wide = model([node("Clip", "c - hi", "b"), node("Add", "x b")], X, {**bounds, "hi": ONES_OF_3})
    assert_refused(saved(wide, tmp_path), "bounds of more than one value")


def test_constants_of_float16_are_computed_in_it():
    """Rounded after each operation, and outputs of the model's dtype."""
    third = np.float16([1 / 3, 3.1, 300])
    nodes = [node("Mul", "t t", "s"), node("Mul", "s t", "y"), node("Relu", "x", "z")]
    made = model(nodes, {"x": ((3,), "float16")}, {"t": third}, outputs=("y", "z"))
    results = evaluate(optimise(from_model(made), host_cpu()), {"x": np.zeros(3, np.float16)})
    assert results["y"].dtype == results["z"].dtype == np.float16
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(results["y"], third * third * third)


ONES = np.ones(1, np.float32)
ONES_OF_3 = np.ones(3, np.float32)
LARGE = {
    "ConstantOfShape": with_constants("ConstantOfShape", "s", s=int64(10**6, 10**6)),
    "ConstantOfShape that fits a tensor": with_constants("ConstantOfShape", "s", s=int64(2**30)),
    "Expand": with_constants("Expand", "c s", c=ONES, s=int64(10**6, 10**6)),
    "Tile": with_constants("Tile", "c s", c=ONES, s=int64(10**12)),
    "Range": with_constants("Range", "a b c", a=np.int64(0), b=np.int64(10**12), c=np.int64(1)),
    "Range backwards": with_constants(
        "Range", "a b c", a=np.int64(0), b=np.int64(-(10**12)), c=np.int64(-1)
    ),
    "Pad": with_constants("Pad", "c p", c=ONES, p=int64(10**12, 0)),
    "OneHot": with_constants(
        "OneHot", "i d v", i=int64(*range(1000)), d=np.int64(10**9), v=np.float32([0, 1])
    ),
    "Gather": with_constants(
        "Gather", "c i", c=np.ones((2, 2**20), np.float32), i=np.zeros(2**20, np.int64)
    ),
    "outer product": with_constants(
        "MatMul", "a b", a=np.ones((2**20, 1), np.float32), b=np.ones((1, 2**20), np.float32)
    ),
    "broadcast": with_constants(
        "Add", "a b", a=np.ones((2**20, 1), np.float32), b=np.ones((1, 2**20), np.float32)
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_constants_are_refused_before_they_are_allocated(name, tmp_path):
    path = saved(LARGE[name], tmp_path)
    tracemalloc.start()
    try:
        assert_refused(path, "a constant (of|that takes) .*e.*(fit|initializer)")
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_many_constants_share_one_budget():
    nodes = [node("ConstantOfShape", "s", f"c{i}") for i in range(64)]
    total = "c0"
    for i in range(1, 64):
        nodes.append(node("Add", f"{total} c{i}", f"t{i}"))
        total = f"t{i}"
    nodes.append(node("Add", f"x {total}"))
    made = model(nodes, {"x": ((1,), "float32")}, {"s": int64(100)})
    budget = FoldingBudget(bytes=8 * 100 * 100)
    with pytest.raises(ModelError, match="bytes to compute"):
        from_model(made, budget=budget)
    assert from_model(made, budget=FoldingBudget(bytes=8 * 100 * 200)).shape("y") == (100,)


def test_seconds_are_counted_by_the_clock_given():
    ticks = iter(range(0, 1000, 25))
    budget = FoldingBudget(clock=lambda: float(next(ticks)))
    for _ in range(3):
        budget.charge(1, 1)  # after 0, 25 and 50 seconds
    with pytest.raises(BudgetError, match="more than 60 s"):
        budget.charge(1, 1)


def test_operations_over_constants_have_a_budget_too():
    made = model(
        [node("Conv", "c w", "k"), node("Add", "x k")],
        {"x": ((1, 4, 30, 30), "float32")},
        {"c": np.ones((1, 4, 32, 32), np.float32), "w": np.ones((4, 4, 3, 3), np.float32)},
    )
    with pytest.raises(ModelError, match=r"node 'Conv_k' \(Conv\): .*operations to compute"):
        fold_operations(from_model(made), FoldingBudget(operations=10**5))
    assert optimise(from_model(made), host_cpu()).nodes


@pytest.mark.parametrize(("value", "kind"), [([1, 2], "value"), (3.5, "value"), (b"a", "value")])
def test_a_constant_of_the_wrong_type_is_refused(value, kind, tmp_path):
    made = with_constants("ConstantOfShape", "s", attributes={kind: value}, s=int64(2, 3))
    assert_refused(saved(made, tmp_path), r"node 'ConstantOfShape_y' \(ConstantOfShape\)")


@pytest.mark.parametrize("value", [[1, 2], 3.5, b"a"])
def test_a_constant_node_of_the_wrong_type_is_refused(value, tmp_path):
    made = model([helper.make_node("Constant", [], ["c"], value=value), node("Add", "x c")], X)
    assert_refused(saved(made, tmp_path), r"node 'c' \(Constant\)")
