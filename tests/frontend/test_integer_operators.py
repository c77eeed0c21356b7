"""Quantised operators in every notation agree with onnxruntime to one quantisation step."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_models.caches import CACHES
from onnx_models.integers import INTEGER_CASES, qlinear_unary, with_known_output
from onnx_models.operators import FLOAT_CASES
from onnx_models.oracle import output_step, random_feeds, run_onnxruntime

from autoq.errors import ModelError
from autoq.frontend import load
from autoq.frontend.registry import OPERATORS
from autoq.graph import Layer, evaluate, optimise
from autoq.quantization.quantize import quantize
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

ONNXRUNTIME = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])

QUANTISED = (
    "conv", "conv_stride_pads", "conv_groups", "conv_depthwise", "max_pool", "max_pool_ceil",
    "average_pool", "average_pool_include", "average_pool_ceil_include", "global_average",
    "concat", "flatten_gemm", "gemm", "matmul", "batch_norm_folded", "residual", "softmax",
    "squeeze_excite", "shuffle", "LeakyRelu", "Sigmoid", "pad", "clip_inputs", "sum",
)  # fmt: skip


@pytest.fixture(params=["cuda", "cpu"])
def target(request):
    return parse_target(request.param)


def check(path, target, share: float = 0.02) -> None:
    """One step at most, and none for all but a `share` of the elements."""
    feeds = random_feeds(path)
    expected = run_onnxruntime(path, feeds)
    steps = output_step(path)
    results = evaluate(optimise(load(path), target), feeds)
    for name, value in expected.items():
        result = results[name]
        assert result.dtype == value.dtype and result.shape == value.shape
        assert len(np.unique(value)) > 4
        difference = np.abs(result.astype(np.float64) - value)
        # Outputs that nobody quantised may still carry one step of an inner tensor.
        step = steps.get(name, 0.02 * np.abs(value).max())
        assert difference.max() <= 1.001 * step
        assert (difference > 0.001 * step).mean() < share


@pytest.mark.parametrize("name", INTEGER_CASES)
def test_integer_model_agrees(name, target, tmp_path):
    path = tmp_path / "case.onnx"
    onnx.save(INTEGER_CASES[name], path)
    # onnxruntime's softmax of integers looks powers up in a table.
    check(path, target, share=0.1 if "Softmax" in name else 0.02)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("conv_integer_asymmetric", "more than 8 bits"), ("conv_integer_unsigned", "")],
)
def test_a_layer_between_integers_says_why_it_computes_in_float32(name, reason, target, tmp_path):
    path = tmp_path / "case.onnx"
    onnx.save(INTEGER_CASES[name], path)
    layers = [node for node in optimise(load(path), target).nodes if isinstance(node, Layer)]
    (layer,) = (layer for layer in layers if isinstance(layer.workload, Conv2d))
    assert (layer.workload.in_dtype == "float32") == bool(reason)
    assert reason in layer.float_reason and bool(reason) == bool(layer.float_reason)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_softmax_of_single_elements_is_one(dtype, target, tmp_path):
    path = tmp_path / "case.onnx"
    zero = 0 if dtype == "uint8" else -128
    made = qlinear_unary("QLinearSoftmax", 1 / 256, zero, dtype, shape=(2, 6, 1, 1), opset=11)
    onnx.save(with_known_output(made, (2, 6, 1, 1), dtype), path)
    feeds = random_feeds(path)
    result = evaluate(optimise(load(path), target), feeds)["y"]
    np.testing.assert_array_equal(result, np.full((2, 6, 1, 1), zero + 255, dtype))
    if ONNXRUNTIME >= (1, 32) or dtype == "int8":  # an overflow before that
        np.testing.assert_array_equal(result, run_onnxruntime(path, feeds)["y"])


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("activation", ["uint8", "int8"])
@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_float_model_agrees(name, activation, form, tmp_path):
    plain, path = tmp_path / "float.onnx", tmp_path / "case.onnx"
    onnx.save(FLOAT_CASES[name], plain)
    quantize(plain, None, path, True, activation, form)
    check(path, parse_target("cuda"))


DYNAMIC = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"}
"""Their cases are in `test_dynamic_quantisation`."""


def test_every_integer_importer_has_a_case():
    used = {n.op_type for m in INTEGER_CASES.values() for n in m.graph.node}
    floats = {n.op_type for m in FLOAT_CASES.values() for n in m.graph.node}
    caches = {n.op_type for m in CACHES.values() for n in m.graph.node}
    assert {op for _, op in OPERATORS} <= used | floats | DYNAMIC | caches


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf])
def test_a_scale_that_is_no_positive_number_is_refused(scale, tmp_path):
    made = onnx.ModelProto()
    made.CopyFrom(INTEGER_CASES["conv_u8"])
    for tensor in made.graph.initializer:
        if tensor.name == "xs":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.float32(scale), "xs"))
    onnx.save(made, tmp_path / "case.onnx")
    with pytest.raises(ModelError, match=r"QLinearConv_y.*scale that is not a positive number"):
        load(tmp_path / "case.onnx")


QOPERATORS = {
    name: made
    for name, made in INTEGER_CASES.items()
    if any(node.op_type.startswith(("QLinear", "QGemm")) for node in made.graph.node)
}


@pytest.mark.parametrize("name", QOPERATORS)
def test_a_scale_whose_numbers_overflow_is_refused(name, tmp_path):
    read = {i for node in QOPERATORS[name].graph.node for i in node.input}
    scales = [
        tensor.name
        for tensor in QOPERATORS[name].graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and tensor.name in read
    ]
    assert scales
    for scale in scales:
        made = onnx.ModelProto()
        made.CopyFrom(QOPERATORS[name])
        for tensor in made.graph.initializer:
            if tensor.name == scale:
                value = np.full(tuple(tensor.dims), 3.4e38, np.float32)
                tensor.CopyFrom(onnx.numpy_helper.from_array(value, scale))
        onnx.save(made, tmp_path / "case.onnx")
        with pytest.raises(ModelError, match=r"scale 3\.4e\+38; at most 1\.1e\+12 is"):
            load(tmp_path / "case.onnx")
