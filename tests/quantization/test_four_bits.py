"""Networks of 4-bit layers: made, compiled for the CPU and run, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx import helper, numpy_helper
from onnx_models.networks import four_bit_resnet, resnet_path
from onnx_models.oracle import output_step, random_feeds, run_onnxruntime

from autoq import Session, compile
from autoq.cli import main
from autoq.errors import InputError, ModelError
from autoq.frontend import from_model
from autoq.graph import Layer, evaluate, optimise
from autoq.models import resnet
from autoq.quantization.four_bits import holds_four_bits, to_four_bits
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.target import parse_target

SHAPE = (1, 4, 6, 5)
OUTPUT = "layer2.0.relu/output_DequantizeLinear_Output"
NUMBERS = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}


def test_four_bit_resnet_of_signed_values_agrees_with_onnxruntime(tmp_path):
    """One of unsigned values is compiled below."""
    made = four_bit_resnet(18, activation="int8")
    path = tmp_path / "resnet.onnx"
    onnx.save(made, path)
    feeds = random_feeds(path)
    expected = run_onnxruntime(path, feeds)["output"]
    result = evaluate(optimise(from_model(made), parse_target("cuda")), feeds)["output"]
    assert len(np.unique(expected)) > 50
    assert np.abs(result - expected).max() <= 1.001 * output_step(path)["output"]


@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_four_bit_resnet50_is_one_kernel_an_operator(target):
    graph = optimise(from_model(four_bit_resnet(50)), parse_target(target))
    counts: dict[type, int] = {}
    for node in graph.nodes:
        counts[type(node.workload)] = counts.get(type(node.workload), 0) + 1
    assert counts == {Quantize: 1, Conv2d: 53, Pool2d: 2, Gemm: 1, Dequantize: 1}
    inner = [n for n in graph.nodes if isinstance(n, Layer) and n.weight_values == "int4"]
    assert len(inner) == 52
    for node in inner:
        tensors = [graph.tensors[name] for name in (*node.inputs, node.output)]
        assert all(tensor.value_dtype in NUMBERS for tensor in tensors)


def test_compile_for_the_cpu_says_that_values_take_a_byte(tmp_path):
    """Of a network that ends behind its first three blocks."""
    path = tmp_path / "resnet.onnx"
    made = four_bit_resnet(18, image=32)
    output = helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.FLOAT, None)
    made.graph.output[0].CopyFrom(output)
    onnx.save(made, path)
    report = compile(path, target="cpu", output=tmp_path / "model.tar")
    assert report.packed == () and not report.unquantised
    assert len(report.widened) == 10 and "layer1.0.conv1" in report.widened[2]
    session = Session(tmp_path / "model.tar")
    feeds = random_feeds(path)
    (got,) = session.run(None, feeds)
    expected = run_onnxruntime(path, feeds)[OUTPUT]
    assert np.abs(got - expected).max() <= 1.001 * output_step(path)[OUTPUT]


def test_ends_stay_in_eight_bits_and_biases_keep_their_values():
    eight = onnx.load(resnet_path(18, "QDQ", 32))
    four = to_four_bits(eight)
    assert holds_four_bits(four) and not holds_four_bits(eight)
    old, new = (
        {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
        for made in (eight, four)
    )
    for name in ("input", "avgpool/output", "output", "conv1.weight", "fc.weight"):
        assert new[f"{name}_zero_point"].dtype == old[f"{name}_zero_point"].dtype
    assert new["layer1.0.conv1.relu/output_zero_point"].dtype == ml_dtypes.uint4
    weights = new["layer1.0.conv1.weight_quantized"]
    assert weights.dtype == ml_dtypes.int4
    assert set(np.unique(weights.astype(int))) == set(range(-7, 8))
    for layer in ("layer1.0.conv1", "layer4.1.conv2"):
        steps = new[f"{layer}.bias_quantized_scale"]
        before = old[f"{layer}.bias_quantized"] * old[f"{layer}.bias_quantized_scale"]
        after = new[f"{layer}.bias_quantized"] * steps
        assert np.all(np.abs(after - before) <= 0.5001 * steps)


def test_a_model_without_inner_products_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no product between quantised ones; give an int8 QDQ"):
        to_four_bits(resnet(18, image=32))


@pytest.fixture(scope="module", params=NUMBERS)
def four_bit_ports(request, tmp_path_factory) -> tuple[str, Session, Path]:
    """A maximum of 4-bit numbers from `x` to `y`, compiled for the CPU."""
    dtype = request.param
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(NUMBERS[dtype]))
    scheme = {"s": np.float32(0.25), "z": np.array(3, NUMBERS[dtype])}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
            helper.make_node("MaxPool", ["d"], ["m"], kernel_shape=[2, 2]),
            helper.make_node("QuantizeLinear", ["m", "s", "z"], ["y"]),
        ],
        "ports",
        [value("x", kind, SHAPE)],
        [value("y", kind, (1, 4, 5, 4))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in scheme.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path_factory.mktemp("ports") / "ports.tar"
    onnx.save(made, path.with_suffix(".onnx"))
    compile(path.with_suffix(".onnx"), target="cpu", output=path)
    return dtype, Session(path), path


def numbers(dtype: str) -> np.ndarray:
    limits = ml_dtypes.iinfo(dtype)
    values = np.random.default_rng(3).integers(limits.min, limits.max + 1, SHAPE)
    return values.astype(NUMBERS[dtype])


def maxima(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.int32)
    corners = (x[..., :-1, :-1], x[..., 1:, :-1], x[..., :-1, 1:], x[..., 1:, 1:])
    return np.maximum.reduce(corners)


def test_four_bit_arrays_go_in_and_come_out(four_bit_ports):
    dtype, session, _ = four_bit_ports
    (argument,), (result,) = session.get_inputs(), session.get_outputs()
    assert (argument.dtype, result.dtype) == (dtype, dtype) and argument.shape == SHAPE
    x = numbers(dtype)
    (y,) = session.run(None, {"x": x})
    assert y.dtype == NUMBERS[dtype]
    np.testing.assert_array_equal(y.astype(np.int32), maxima(x))
    buffer = session.buffer("x")
    assert str(buffer.dtype) == {"int4": "int8", "uint4": "uint8"}[dtype]
    buffer[:] = 0
    (y,) = session.run(None, {"x": buffer})
    assert not y.astype(np.int32).any()


def test_other_dtypes_are_refused_with_advice(four_bit_ports):
    dtype, session, _ = four_bit_ports
    pattern = rf"input 'x': expected {dtype} .*found \w*int8 .*numpy array of ml_dtypes\.{dtype}$"
    held = np.zeros(SHAPE, session.buffer("x").dtype)
    for feed in (held, tvm_ffi.from_dlpack(held)):
        with pytest.raises(InputError, match=pattern):
            session.run(None, {"x": feed})


def test_archives_hold_four_bit_numbers_in_bytes(four_bit_ports, tmp_path, monkeypatch, capsys):
    dtype, session, artifact = four_bit_ports
    monkeypatch.chdir(tmp_path)
    held, x = session.buffer("x").dtype, numbers(dtype)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["autoq", "run", str(artifact), *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().err

    np.savez("in.npz", x=x.astype(held))
    assert run("--inputs", "in.npz", "--outputs", "out.npz") == (0, "")
    with np.load("out.npz") as archive:
        assert archive["y"].dtype == held
        np.testing.assert_array_equal(archive["y"], maxima(x))
    for mode in ("random", "ones", "zeros"):
        assert run("--fill-mode", mode)[0] == 0
    limits = ml_dtypes.iinfo(dtype)
    for wrong in (np.full(SHAPE, limits.max + 1, held), x.astype(np.float32)):
        np.savez("in.npz", x=wrong)
        code, message = run("--inputs", "in.npz")
        assert code == 2 and f"numbers from {limits.min} to {limits.max}" in message
        assert len(message.splitlines()) == 1
