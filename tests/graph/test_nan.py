"""NaN and infinities: in a model's inputs as onnxruntime has them, in the model itself refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from qdq.oracle import run_in_memory

import autoq
from autoq.errors import ModelError
from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.templates.target import parse_target

TARGETS = [parse_target("cpu"), parse_target("cuda")]
SHAPE = (1, 4, 6, 6)


def model(nodes: list[onnx.NodeProto], **constants: object) -> onnx.ModelProto:
    """Nodes over the float32 input `x` of SHAPE; whatever no node reads is an output."""
    read = {name for node in nodes for name in node.input}
    outputs = [node.output[0] for node in nodes if node.output[0] not in read]
    graph = helper.make_graph(
        nodes, "nan", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def node(op: str, inputs: str, **attributes: object) -> onnx.NodeProto:
    output = "y_" + "_".join([op, *inputs.split()])
    return helper.make_node(op, inputs.split(), [output], name=output, **attributes)


CONSTANTS = {
    "low": np.float32(-0.5), "high": np.float32(0.75), "one": np.ones(SHAPE, np.float32),
    "s": np.float32(0.05), "z": np.int8(7), "u": np.uint8(9),
    "w": np.random.default_rng(0).standard_normal((3, 4, 1, 1)).astype(np.float32),
    "b": np.float32([1, 2, 3]),
}  # fmt: skip


def every_operator() -> onnx.ModelProto:
    """What propagates NaN, side by side: kernels, fused clamps, elementwise fusions, Softmax."""
    return model(
        [
            *[node(op, "x") for op in ("Relu", "Abs", "Tanh", "Sigmoid", "HardSwish", "Exp")],
            *[node(op, "x") for op in ("LeakyRelu", "Elu", "Softplus", "GlobalAveragePool")],
            node("Clip", "x low high"), node("Clip", "x low"), node("Softmax", "x", axis=1),
            node("Min", "x one"), node("Max", "one x"), node("Add", "x one"), node("Pow", "x one"),
            node("QuantizeLinear", "x s z"), node("QuantizeLinear", "x s u"),
            node("AveragePool", "x", kernel_shape=[2, 2]),
            helper.make_node("Conv", ["x", "w", "b"], ["conv"], name="conv"),
            node("Relu", "conv"),
            helper.make_node("Add", ["x", "x"], ["sum"], name="sum"), node("Clip", "sum low high"),
            node("QuantizeLinear", "y_Clip_sum_low_high s z"),
        ],
        **CONSTANTS,
    )  # fmt: skip


def feeds() -> dict[str, np.ndarray]:
    x = np.random.default_rng(1).standard_normal(SHAPE, np.float32)
    x[0, 0, 2, 3] = x[0, 2, 5, 5] = x[0, 1, 0, 0] = np.nan
    return {"x": x}


def assert_same(outputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    missing = 0
    for name, value in expected.items():
        missing += int(np.isnan(value).sum()) if value.dtype == np.float32 else 0
        np.testing.assert_allclose(outputs[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert missing > 50


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_missing_numbers_stay_missing(target):
    made = every_operator()
    with np.errstate(invalid="ignore"):
        outputs = evaluate(optimise(from_model(made), target), feeds())
    assert_same(outputs, run_in_memory(made, feeds()))


def test_compiled_kernels_keep_missing_numbers(tmp_path):
    made = every_operator()
    onnx.save(made, tmp_path / "nan.onnx")
    autoq.compile(tmp_path / "nan.onnx", target="cpu", output=tmp_path / "nan.autoq")
    expected = run_in_memory(made, feeds())
    session = autoq.Session(tmp_path / "nan.autoq")
    assert_same(dict(zip(expected, session.run(list(expected), feeds()), strict=True)), expected)


def test_maximum_of_a_window_with_a_missing_number_is_missing(tmp_path):
    """onnxruntime's answer depends on where in the window it lies; autoq's does not."""
    onnx.save(model([node("MaxPool", "x", kernel_shape=[2, 2])]), tmp_path / "max.onnx")
    autoq.compile(tmp_path / "max.onnx", target="cpu", output=tmp_path / "max.autoq")
    (y,) = autoq.Session(tmp_path / "max.autoq").run(None, feeds())
    windows = np.lib.stride_tricks.sliding_window_view(feeds()["x"], (2, 2), (2, 3))
    np.testing.assert_array_equal(y, windows.max((4, 5)))
    (theirs,) = run_in_memory(onnx.load(tmp_path / "max.onnx"), feeds()).values()
    whole = ~np.isnan(windows).any((4, 5))
    np.testing.assert_array_equal(y[whole], theirs[whole])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("op", "name"),
    [("LeakyRelu", "alpha"), ("Elu", "alpha"), ("HardSigmoid", "beta"), ("LRN", "bias")],
)
def test_attributes_that_are_no_numbers(op, name, value):
    attributes = {"size": 3} if op == "LRN" else {}
    made = model([node(op, "x", **attributes, **{name: float(value)})])
    with pytest.raises(ModelError, match=rf"y_{op}_x.*its {name} is -?(nan|inf); a finite number"):
        from_model(made)


@pytest.mark.parametrize("ends", [(np.nan, 1), (0, np.nan), (np.inf, 1), (0, -np.inf)])
def test_clip_bounds_that_are_no_numbers(ends):
    low, high = map(np.float32, ends)
    made = model([node("Clip", "x low high")], low=low, high=high)
    with pytest.raises(ModelError, match=r"Clip.*its (low|high) is -?(nan|inf)"):
        from_model(made)


@pytest.mark.parametrize("ends", [(-np.inf, np.inf), (-3.4028235e38, 3.4028235e38)])
def test_clip_of_no_bounds(ends):
    low, high = map(np.float32, ends)
    made = model([node("Clip", "x low high")], low=low, high=high)
    np.testing.assert_array_equal(
        *evaluate(optimise(from_model(made), TARGETS[0]), feeds()).values(), feeds()["x"]
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("constant", ["w", "b"])
def test_weights_that_are_no_numbers(constant, value):
    spoilt = CONSTANTS[constant].copy()
    spoilt.flat[0] = value
    made = model([node("Conv", "x w b")], **{**CONSTANTS, constant: spoilt})
    with pytest.raises(ModelError, match=rf"its constant '{constant}' holds NaN or infinities"):
        from_model(made)


@pytest.mark.parametrize(("variance", "scale"), [(-1.0, 1.0), (np.nan, 1.0), (1.0, np.inf)])
def test_normalisation_by_no_number(variance, scale):
    numbers = {"v": np.full(4, variance, np.float32), "g": np.full(4, scale, np.float32)}
    zeros = np.zeros(4, np.float32)
    made = model([node("BatchNormalization", "x g m m v")], m=zeros, **numbers)
    with pytest.raises(ModelError, match="a factor or an offset that is NaN or infinite"):
        from_model(made)


@pytest.mark.parametrize("op", ["Add", "Mul", "Min", "Max"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_constants_of_elementwise_operators_agree(op, value):
    spoilt = np.float32([1, value, -2, 3]).reshape(4, 1, 1)
    made = model([node("Conv", "x w4"), node(op, "y_Conv_x_w4 c")],
                 w4=np.ones((4, 4, 1, 1), np.float32), c=spoilt)  # fmt: skip
    (expected,) = run_in_memory(made, feeds()).values()
    for target in TARGETS:
        with np.errstate(invalid="ignore"):
            (y,) = evaluate(optimise(from_model(made), target), feeds()).values()
        np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -1.0])
def test_scales_that_are_no_scales(value):
    made = model([node("QuantizeLinear", "x s z")], s=np.float32(value), z=np.int8(0))
    with pytest.raises(ModelError, match="a scale that is not a positive number"):
        from_model(made)
