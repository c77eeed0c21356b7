"""Fusions keep to the schemes in the model, however little they fit together."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from qdq.oracle import Oracle, normal_feeds, run_in_memory

from autoq.frontend import from_model
from autoq.graph import Layer, evaluate, optimise
from autoq.graph.fused import Bounds, Scheme
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

TARGETS = [parse_target("cpu"), parse_target("cuda")]
SHAPE = (1, 4, 5, 6)
WEIGHT = np.random.default_rng(3).integers(-100, 101, (4, 4, 1, 1)).astype(np.int8)


class Builder:
    """Nodes over one input `x` of SHAPE and constants made on the way."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, value: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def __call__(self, op: str, *inputs: str, **attributes: object) -> str:
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def quantise(self, x: str, scale: float, zero: int = 0, dtype: str = "int8") -> str:
        names = self.constant(np.float32(scale)), self.constant(np.array(zero, dtype))
        return self("QuantizeLinear", x, *names)

    def dequantise(self, x: str, scale: float, zero: int = 0, dtype: str = "int8") -> str:
        names = self.constant(np.float32(scale)), self.constant(np.array(zero, dtype))
        return self("DequantizeLinear", x, *names)

    def conv(self, x: str, bias: np.ndarray | None = None, scale: float = 2.0**-7) -> str:
        weight = self.dequantise(self.constant(WEIGHT), scale)
        return self("Conv", x, weight, *([] if bias is None else [self.constant(bias)]))

    def model(self) -> onnx.ModelProto:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "schemes", [value("x", onnx.TensorProto.FLOAT, SHAPE)],
            [onnx.ValueInfoProto(name=self.nodes[-1].output[0])],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 17)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


def assert_agrees(model: onnx.ModelProto, seed: int = 0) -> None:
    feeds = normal_feeds(model, np.random.default_rng(seed))
    oracle = Oracle(model, feeds)
    for target in TARGETS:
        assert not oracle.complaint(evaluate(optimise(from_model(model), target), feeds)), target


OTHERS = {
    "same": (2.0**-5, 3, "int8"),
    "scale": (2.0**-7, 3, "int8"),
    "zero_point": (2.0**-5, -120, "int8"),
    "both": (2.0**-3, 100, "int8"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_residual_behind_a_convolution(other):
    b = Builder()
    x = b.dequantise(b.quantise("x", 2.0**-5), 2.0**-5)
    y = b.dequantise(b.quantise(b.conv(x), 2.0**-5, 3), *OTHERS[other])
    b.quantise(b("Add", y, x), 2.0**-5, -7)
    assert_agrees(b.model())


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("clamp", ["Relu", "Clip"])
def test_clamp_between_quantisations(clamp, other):
    b = Builder()
    x = b.dequantise(b.quantise("x", 2.0**-5), 2.0**-5)
    y = b.dequantise(b.quantise(b.conv(x), 2.0**-5, 3), *OTHERS[other])
    ends = [b.constant(np.float32(v)) for v in (-0.5, 1.25)] if clamp == "Clip" else []
    b.quantise(b(clamp, y, *ends), 2.0**-5, -7)
    assert_agrees(b.model())


@pytest.mark.parametrize("other", OTHERS)
def test_addition_of_what_is_dequantised_otherwise(other):
    b = Builder()
    first = b.dequantise(b.quantise("x", 2.0**-5, 3), *OTHERS[other])
    second = b.dequantise(b.quantise("x", 2.0**-4, 3), *OTHERS[other])
    b.quantise(b("Add", first, second), 2.0**-5, -7)
    assert_agrees(b.model())


def test_residual_with_a_scale_for_each_channel():
    b = Builder()
    q = b.quantise("x", 2.0**-5)
    scales, zeros = b.constant(np.float32([0.25, 0.5, 1, 2])), b.constant(np.int8([0, 1, 2, 3]))
    other = b("DequantizeLinear", q, scales, zeros, axis=1)
    y = b.conv(b.dequantise(q, 2.0**-5))
    b.quantise(b("Add", y, other), 2.0**-5)
    assert_agrees(b.model())


def test_fused_clamp_is_taken_over_only_with_its_operations():
    b = Builder()
    x = b.dequantise(b.quantise("x", 2.0**-5), 2.0**-5)
    q = b.quantise(b.conv(x), 2.0**-5, 100)  # holds less than the second scheme: no clamp of it
    y = b("Relu", b.dequantise(q, 2.0**-5, 100))
    b.quantise(y, 2.0**-5, -128)
    assert_agrees(b.model())


@pytest.mark.parametrize("ends", [(5.0, 6.0), (-9.0, -8.0), (1.0, -1.0), (0.3, 0.3)])
def test_clip_outside_the_range_of_the_integers(ends):
    for fused in (True, False):
        b = Builder()
        x = b.dequantise(b.quantise("x", 2.0**-5), 2.0**-5)
        y = b.conv(x) if fused else b("MaxPool", x, kernel_shape=[2, 2])
        y = b("Clip", y, *(b.constant(np.float32(end)) for end in ends))
        b.quantise(y, 2.0**-6, 5, "uint8")
        assert_agrees(b.model())


def test_bounds_of_a_scheme_lie_in_its_range():
    scheme = Scheme(np.float32(0.01), 0, "uint8")
    assert scheme.bounds(Bounds(5.0, 6.0)) == (255.0, 255.0)
    assert scheme.bounds(Bounds(-6.0, -5.0)) == (0.0, 0.0)
    assert scheme.bounds(Bounds()) == (0.0, 255.0)
    assert scheme.bounds(Bounds(0.5, 1.0)) == (50.0, 100.0)


@pytest.mark.parametrize("steps", [0.25, 0.5, 1.3, 40.0])
def test_bias_that_is_no_number_of_steps(steps):
    """Half a step of the products is many steps of the result: integers would be off by them."""
    b = Builder()
    x = b.dequantise(b.quantise("x", 2.0**-1), 2.0**-1)
    b.quantise(b.conv(x, np.full(4, steps * 2.0**-1, np.float32), scale=1.0), 2.0**-4)
    model = b.model()
    feeds = normal_feeds(model, np.random.default_rng(0))
    (expected,) = run_in_memory(model, feeds).values()
    for target in TARGETS:
        graph = optimise(from_model(model), target)
        (value,) = evaluate(graph, feeds).values()
        np.testing.assert_array_equal(value, expected)
        convs = [n for n in graph.nodes if isinstance(n, Layer) and type(n.workload) is Conv2d]
        assert ["bias" in conv.float_reason for conv in convs] == [steps != 40.0]


def test_bias_of_a_float_result_that_is_no_number_of_steps():
    """Products of 4-bit integers are coarse: half a step of them is a percent of the result."""
    b = Builder()
    x = b.dequantise(b.quantise("x", 0.5, 0, "int8"), 0.5, 0, "int8")
    weight = b.dequantise(b.constant(WEIGHT // 40), 0.5)
    b("Conv", x, weight, b.constant(np.float32([0.47, -0.1, 0.3, 1.1])))
    model = b.model()
    feeds = normal_feeds(model, np.random.default_rng(0))
    (expected,) = run_in_memory(model, feeds).values()
    for target in TARGETS:
        (value,) = evaluate(optimise(from_model(model), target), feeds).values()
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


SCALES = [1e-44, 1e-20, 1e20, 3e38]


@pytest.mark.parametrize("body", ["conv", "add", "pool", "concat", "clamp", "nothing"])
@pytest.mark.parametrize("inside", SCALES)
@pytest.mark.parametrize("outside", [1e-38, 1e20])
def test_scales_at_the_ends_of_float32(body, inside, outside):
    if body == "pool" and inside > 1e36:
        pytest.skip("the reference sums a window in float64, where four values do not overflow")
    b = Builder()
    d = b.dequantise(b.quantise("x", inside, 1), inside, 1)
    y = {
        "conv": lambda: b.conv(d),
        "add": lambda: b("Add", d, b.dequantise(b.quantise("x", 2.0**-5), 2.0**-5)),
        "pool": lambda: b("AveragePool", d, kernel_shape=[2, 2]),
        "concat": lambda: b("Concat", d, b.dequantise(b.quantise("x", 0.1), 0.1), axis=1),
        "clamp": lambda: b("Relu", d),
        "nothing": lambda: d,
    }[body]()
    b.quantise(y, outside, 1)
    model = b.model()
    feeds = normal_feeds(model, np.random.default_rng(0))
    with np.errstate(over="ignore"):
        feeds["x"] *= np.float32(inside)
    (expected,) = run_in_memory(model, feeds).values()
    for target in TARGETS:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            (value,) = evaluate(optimise(from_model(model), target), feeds).values()
        assert np.abs(value.astype(np.int32) - expected).max() <= 1


def test_sums_beyond_32_bits_are_float32():
    b = Builder()
    flat = b("Reshape", b.dequantise(b.quantise("x", 1.0), 1.0), b.constant(np.int64([1, 120])))
    wide = b("Concat", *[flat] * 1200, axis=1)
    weight = b.dequantise(b.constant(np.full((144000, 2), 127, np.int8)), 1.0)
    b("MatMul", wide, weight)
    model = b.model()
    feeds = {"x": np.full(SHAPE, 127, np.float32)}
    (expected,) = run_in_memory(model, feeds).values()
    for target in TARGETS:
        graph = optimise(from_model(model), target)
        layers = [node for node in graph.nodes if isinstance(node, Layer)]
        if target.kind == "cpu":  # a product of floats, whose weight stays narrow
            assert any(layer.workload.operator == "float_gemm" for layer in layers)
        else:
            assert any("do not fit 32 bits" in layer.float_reason for layer in layers)
        np.testing.assert_allclose(*evaluate(graph, feeds).values(), expected, rtol=1e-4)


@pytest.mark.parametrize("op", ["Mul", "Div", "Add"])
@pytest.mark.parametrize("number", [0.0, np.nan, np.inf, 1e-30, 1e30])
def test_constants_beyond_the_weights_are_not_folded(op, number):
    b = Builder()
    constant = b.constant(np.float32([1, number, 2, 3]).reshape(4, 1, 1))
    weight = b.constant(np.random.default_rng(0).standard_normal((4, 4, 1, 1)).astype(np.float32))
    b(op, b("Conv", "x", weight), constant)
    model = b.model()
    feeds = normal_feeds(model, np.random.default_rng(0))
    (expected,) = run_in_memory(model, feeds).values()
    for target in TARGETS:
        with np.errstate(all="ignore"):
            (value,) = evaluate(optimise(from_model(model), target), feeds).values()
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


def test_equal_schemes_still_fuse():
    b = Builder()
    x = b.dequantise(b.quantise("x", 2.0**-5), 2.0**-5)
    y = b.dequantise(b.quantise(b.conv(x), 2.0**-5, 3), 2.0**-5, 3)
    y = b.quantise(b("Relu", b("Add", y, x)), 2.0**-5, -128)
    b.dequantise(y, 2.0**-5, -128)
    graph = optimise(from_model(b.model()), TARGETS[0])
    convs = [n for n in graph.nodes if isinstance(n, Layer) and isinstance(n.workload, Conv2d)]
    assert [conv.workload.epilogue.requantize_before_add for conv in convs] == [True]
    assert len(graph.nodes) == 3
