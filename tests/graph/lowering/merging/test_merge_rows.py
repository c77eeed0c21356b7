"""What stands in front of reductions of rows becomes one kernel with them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models.makers import model, node, normal
from qdq.oracle import run_in_memory

from autoq.frontend import from_model
from autoq.graph import Fusion, evaluate, optimise
from autoq.graph.lowering.fusions import kernel_family
from autoq.templates.target import parse_target

TARGETS = [parse_target("cuda:sm_90a"), parse_target("cpu")]
NORM = node("LayerNormalization", "h g c", "y")
ROW = ["ReduceMean", "Sub", "Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]
CASES = {
    "normalisation": ([node("Tanh", "x", "h"), NORM], ("y",), [["Tanh", *ROW]]),
    "read by all": ([node("Tanh", "x", "h"), NORM, node("Mul", "y h", "z")], ("z",),
                    [["Tanh", *ROW, "Mul"]]),
    "result": ([node("Tanh", "x", "h"), NORM], ("h", "y"), [["Tanh"], ROW]),
    "mask": ([node("Mul", "x g", "a"), node("Softmax", "a", "y", axis=-1)], ("y",),
             [["Mul", "Softmax"]]),
    "smaller in front": ([node("Softmax", "s", "t", axis=-1), node("Mul", "x t", "a"),
                          node("Softmax", "a", "y", axis=-1)], ("y",),
                         [["Softmax"], ["Mul", "Softmax"]]),
    "other axis": ([node("Mul", "x g", "a"), node("Softmax", "a", "y", axis=1)], ("y",),
                   [["Mul"], ["Softmax"]]),
    "twice": ([node("Softmax", "x", "a", axis=-1), node("Softmax", "a", "b", axis=-1),
               node("Mul", "b b", "y")], ("y",), [["Softmax", "Softmax", "Mul"]]),
    "turned square": ([node("Tanh", "q", "h"), node("Transpose", "h", "t", perm=[0, 2, 1]),
                       node("Reshape", "t v", "r"), node("Softmax", "r", "y", axis=-1)], ("y",),
                      [["Tanh"], ["Transpose"], ["Softmax"]]),
    "other outer axes": ([node("Mul", "q k", "a"), node("Tanh", "a", "h"),
                          node("Reshape", "h o", "r"), node("Softmax", "r", "y", axis=-1)],
                         ("y",), [["Mul", "Tanh", "Softmax"]]),
    "joined in front": ([node("Mul", "x g", "a"), node("Concat", "a w", "j", axis=2),
                         node("Softmax", "j", "y", axis=-1)], ("y",), None),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
@pytest.mark.parametrize("name", CASES)
def test_fronts_join_where_rows_hold_them(name, target):
    nodes, outputs, expected = CASES[name]
    constants = {"g": normal(24), "c": normal(24), "v": np.array([2, 3, 24, 24])}
    constants |= {"k": normal(24), "o": np.array([2, 3, 24, 24])}
    inputs = {
        "x": ((2, 3, 5, 24), "float32"),
        "s": ((1, 3, 1, 24), "float32"),
        "q": ((6, 24, 24), "float32"),
        "w": ((2, 3, 4, 24), "float32"),
    }
    used = {i for item in nodes for i in item.input}
    made = model(nodes, {n: v for n, v in inputs.items() if n in used},
                 {n: v for n, v in constants.items() if n in used}, outputs)  # fmt: skip
    graph = optimise(from_model(made), target)
    feeds = {n: normal(*inputs[n][0]) for n in graph.inputs}
    found = evaluate(graph, feeds)
    for result, value in run_in_memory(made, feeds).items():
        np.testing.assert_allclose(found[result], value, rtol=1e-4, atol=1e-5)
    fusions = [item for item in graph.nodes if isinstance(item, Fusion)]
    if expected is None:  # what a target's kernels hold of a Concat differs
        assert fusions[-1].primitives[-1].op == "Softmax" and len(fusions) > 1
    else:
        assert [[p.op for p in item.primitives] for item in fusions] == expected
    known = {*graph.inputs}
    for item in graph.nodes:
        assert known.issuperset(item.inputs)
        known.add(item.output)
    if name != "other axis":
        assert kernel_family(fusions[-1], target) == "rows"
