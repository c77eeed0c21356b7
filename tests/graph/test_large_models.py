"""Models of many nodes, inputs and outputs: time grows with their number, and nothing recurses."""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node, normal
from onnx_models.oracle import random_feeds, run_onnxruntime

import autoq
from autoq.frontend import from_model, load
from autoq.graph import optimise
from autoq.templates.target import host_cpu

SHAPE = (1, 4, 3, 2)
QUANTISED = {"s": np.float32(0.1), "z": np.int8(1)}
LENGTH = 1500


def chain(steps: list[tuple[str, str, dict[str, object]]], constants=None, length=LENGTH):
    """`length` nodes one behind the other; a step's inputs name the one before "@"."""
    nodes, last = [], "x"
    for index in range(length):
        op, inputs, attributes = steps[index % len(steps)]
        result = "y" if index == length - 1 else f"t{index}"
        nodes.append(node(op, inputs.replace("@", last), result, **attributes))
        last = result
    return model(nodes, {"x": (SHAPE, "float32")}, constants)


def outputs(count: int) -> onnx.ModelProto:
    """A Split into many parts, all of them outputs."""
    names = [f"y{i}" for i in range(count)]
    shape = {"x": ((1, count, 2), "float32")}
    return model([node("Split", "x", " ".join(names), axis=1)], shape, outputs=names, opset=11)


DEEP = {
    "elementwise": partial(chain, [("Relu", "@", {}), ("Add", "@ x", {})]),
    "transposes": partial(chain, [("Transpose", "@", {"perm": [0, 2, 3, 1]})], length=1498),
    "reductions": partial(chain, [("Softmax", "@", {"axis": 1})]),
    "convolutions": partial(chain, [("Conv", "@ w", {})], {"w": normal(4, 4, 1, 1)}),
    "quantised": partial(
        chain,
        [("QuantizeLinear", "@ s z", {}), ("DequantizeLinear", "@ s z", {}), ("Relu", "@", {})],
        QUANTISED, length=1498,
    ),
    "quantised moves": partial(
        chain,
        [
            ("QuantizeLinear", "@ s z", {}), ("DequantizeLinear", "@ s z", {}),
            *[("Transpose", "@", {"perm": [0, 1, 3, 2]})] * 998,
        ],
        QUANTISED,
    ),
    "affine": partial(
        chain, [("Conv", "@ w", {}), *[("Mul", "@ c", {})] * 999],
        {"w": normal(4, 4, 1, 1), "c": np.float32(1.01)},
    ),
    "constants": partial(
        chain, [("Add", "c d", {}), *[("Mul", "@ c", {})] * 998, ("Add", "@ x", {})],
        {"c": np.float32(1.001), "d": np.float32(2)},
    ),
    "outputs": partial(outputs, 3000),
    "reshapes of weights": partial(
        chain,
        [("Reshape", "w flat", {}), *[("Reshape", "@ flat", {})] * 998, ("MatMul", "x @", {})],
        {"w": normal(2, 2), "flat": np.int64([2, 2])}, length=1000,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
def test_deep_models_take_linear_time(name):
    deep = DEEP[name]()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)  # nothing that recurses over the model gets through
    try:
        started = time.process_time()
        graph = optimise(from_model(deep), host_cpu())
        assert time.process_time() - started < 4  # 6 to 15 s where a pass is quadratic
    finally:
        sys.setrecursionlimit(limit)
    assert graph.nodes


def concat(count: int, quantised: bool) -> onnx.ModelProto:
    """`count` tensors joined, three of them inputs that are read again and again."""
    inputs = {name: ((1, 2, 3, 4), "float32") for name in ("x0", "x1", "x2")}
    if not quantised:
        parts = " ".join(f"x{i % 3}" for i in range(count))
        return model([node("Concat", parts, axis=1)], inputs)
    nodes = [node("QuantizeLinear", f"x{i} s z", f"q{i}") for i in range(3)]
    nodes += [node("DequantizeLinear", f"q{i % 3} s z", f"d{i}") for i in range(count)]
    nodes.append(node("Concat", " ".join(f"d{i}" for i in range(count)), "c", axis=1))
    nodes += [node("QuantizeLinear", "c s z", "p"), node("DequantizeLinear", "p s z")]
    return model(nodes, inputs, QUANTISED)


def rows(count: int) -> onnx.ModelProto:
    """A Concat that no kernel of its own computes: along the rows."""
    parts = " ".join(f"x{i % 3}" for i in range(count))
    inputs = {name: ((1, 2, 3, 4), "float32") for name in ("x0", "x1", "x2")}
    return model([node("Concat", parts, "c", axis=2), node("Neg", "c")], inputs)


WIDE = {
    "Concat": partial(concat, 1000, quantised=False),
    "quantised Concat": partial(concat, 80, quantised=True),
    "Concat of rows": partial(rows, 1000),
    "Sum": partial(model, [node("Sum", " ".join(["x"] * 1000))], {"x": (SHAPE, "float32")}),
    "outputs": partial(outputs, 12),
}


@pytest.mark.parametrize("name", WIDE)
def test_wide_models_compile_and_agree(name, tmp_path):
    path = tmp_path / "wide.onnx"
    onnx.save(WIDE[name](), path)
    report = autoq.compile(path, target="cpu", output=tmp_path / "wide.tar")
    assert report.calls
    feeds = random_feeds(path)
    expected = run_onnxruntime(path, feeds)
    session = autoq.Session(tmp_path / "wide.tar")
    for output, value in zip(expected, session.run(list(expected), feeds), strict=True):
        np.testing.assert_allclose(value, expected[output], rtol=1e-5, atol=1e-4)
    assert max(len(node.inputs) for node in optimise(load(path), host_cpu()).nodes) <= 32
