"""Element-wise fusions of one formula side by side: which, what they give, and their kernel."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node, normal
from ptx.kernels import run
from qdq.oracle import run_in_memory
from with_nvcc import needs_nvcc

from autoq.compilation.assembly import _activations
from autoq.frontend import from_model
from autoq.graph import Fusion, Graph, Siblings, evaluate, optimise
from autoq.graph.lowering.fusions import fusion_prim_func
from autoq.graph.places import places_of_inputs
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.templates.target import parse_target

HOPPER, AMPERE, CPU = map(parse_target, ("cuda:sm_90a", "cuda:sm_80", "cpu"))
SHAPES = {"x": ((3, 5, 24), "float32"), "s": ((), "float32")}


def counts(graph: Graph) -> list[int]:
    """Fusions of each element-wise node."""
    return [
        len(item.parts) if isinstance(item, Siblings) else 1
        for item in graph.nodes
        if isinstance(item, Siblings) or (isinstance(item, Fusion) and "Tanh" in item.kind)
    ]


def elementwise(count: int) -> onnx.ModelProto:
    """Inputs scaled by one number and moved by constants of their own, in one graph."""
    nodes = []
    for i in range(count):
        nodes += [node("Mul", f"x{i} s", f"a{i}"), node("Add", f"a{i} b{i}", f"h{i}"),
                  node("Tanh", f"h{i}", f"y{i}")]  # fmt: skip
    inputs = {f"x{i}": ((3, 5, 24), "float32") for i in range(count)} | {"s": ((), "float32")}
    constants = {f"b{i}": normal(24) for i in range(count)}
    return model(nodes, inputs, constants, outputs=tuple(f"y{i}" for i in range(count)))


@pytest.mark.parametrize(("count", "expected"), [(1, [1]), (3, [3]), (4, [4]), (6, [4, 2])])
def test_neighbours_of_one_formula_share_a_kernel(count: int, expected: list[int]) -> None:
    made = elementwise(count)
    graph = optimise(from_model(made), HOPPER)
    assert counts(graph) == expected
    assert counts(optimise(from_model(made), CPU)) == [1] * count
    feeds = {name: normal(*graph.shape(name)) for name in graph.inputs}
    found = evaluate(graph, feeds)
    for name, y in run_in_memory(made, feeds).items():
        np.testing.assert_allclose(found[name], y, rtol=1e-5, atol=1e-6)


def test_one_that_reads_another_is_apart() -> None:
    nodes = [node("Mul", "x s", "h"), node("Mul", "h s", "y")]
    made = model(nodes, {name: SHAPES[name] for name in ("x", "s")}, {}, outputs=("h", "y"))
    graph = optimise(from_model(made), HOPPER)
    assert not any(isinstance(item, Siblings) for item in graph.nodes)


def test_inputs_of_other_names_go_to_their_parts() -> None:
    graph = optimise(from_model(elementwise(3)), HOPPER)
    (siblings,) = (item for item in graph.nodes if isinstance(item, Siblings))
    renamed = siblings.reading([f"{name}.other" for name in siblings.inputs])
    assert renamed.inputs == tuple(f"{name}.other" for name in siblings.inputs)
    for part, before in zip(renamed.parts, siblings.parts, strict=True):
        assert part.inputs == tuple(f"{name}.other" for name in before.inputs)
        assert (part.key, part.output) == (before.key, before.output)


def test_tokens_keep_their_bounds() -> None:
    tables = {"t": normal(50, 8), "u": normal(20, 8)}
    nodes = [node("Gather", "t a", "p"), node("Gather", "u b", "q"), node("Add", "p q", "y")]
    made = model(nodes, {"a": ((6,), "int64"), "b": ((6,), "int64")}, tables)
    assert places_of_inputs(optimise(from_model(made), HOPPER)) == {"a": 50, "b": 20}


@needs_nvcc
@pytest.mark.parametrize("target", [HOPPER, AMPERE], ids=lambda target: target.arch)
def test_the_kernel_of_three(target) -> None:
    graph = optimise(from_model(elementwise(3)), target)
    (siblings,) = (item for item in graph.nodes if isinstance(item, Siblings))
    given, results = _activations(siblings)
    rng = np.random.default_rng(2)
    values = {n: rng.standard_normal(graph.shape(n)).astype(np.float32) for n in siblings.inputs}
    inputs = [values[name].reshape(s) for name, (s, _) in zip(siblings.inputs, given, strict=True)]
    function = fusion_prim_func(siblings, target)
    found = run(function, target, [*inputs, *siblings.constants], results)
    for y, part in zip(found, siblings.parts, strict=True):
        expected = evaluate_fusion(part, [values[name] for name in part.inputs])
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
