"""Models whose activations are quantised as they come, as onnxruntime's quantize_dynamic writes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node, normal
from onnxruntime.quantization import QuantType, quantize_dynamic
from qdq.oracle import run_in_memory

import autoq
from autoq import models
from autoq.errors import ModelError
from autoq.frontend import from_model
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.graph.lowering.fusions import kernel_family
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

TARGETS = [parse_target("cuda:sm_90a"), parse_target("cpu")]
DYNAMIC = node("DynamicQuantizeLinear", "x", "q s z")
SUMS = [DYNAMIC, node("MatMulInteger", "q w z", "sums")]
SCALED = [*SUMS, node("Cast", "sums", "f", to=1), node("Mul", "s c", "t"), node("Mul", "f t")]


def assert_equal(made: onnx.ModelProto, feeds: dict[str, np.ndarray], relative: float = 0) -> list:
    """Outputs are onnxruntime's: integers to the bit. Returns the layers for the last target."""
    expected = run_in_memory(made, feeds)
    for target in TARGETS:
        graph = optimise(from_model(made), target)
        found = evaluate(graph, feeds)
        for name, value in expected.items():
            assert found[name].dtype == value.dtype and found[name].shape == value.shape
            allowed = relative * np.abs(value).max() if value.dtype == np.float32 else 0
            assert np.abs(found[name].astype(np.float64) - value).max() <= allowed
    return [item.workload for item in graph.nodes if isinstance(item, Layer)]


@pytest.mark.parametrize("shape", [(1,), (2, 3), (5000,), (40, 300), (3, 7, 4099)], ids=str)
def test_integers_scales_and_zero_points_are_onnxruntimes(shape):
    made = model([node("DynamicQuantizeLinear", "x", "y s z")], {"x": (shape, "float32")}, {},
                 ("y", "s", "z"))  # fmt: skip
    x = normal(*shape)
    ties = np.resize(np.float32([0, 255, 0.5, 1.5, 2.5, 101.5, -0.5]), shape)
    for values in (x, np.abs(x) + 1, -np.abs(x) - 2, 0 * x, ties, 1e-30 * x):
        assert_equal(made, {"x": values})


def quantised(made: onnx.ModelProto, folder, **options: object) -> onnx.ModelProto:
    """quantize_dynamic's form of a model.

    Seven bits of weights, since onnxruntime's sums saturate on CPUs without VNNI.
    """
    onnx.save(made, folder / "floats.onnx")
    options = {"reduce_range": True} | options
    quantize_dynamic(folder / "floats.onnx", folder / "dynamic.onnx", **options)
    return onnx.load(folder / "dynamic.onnx")


@pytest.mark.parametrize(
    "options", [{}, {"per_channel": True}, {"weight_type": QuantType.QUInt8}], ids=str
)
def test_a_perceptron_is_onnxruntimes_to_the_bit(options, tmp_path):
    nodes = [node("MatMul", "x w", "a"), node("Add", "a b", "h"), node("Relu", "h", "g"),
             node("MatMul", "g v")]  # fmt: skip
    constants = {"w": normal(40, 48), "b": normal(48), "v": normal(48, 21)}
    made = quantised(model(nodes, {"x": ((2, 9, 40), "float32")}, constants), tmp_path, **options)
    layers = assert_equal(made, {"x": normal(2, 9, 40)})
    assert [type(layer) for layer in layers].count(Gemm) == 2
    if "weight_type" not in options:  # zero points but the middle need nine bits
        assert all(w.weight_dtype == "int8" for w in layers if isinstance(w, Gemm))


def test_a_layer_of_bert_runs_on_the_cpu(tmp_path):
    made = quantised(models.bert(length=8, width=32, heads=2), tmp_path)
    assert sum(item.op_type == "MatMulInteger" for item in made.graph.node) == 6
    fusions = [n for n in optimise(from_model(made), TARGETS[0]).nodes if isinstance(n, Fusion)]
    left = [n.kind for n in fusions if kernel_family(n, TARGETS[0]) == "tvm"]
    assert all("MatMul" in kind for kind in left)  # products of two float32 activations
    feeds = {"input": normal(1, 8, 32)}
    (expected,) = run_in_memory(made, feeds).values()
    autoq.compile(tmp_path / "dynamic.onnx", target="cpu", output=tmp_path / "bert.autoq")
    (found,) = autoq.Session(tmp_path / "bert.autoq").run(None, feeds)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("outputs", [("y",), ("sums",), ("y", "sums")], ids=str)
def test_sums_beyond_the_whole_numbers_of_float32_are_exact(outputs):
    """Those of one sign reach 2^24 in the first column."""
    weight = np.random.default_rng(0).choice(np.int8([-64, 63]), (1100, 8))
    feeds = {"x": normal(2, 3, 1100)}
    for first in (63, weight[:, 0]):
        weight[:, 0] = first
        made = model(SCALED, {"x": ((2, 3, 1100), "float32")},
                     {"w": weight, "c": np.float32(0.01)}, outputs)  # fmt: skip
        assert_equal(made, feeds)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("op", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_onnxruntimes_own_products(op, bias, zero_points):
    constants = {"w": np.random.default_rng(0).integers(-60, 60, (24, 5)).astype(np.int8),
                 "c": np.abs(normal(5)) + 0.1}  # fmt: skip
    constants |= {"b": normal(5)} if bias else {}
    constants |= {"n": np.int8([1, 0, -3, 2, 0])} if zero_points else {}
    inner = f"{'n' if zero_points else '-'} {'b' if bias else '-'}"
    if op == "DynamicQuantizeMatMul":
        nodes = [node(op, f"x w c {inner}", domain="com.microsoft")]
    else:
        nodes = [DYNAMIC, node(op, f"q w s c z {inner}", domain="com.microsoft")]
    made = model(nodes, {"x": ((3, 7, 24), "float32")}, constants)
    made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    assert_equal(made, {"x": normal(3, 7, 24)}, 1e-6)


@pytest.mark.parametrize("windows", [{}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}])
def test_a_convolution_has_the_zero_point_of_the_run_as_its_border(windows):
    weight = np.random.default_rng(0).integers(0, 255, (5, 3, 3, 2)).astype(np.uint8)
    constants = {"w": weight, "n": np.uint8(90), "c": np.float32(0.01)}
    nodes = [DYNAMIC, node("ConvInteger", "q w z n", "sums", **windows),
             node("Cast", "sums", "f", to=onnx.TensorProto.FLOAT), node("Mul", "s c", "b"),
             node("Mul", "f b")]  # fmt: skip
    made = model(nodes, {"x": ((2, 3, 8, 9), "float32")}, constants)
    assert_equal(made, {"x": normal(2, 3, 8, 9) + 1})


@pytest.mark.parametrize(
    ("nodes", "inputs", "constants", "message"),
    [
        ([DYNAMIC, node("MatMulInteger", "q q2 z")], {"q2": ((4, 4), "uint8")}, {},
         "a zero point that a run gives beside two activations"),
        ([DYNAMIC, node("MatMulInteger", "q w z")], {}, {"w": np.ones((2, 4, 4), np.int8)},
         "weights that are not one matrix"),
        ([DYNAMIC, node("MatMulInteger", "q w many")], {"many": ((4,), "uint8")},
         {"w": np.ones((4, 4), np.int8)}, r"a_zero_point uint8\[4\]; one number"),
    ],
    ids=["two activations", "batch", "rows"],
)  # fmt: skip
def test_what_is_refused(nodes, inputs, constants, message):
    made = model(nodes, {"x": ((4, 4), "float32"), **inputs}, constants)
    with pytest.raises(ModelError, match=message):
        from_model(made)
