"""INT4 and UINT4 tensors: their numbers are onnxruntime's, however they are stored."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models.four_bits import DTYPES, FOUR_BIT_CASES, OPSET, conv, integer_ports, numbers
from onnx_models.makers import model, node
from onnx_models.operators import IMAGE
from onnx_models.oracle import output_step, random_feeds, run_onnxruntime
from refusals import assert_refused, saved

from autoq.errors import InputError
from autoq.frontend import from_model, load
from autoq.graph import Layer, evaluate, optimise
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target


@pytest.fixture(params=["cuda", "cpu"])
def target(request):
    return parse_target(request.param)


@pytest.mark.parametrize("name", FOUR_BIT_CASES)
def test_model_agrees_with_onnxruntime(name, target, tmp_path):
    kinds = (TensorProto.INT4, TensorProto.UINT4)
    assert any(tensor.data_type in kinds for tensor in FOUR_BIT_CASES[name].graph.initializer)
    path = tmp_path / "case.onnx"
    onnx.save(FOUR_BIT_CASES[name], path)
    feeds = random_feeds(path)
    expected = run_onnxruntime(path, feeds)["y"]
    result = evaluate(optimise(load(path), target), feeds)["y"]
    assert result.dtype == expected.dtype and result.shape == expected.shape
    assert len(np.unique(expected)) > 5
    difference = np.abs(result - expected)
    step = output_step(path).get("y")
    if step is None:
        assert difference.max() <= 1e-4 * np.abs(expected).max()
    else:
        assert difference.max() <= 1.001 * step
        assert (difference > 0.001 * step).mean() < 0.01


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_and_outputs_of_four_bits(dtype, target, tmp_path):
    path = tmp_path / "floats.onnx"
    onnx.save(integer_ports(dtype, floats=True), path)
    x = numbers(dtype, *IMAGE)
    expected = run_onnxruntime(path, {"x": x.astype(np.float32)})
    graph = optimise(from_model(integer_ports(dtype, floats=False)), target)
    results = evaluate(graph, {"x": x})
    for name in "yzt":
        assert results[name].dtype == DTYPES[dtype] and len(np.unique(expected[name])) > 5
        np.testing.assert_array_equal(results[name].astype(np.float32), expected[name])
    with pytest.raises(InputError, match=rf"int8\[2, 6, 9, 10\]; the model takes {dtype}"):
        evaluate(graph, {"x": x.astype(np.int8)})


def test_a_layer_keeps_its_products_in_integers(target):
    """Of every case with a Conv: 4-bit numbers never turn a kernel into a float32 one."""
    for made in FOUR_BIT_CASES.values():
        for layer in optimise(from_model(made), target).nodes:
            if isinstance(layer, Layer) and isinstance(layer.workload, Conv2d):
                assert layer.workload.in_dtype != "float32" and not layer.float_reason
                assert layer.constants["weight"].dtype == np.int8


def test_convolution_and_requantisation_are_one_kernel(target):
    graph = optimise(from_model(FOUR_BIT_CASES["residual_uint4"]), target)
    kinds = [type(node.workload).__name__ for node in graph.nodes]
    assert kinds == ["Quantize", "Conv2d", "Dequantize"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("raw", [True, False])
def test_packed_initializers_of_an_odd_size(dtype, raw):
    values = numbers(dtype, 3, 3, 1, 1)
    nibbles = np.append(values.reshape(-1).astype(np.int8) & 15, 0).astype(np.uint8)
    packed = (nibbles[0::2] | nibbles[1::2] << 4).tobytes()
    kind = helper.np_dtype_to_tensor_dtype(DTYPES[dtype])
    tensor = TensorProto(name="k", data_type=kind, dims=values.shape)
    if raw:
        tensor.raw_data = packed
    else:
        tensor.int32_data.extend(packed)
    made = model([node("DequantizeLinear", "k s")], {}, {"s": np.float32(0.5)}, opset=OPSET)
    made.graph.initializer.append(tensor)
    result = evaluate(optimise(from_model(made), parse_target("cpu")), {})["y"]
    np.testing.assert_array_equal(result, values.astype(np.float32) * np.float32(0.5))


def test_weights_that_the_model_quantises_itself():
    """QuantizeLinear of a float32 constant is computed at import and stays an integer weight."""
    made = conv("uint4", "int4", (4, 0))
    (packed,) = (tensor for tensor in made.graph.initializer if tensor.name == "wq")
    weights = onnx.numpy_helper.to_array(packed)
    scales = {t.name: onnx.numpy_helper.to_array(t) for t in made.graph.initializer}["ws"]
    real = weights.astype(np.float32) * scales.reshape(-1, 1, 1, 1)
    packed.CopyFrom(onnx.numpy_helper.from_array(real, "real"))
    made.graph.node.insert(0, node("QuantizeLinear", "real ws wz", "wq", axis=0))
    graph = optimise(from_model(made), parse_target("cpu"))
    (layer,) = (n for n in graph.nodes if isinstance(n.workload, Conv2d))
    assert layer.weight_values == "int4"
    expected = weights.astype(np.int8).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(layer.constants["weight"][..., :6], expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_from_four_bits(dtype, target):
    nodes = [node("Cast", "x", to=TensorProto.FLOAT)]
    x = numbers(dtype, *IMAGE)
    graph = optimise(from_model(model(nodes, {"x": (IMAGE, dtype)}, opset=OPSET)), target)
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], x.astype(np.float32))


def test_casts_to_four_bits_are_refused(tmp_path):
    made = model([node("Cast", "x", to=TensorProto.INT4)], {"x": (IMAGE, "float32")}, opset=OPSET)
    assert_refused(saved(made, tmp_path), r"node 'Cast_y' .*float32 to int4; casts from")


def test_blocked_scales_that_do_not_fit_are_refused(tmp_path):
    constants = {"w": numbers("int4", 8, 6), "s": np.ones((4, 6), np.float32)}
    blocked = node("DequantizeLinear", "w s", axis=0, block_size=3)
    path = saved(model([blocked], {}, constants, opset=OPSET), tmp_path)
    assert_refused(path, r"'DequantizeLinear_y' .*scale \[4, 6\] .*for blocks of 3 along axis 0")
