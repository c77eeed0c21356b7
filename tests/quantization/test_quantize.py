"""Quantising a model: options, calibration data, and what it says when they do not fit."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node, normal
from onnx_models.networks import resnet_path
from onnx_models.oracle import output_step, run_onnxruntime

from autoq.errors import InputError, ModelError
from autoq.frontend import load
from autoq.graph import evaluate, optimise
from autoq.models import resnet
from autoq.quantization.quantize import quantize
from autoq.templates.target import parse_target


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """A ResNet-18."""
    path = tmp_path_factory.mktemp("models") / "deep.onnx"
    onnx.save(resnet(18, image=32, classes=10), path)
    return path


@pytest.fixture
def plain(tmp_path):
    """Two convolutions and a product."""
    nodes = [
        node("Conv", "input a", "p", strides=[2, 2]), node("Relu", "p", "q"),
        node("Conv", "q b", "r"), node("GlobalAveragePool", "r", "s"), node("Flatten", "s", "t"),
        node("MatMul", "t c", "y"),
    ]  # fmt: skip
    weights = {"a": normal(16, 3, 3, 3), "b": normal(24, 16, 3, 3), "c": normal(24, 10)}
    path = tmp_path / "plain.onnx"
    onnx.save(model(nodes, {"input": ((1, 3, 32, 32), "float32")}, weights), path)
    return path


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3, 32, 32), np.float32)


@pytest.mark.parametrize(("form", "activation"), [("QDQ", "uint8"), ("QOperator", "int8")])
def test_outputs_stay_near_the_float_model(deep, form, activation, tmp_path):
    np.savez(tmp_path / "images.npz", input=images(6))
    output = tmp_path / "quantised.onnx"
    quantize(deep, tmp_path / "images.npz", output, True, activation, form)
    feeds = {"input": images(1, seed=5)}
    exact = run_onnxruntime(deep, feeds)["output"]
    quantised = run_onnxruntime(output, feeds)["output"]
    assert 0 < np.abs(exact - quantised).max() < 0.15 * np.ptp(exact)
    types = {node.op_type for node in onnx.load(output).graph.node}
    assert ("QLinearConv" in types) == (form == "QOperator")


def test_four_bit_models_are_imported_as_onnxruntime_runs_them(deep, tmp_path):
    path = tmp_path / "quantised.onnx"
    quantize(deep, {"input": images(4)}, path, activation="uint4", weights="int4")
    kinds = {tensor.data_type for tensor in onnx.load(path).graph.initializer}
    assert onnx.TensorProto.INT4 in kinds
    feeds = {"input": images(1, seed=5)}
    expected = run_onnxruntime(path, feeds)["output"]
    graph = optimise(load(path), parse_target("cpu"))
    assert sum(getattr(node, "weight_values", "") == "int4" for node in graph.nodes) == 21
    assert len(np.unique(expected)) > 3
    difference = np.abs(evaluate(graph, feeds)["output"] - expected)
    assert difference.max() <= 1.001 * output_step(path)["output"]


def test_calibration_sets_the_ranges(plain, tmp_path):
    outputs = [tmp_path / "one.onnx", tmp_path / "ten.onnx"]
    for factor, output in zip((1, 10), outputs, strict=True):
        quantize(plain, {"input": factor * images(2)}, output)
    scales = []
    for output in outputs:
        tensors = {t.name: t for t in onnx.load(output).graph.initializer}
        scales.append(float(onnx.numpy_helper.to_array(tensors["input_scale"])))
    assert scales[1] == pytest.approx(10 * scales[0], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"activation": "int2"}, "activation 'int2'; choose uint8 or int8 or uint4 or int4"),
        ({"weights": "int2"}, "weights 'int2'; choose int8 or int4"),
        (
            {"weights": "int4", "format": "QOperator"},
            "format 'QOperator' has no 4-bit tensors; choose QDQ",
        ),
        ({"format": "qdq"}, "format 'qdq'; choose QDQ or QOperator"),
        ({"calibration": {"x": images(1)}}, "no array for input 'input'; it holds x"),
        ({"calibration": {"input": images(1) * np.float32("nan")}}, "'input' has NaN or infinite"),
        ({"calibration": {"input": images(1).astype("U4")}}, "'input' is of <U4; numbers are"),
        ({"calibration": {"input": images(1)[:, :2]}}, r"\[1, 2, 32, 32\]; the model takes"),
    ],
)
def test_wrong_options(plain, options, pattern, tmp_path):
    options = {"calibration": None, "output": tmp_path / "out.onnx", **options}
    with pytest.raises(InputError, match=pattern):
        quantize(plain, **options)
    assert not (tmp_path / "out.onnx").exists()


def test_calibration_file_that_is_none(plain, tmp_path):
    with pytest.raises(InputError, match=r"images\.npz: cannot be read \(No such file"):
        quantize(plain, tmp_path / "images.npz", tmp_path / "out.onnx")
    (tmp_path / "images.npz").write_bytes(b"not an archive")
    with pytest.raises(InputError, match=r"images\.npz: not an \.npz file"):
        quantize(plain, tmp_path / "images.npz", tmp_path / "out.onnx")


def test_output_folder_that_does_not_exist(plain, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        quantize(plain, None, tmp_path / "no" / "out.onnx")


def test_model_that_cannot_run_leaves_nothing_behind(tmp_path):
    made = resnet(18, image=32)
    made.graph.node[3].input[1] = "nowhere"
    onnx.save(made, tmp_path / "bad.onnx")
    with pytest.raises(ModelError, match=r"bad\.onnx: onnxruntime cannot quantise it"):
        quantize(tmp_path / "bad.onnx", None, tmp_path / "out.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.onnx"]


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_model_that_is_quantised_already(plain, form, tmp_path):
    once = tmp_path / "int8.onnx"
    quantize(plain, None, once, format=form)
    with pytest.raises(ModelError, match=r"int8\.onnx: quantised already \(node '.*' is Quantize"):
        quantize(once, None, tmp_path / "twice.onnx")
    assert not (tmp_path / "twice.onnx").exists()


def test_scales_of_a_run_are_no_scales_to_compile(tmp_path):
    """compile sends such a model here, which must not send it back."""
    path = tmp_path / "dynamic.onnx"
    onnx.save(dynamically_quantised(), path)
    with pytest.raises(ModelError, match=r"only a run knows .*; give the float32 model"):
        quantize(path, None, tmp_path / "new.onnx")


def dynamically_quantised() -> onnx.ModelProto:
    """A product of an activation whose scale follows from its values."""
    names = ["q", "scale", "zero"]
    nodes = [
        onnx.helper.make_node("DynamicQuantizeLinear", ["x"], names, name="quantise"),
        node("MatMulInteger", "q w zero", "sums"),
        node("Cast", "sums", "floats", to=1),
        node("Mul", "floats scale", "y"),
    ]
    weights = {"w": np.ones((16, 8), np.int8)}
    return model(nodes, {"x": ((4, 16), "float32")}, weights)


def test_without_onnxruntime_says_what_to_install(plain, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"pip install 'autoq\[quantize\]'"):
        quantize(plain, None, tmp_path / "out.onnx")


def test_resnet_is_seeded_and_sized():
    assert resnet(18, 32) == resnet(18, 32) != resnet(18, 32, seed=1)
    model = resnet(50, image=64, batch=2)
    onnx.checker.check_model(model, full_check=True)
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 53
    with pytest.raises(InputError, match="depth 20; depths are 18, 34, 50, 101"):
        resnet(20)


def test_resnet_activations_keep_their_range():
    path = resnet_path(50, "float32", image=64)
    output = run_onnxruntime(path, {"input": np.zeros((1, 3, 64, 64), np.float32) + 0.5})
    assert 1 < np.std(output["output"]) < 20
