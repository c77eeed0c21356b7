"""Networks that work on pixels, channels last: nothing is transposed in memory for them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node, normal
from optimised_models import pair
from qdq.oracle import normal_feeds, run_in_memory

from autoq import models
from autoq.frontend import from_model, load
from autoq.graph import Fusion, evaluate, optimise
from autoq.quantization.quantize import quantize
from autoq.templates.target import parse_target

TARGETS = [parse_target("cpu"), parse_target("cuda:sm_90a")]
TO_FIRST, TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]
CONSTANTS = {
    "s": np.float32(0.05), "t": np.float32(0.07), "z": np.int8(3), "factor": normal(6, 1, 1),
    "scalar": np.float32(0.7), "one": normal(1, 1, 1, 1), "w": normal(6, 1, 3, 3),
    "flat": np.int64([2, 6, 20]), "image": np.int64([2, 6, 4, 5]),
}  # fmt: skip


def _transpositions(graph) -> list[Fusion]:
    return [
        each for each in graph.nodes
        if isinstance(each, Fusion) and any(p.op == "Transpose" for p in each.primitives)
    ]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("network", "shape", "kernels"), [
    ("convnext", (2, 3, 64, 64), 24), ("vit", (2, 3, 32, 32), 16),
])  # fmt: skip
def test_a_quantised_network_transposes_nothing(network, shape, kernels, target, tmp_path):
    made = (
        models.convnext(depths=(1, 2), widths=(16, 32), image=64, batch=2, classes=10)
        if network == "convnext"
        else models.vit(layers=1, width=32, heads=2, image=32, batch=2, classes=10)
    )
    onnx.save(made, tmp_path / "float.onnx")
    rng = np.random.default_rng(0)
    images = rng.standard_normal((4, *shape[1:]), np.float32)
    quantize(tmp_path / "float.onnx", {"input": images}, tmp_path / "int8.onnx")
    graph = optimise(load(tmp_path / "int8.onnx"), target)
    if target.kind == "cuda":
        assert not _transpositions(graph)
        assert len(graph.nodes) <= kernels
    feeds = {"input": rng.standard_normal(shape, np.float32)}
    expected = run_in_memory(onnx.load(tmp_path / "int8.onnx"), feeds)["output"]
    error = np.abs(evaluate(graph, feeds)["output"] - expected).mean()
    assert error <= 0.02 * np.sqrt((expected**2).mean())


TAILS = {
    "a factor and an image": [
        node("Mul", "f factor", "m"), *pair("m", "p", "t"), *pair("r", "e"),
        node("Add", "p e", "y"),
    ],
    "a scalar": [node("Mul", "f scalar", "y")],
    "an array of one number": [node("Sub", "one f", "y")],
    "itself": [node("Add", "f f", "y")],
    "two that are turned": [
        node("Transpose", "x", "g", perm=TO_FIRST), node("Div", "f g", "y"),
    ],
    "back again": [node("Relu", "f", "u"), node("Transpose", "u", "y", perm=TO_LAST)],
    "a convolution": [
        node("Relu", "f", "u"), node("Conv", "u w", "y", group=6, pads=[1, 1, 1, 1]),
    ],
    "three operands": [
        node("Greater", "f r", "c"), node("Where", "c f scalar", "y"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tail", TAILS)
def test_element_wise_operations_of_turned_images(tail, target):
    inputs = {"x": ((2, 4, 5, 6), "float32"), "r": ((2, 6, 4, 5), "float32")}
    made = model([node("Transpose", "x", "f", perm=TO_FIRST), *TAILS[tail]], inputs, CONSTANTS)
    feeds = normal_feeds(made, np.random.default_rng(1))
    found = evaluate(optimise(from_model(made), target), feeds)["y"]
    np.testing.assert_allclose(found, run_in_memory(made, feeds)["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("perm", [[0, 2, 1], [1, 0, 2]])
def test_pixels_that_become_tokens(perm, target):
    nodes = [
        node("Conv", "r w", "c", group=6, pads=[1, 1, 1, 1]), node("Reshape", "c flat", "f"),
        node("Transpose", "f", "t1", perm=perm), node("Softmax", "t1", "y", axis=-1),
    ]  # fmt: skip
    made = model(nodes, {"r": ((2, 6, 4, 5), "float32")}, CONSTANTS)
    feeds = normal_feeds(made, np.random.default_rng(1))
    graph = optimise(from_model(made), target)
    found = evaluate(graph, feeds)["y"]
    np.testing.assert_allclose(found, run_in_memory(made, feeds)["y"], rtol=1e-5, atol=1e-5)
