"""Products compute only the rows that a Slice behind them takes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node, normal
from optimised_models import pair
from qdq.oracle import Oracle, normal_feeds

from autoq.frontend import from_model
from autoq.graph import Graph, Layer, evaluate, optimise
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

HOPPER, CPU = parse_target("cuda:sm_90a"), parse_target("cpu")
WIDE = 16


def classifier(
    picked: tuple[str, str, str] = ("0", "1", "1"), outputs: tuple[str, ...] = ("y",),
    batch: int = 2, **more: str,
) -> onnx.ModelProto:  # fmt: skip
    """Two products of tokens [batch, 5, 16], a sum and a normalisation, and one of what is picked.

    picked: where, up to where, and of which axis; more: ONNX operators behind the first product.
    """
    rng = np.random.default_rng(0)
    constants = {"s": np.float32(0.04), "z": np.uint8(120), "ws": np.float32(0.01),
                 "wz": np.int8(0), "bias": normal(WIDE), "step": np.array([1])}  # fmt: skip
    for name in ("w1", "w2", "w3"):
        constants[name] = rng.integers(-100, 101, (WIDE, WIDE)).astype(np.int8)
    constants |= {
        name: np.array([int(at)]) for name, at in zip(("from", "to", "axis"), picked, strict=True)
    }
    nodes = [*pair("x", "d"), *(node("DequantizeLinear", f"w{i} ws wz", f"v{i}") for i in "123"),
             node("MatMul", "d v1", "m"), node("Add", "m bias", "n"), *pair("n", "p")]  # fmt: skip
    last = "p"
    for op, axis in more.items():
        nodes += [node(op, last, f"{last}o", axis=int(axis)), *pair(f"{last}o", f"{last}p")]
        last = f"{last}p"
    nodes += [
        node("Add", f"d {last}", "r"), *pair("r", "t"), node("ReduceMean", "t", "mean", axes=[2]),
        node("Sub", "t mean", "c"), *pair("c", "e"), node("MatMul", "e v2", "f"),
        node("Relu", "f", "g"), *pair("g", "h"), node("Slice", "h from to axis step", "i"),
        node("MatMul", "i v3", "k"), *pair("k", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": ((batch, 5, WIDE), "float32")}, constants, outputs)


def rows(graph: Graph) -> list[int]:
    """Of each product, in running order."""
    found = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    return [work.m for work in found if isinstance(work, Gemm)]


@pytest.mark.parametrize("target", [HOPPER, CPU], ids=["hopper", "cpu"])
@pytest.mark.parametrize(("picked", "count"), [
    (("0", "1", "1"), 2), (("4", "5", "1"), 2), (("1", "2", "0"), 5),
])  # fmt: skip
def test_products_have_the_rows_that_are_read(picked, count, target) -> None:
    made = classifier(picked)
    feeds = normal_feeds(made, np.random.default_rng(1))
    graph = optimise(from_model(made), target)
    assert rows(graph) == [count] * 3
    assert not Oracle(made, feeds).complaint(evaluate(graph, feeds))


@pytest.mark.parametrize(("made", "counts"), [
    (classifier(Softmax="1"), [10, 2, 2]), (classifier(outputs=("y", "h")), [10, 10, 2]),
    (classifier(outputs=("y", "t")), [10, 2, 2]), (classifier(("1", "5", "1")), [10, 10, 8]),
    (classifier(("3", "5", "1")), [10, 10, 4]),
], ids=["softmax over rows", "read whole", "an output", "most rows", "unevenly apart"])  # fmt: skip
def test_rows_that_others_read_are_computed(made, counts) -> None:
    feeds = normal_feeds(made, np.random.default_rng(1))
    graph = optimise(from_model(made), HOPPER)
    assert rows(graph) == counts
    assert not Oracle(made, feeds).complaint(evaluate(graph, feeds))


def test_a_single_row_has_the_kernels_of_several() -> None:
    one, two = (optimise(from_model(classifier(batch=n)), HOPPER) for n in (1, 2))
    assert rows(one) == [1] * 3 and len(one.nodes) == len(two.nodes)
