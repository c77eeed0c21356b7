"""Operators whose data are initializers: computed at import, or left as constants of a kernel."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.integers import integers, scales, scheme
from onnx_models.makers import model, node, normal
from onnx_models.operators import int64
from onnx_models.oracle import random_feeds, run_onnxruntime

from autoq.frontend import load
from autoq.graph import Layer, evaluate, optimise
from autoq.templates.target import parse_target

X, Y = (1, 6, 7, 8), (1, 8, 5, 6)
IMAGES = {"c": normal(*X), "i": integers("int8", *X), "s": np.float32(0.05), "z": np.int8(3)}
WEIGHTS = {
    "wq": integers("int8", 8, 6, 3, 3), "ws": scales(8), "wz": np.zeros(8, np.int8),
    "w": normal(8, 6, 3, 3), "b": normal(8),
}  # fmt: skip
QUANTISED_WEIGHTS = node("DequantizeLinear", "wq ws wz", "d", axis=0)
QUANTISED_X = node("DequantizeLinear", "i s z", "x")
SUM = node("Add", "e a")
SUMMAND = {"a": (Y, "float32")}


def over_constants(*nodes: onnx.NodeProto, inputs=None, **constants: np.ndarray):
    used = {name for n in nodes for name in n.input}
    known = {**IMAGES, **WEIGHTS, **constants}
    known = {name: value for name, value in known.items() if name in used}
    return model(list(nodes), inputs or SUMMAND, known)


CASES = {
    "float x, quantised weights": over_constants(
        QUANTISED_WEIGHTS, node("Conv", "c d b", "e"), SUM
    ),
    "quantised x and weights": over_constants(
        QUANTISED_X, QUANTISED_WEIGHTS, node("Conv", "x d b", "e"), SUM
    ),
    "quantised x, weights that are an input": over_constants(
        QUANTISED_X, node("Conv", "x w b"), inputs={"w": ((8, 6, 3, 3), "float32")}
    ),
    "x, weights that are an input, grouped": over_constants(
        node("Conv", "c v b", group=2, strides=[2, 1], pads=[1, 0, 1, 2]),
        inputs={"v": ((8, 3, 3, 3), "float32")},
    ),
    "bias that is an input": over_constants(
        node("Conv", "c w bias"), inputs={"bias": ((8,), "float32")}
    ),
    "matrices": over_constants(
        node("Relu", "a", "r"), node("Gemm", "p q r"), inputs={"a": ((6,), "float32")},
        p=normal(3, 8), q=normal(8, 6),
    ),
    "normalisation by constants quantised twice": over_constants(
        node("DequantizeLinear", "g s z", "g1"), node("Identity", "g1", "g2"),
        node("QuantizeLinear", "g2 ws0 wz0", "g3"), node("DequantizeLinear", "g3 ws0 wz0", "g4"),
        node("Identity", "b", "b1"), node("BatchNormalization", "a g4 b1 b1 v"),
        g=integers("int8", 8), v=np.abs(normal(8)) + 1, ws0=np.float32(0.1), wz0=np.uint8(90),
    ),
    "a shape of dequantised numbers": over_constants(
        node("DequantizeLinear", "n s0", "f"), node("Ceil", "f", "u"),
        node("Cast", "u", "t", to=7), node("Reshape", "a t"), n=np.uint8([8, 57, 31]),
        s0=np.float32(0.25),
    ),
    "pool of dequantised integers": over_constants(
        QUANTISED_X, node("MaxPool", "x", "m", kernel_shape=[2, 2]), node("Concat", "m a", axis=1),
        inputs={"a": ((1, 2, 6, 7), "float32")},
    ),
    "reshaped sums": over_constants(
        QUANTISED_X, node("Add", "x c", "t"), node("Reshape", "t shape", "r"), node("Mul", "r a"),
        inputs={"a": ((6, 56), "float32")}, shape=int64(6, 56),
    ),
    "convolution plus dequantised integers": over_constants(
        QUANTISED_WEIGHTS, node("QuantizeLinear", "a s z", "aq"),
        node("DequantizeLinear", "aq s z", "ad"), node("Conv", "ad d", "e"),
        node("DequantizeLinear", "rq rs rz", "r"), node("Add", "e r"),
        inputs={"a": (X, "float32")},
        rq=integers("int8", *Y), **scheme("r", 0.07, 5, "int8"),
    ),
    "output": over_constants(
        QUANTISED_WEIGHTS, node("Conv", "c d b"), inputs={"a": ((1,), "float32")}
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_onnxruntime(name, kind, tmp_path):
    path = tmp_path / "case.onnx"
    onnx.save(CASES[name], path)
    feeds = random_feeds(path)
    results = evaluate(optimise(load(path), parse_target(kind)), feeds)
    for output, value in run_onnxruntime(path, feeds).items():
        np.testing.assert_allclose(results[output], value, rtol=1e-4, atol=1e-5)


def test_a_convolution_of_constants_leaves_no_kernel(tmp_path):
    path = tmp_path / "case.onnx"
    onnx.save(CASES["quantised x and weights"], path)
    nodes = optimise(load(path), parse_target("cpu")).nodes
    assert len(nodes) == 1 and not isinstance(nodes[0], Layer)
