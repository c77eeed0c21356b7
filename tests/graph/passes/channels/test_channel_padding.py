"""Padding hidden channels changes no bit, and is left where it cannot be exact or cheap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models.makers import model
from onnx_models.oracle import random_feeds, run_onnxruntime

from autoq.frontend import load
from autoq.graph import Layer, evaluate, optimise
from autoq.quantization.quantize import quantize
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target


def quantised(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], folder: Path) -> Path:
    """The file of a quantised model from an image of 16 channels to y."""
    onnx.save(model(nodes, {"x": ((1, 16, 9, 9), "float32")}, constants), folder / "f.onnx")
    quantize(folder / "f.onnx", None, folder / "q.onnx")
    return folder / "q.onnx"


def chain(hidden: int, folder, residual: bool = False, groups: int = 1):
    """Quantised 16 -> hidden -> 16 convolutions, optionally with the hidden tensor added."""
    rng = np.random.default_rng(0)

    def weight(k: int, c: int, size: int) -> np.ndarray:
        return rng.standard_normal((k, c, size, size), np.float32) * np.float32(0.2)

    last = hidden if residual else 16
    constants = {"w0": weight(hidden, 16, 1), "w1": weight(last, hidden // groups, 3)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["y0" if residual else "y"], name="second",
                         pads=[1, 1, 1, 1], group=groups),
    ]  # fmt: skip
    if residual:
        nodes.append(helper.make_node("Add", ["y0", "b"], ["y"]))
    return quantised(nodes, constants, folder)


def hidden_channels(graph) -> int:
    convs = [n for n in graph.nodes if isinstance(n, Layer) and isinstance(n.workload, Conv2d)]
    return next(n.workload.c for n in convs if "second" in n.covers)


@pytest.mark.parametrize(
    ("hidden", "options", "cuda_channels"),
    [
        (24, {}, 32),
        (40, {}, 48),
        (32, {}, 32),
        (4, {}, 4),  # four times the products
        (24, {"residual": True}, 24),
        (24, {"groups": 2}, 24),
    ],
)
def test_hidden_channels(hidden, options, cuda_channels, tmp_path):
    path = chain(hidden, tmp_path, **options)
    feeds = random_feeds(path)
    cuda = optimise(load(path), parse_target("cuda"))
    assert hidden_channels(cuda) == cuda_channels
    narrow = optimise(load(path), parse_target("cpu"))
    assert hidden_channels(narrow) == hidden
    result = evaluate(cuda, feeds)["y"]
    np.testing.assert_array_equal(result, evaluate(narrow, feeds)["y"])
    expected = run_onnxruntime(path, feeds)["y"]
    assert np.abs(result - expected).max() <= 0.02 * np.abs(expected).max()


def bottlenecks(folder, tail: list):
    """Inverted bottlenecks of 24 channels: a chain of two sums, a pool and `tail`, quantised."""
    rng = np.random.default_rng(1)
    constants: dict[str, np.ndarray] = {}
    nodes = []

    def conv(x: str, y: str, k: int, c: int, groups: int = 1, size: int = 1) -> None:
        shape = (k, c // groups, size, size)
        constants[f"w_{y}"] = rng.standard_normal(shape, np.float32) / np.float32(shape[1] ** 0.5)
        pads = [size // 2] * 4
        inputs = [x, f"w_{y}"]
        nodes.append(helper.make_node("Conv", inputs, [y], name=y, pads=pads, group=groups))

    conv("x", "first", 24, 16)
    previous = "first"
    for block in ("a", "b"):
        conv(previous, f"{block}0", 48, 24)
        nodes.append(helper.make_node("Relu", [f"{block}0"], [f"{block}1"]))
        conv(f"{block}1", f"{block}2", 48, 48, groups=48, size=3)
        conv(f"{block}2", f"{block}3", 24, 48)
        nodes.append(helper.make_node("Add", [previous, f"{block}3"], [f"{block}"]))
        previous = block
    nodes.append(helper.make_node("MaxPool", ["b"], ["p"], kernel_shape=[2, 2]))
    conv("p", "second", 16, 24)
    return quantised([*nodes, *tail], constants, folder)


@pytest.mark.parametrize(
    ("tail", "padded"),
    [
        ([helper.make_node("Relu", ["second"], ["y"])], {16, 32, 48}),
        # Whatever reads one of the sums needs its channels as they are.
        ([helper.make_node("Softmax", ["a"], ["y"], axis=1)], {16, 24, 48}),
    ],
)
def test_sums_are_padded_together(tail, padded, tmp_path):
    path = bottlenecks(tmp_path, tail)
    feeds = random_feeds(path)
    cuda, plain = (optimise(load(path), parse_target(name)) for name in ("cuda", "cpu"))
    convs = [n.workload for n in cuda.nodes if isinstance(n, Layer) and hasattr(n.workload, "k")]
    assert {c.c for c in convs if isinstance(c, Conv2d)} == padded
    np.testing.assert_array_equal(evaluate(cuda, feeds)["y"], evaluate(plain, feeds)["y"])
