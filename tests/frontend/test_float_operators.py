"""Float32 operators: imported, optimised and evaluated they agree with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.integers import MICROSOFT, with_known_output
from onnx_models.makers import model, node
from onnx_models.operators import FLOAT_CASES
from onnx_models.oracle import random_feeds, run_onnxruntime
from qdq.oracle import run_in_memory

import autoq
from autoq.frontend import load
from autoq.frontend.registry import OPERATORS
from autoq.graph import evaluate, optimise
from autoq.templates.target import parse_target


@pytest.fixture(params=["cuda", "cpu"])
def target(request):
    return parse_target(request.param)


@pytest.mark.parametrize("name", FLOAT_CASES)
def test_agrees_with_onnxruntime(name, tmp_path):
    path = tmp_path / "case.onnx"
    onnx.save(FLOAT_CASES[name], path)
    feeds = random_feeds(path)
    expected = run_onnxruntime(path, feeds)
    for target in ("cuda", "cpu"):
        results = evaluate(optimise(load(path), parse_target(target)), feeds)
        assert set(results) == set(expected)
        for output, value in expected.items():
            found = results[output]
            assert found.dtype == value.dtype, target
            np.testing.assert_allclose(found, value, 1e-4, 1e-5, err_msg=target, strict=True)


def test_gelu_of_onnxruntime(target, tmp_path):
    made = model([node("Gelu", "x", domain=MICROSOFT)], {"x": ((3, 50), "float32")})
    path = tmp_path / "case.onnx"
    onnx.save(with_known_output(made, (3, 50), "float32"), path)
    feeds = random_feeds(path)
    results = evaluate(optimise(load(path), target), feeds)
    expected = run_onnxruntime(path, feeds)["y"]
    np.testing.assert_allclose(results["y"], expected, rtol=1e-4, atol=1e-5)


def test_a_cast_to_float16_rounds(tmp_path):
    nodes = [
        node("Cast", "x", "half", to=onnx.TensorProto.FLOAT16),
        node("Cast", "half", "back", to=onnx.TensorProto.FLOAT),
        node("Sub", "x back", "y"),
    ]
    made = with_known_output(model(nodes, {"x": ((4, 50), "float32")}), (4, 50), "float32")
    x = np.random.default_rng(2).normal(0, 50, (4, 50)).astype(np.float32)
    x[0, :5] = [70000, -70000, np.nan, 1e-9, 65519]
    expected = run_in_memory(made, {"x": x})["y"]
    assert np.abs(expected[1:]).max() > 0.01
    onnx.save(made, tmp_path / "cast.onnx")
    autoq.compile(tmp_path / "cast.onnx", target="cpu", output=tmp_path / "cast.tar")
    (found,) = autoq.Session(tmp_path / "cast.tar").run(None, {"x": x})
    np.testing.assert_array_equal(found, expected)


def test_every_importer_of_the_default_domain_has_a_case():
    used = {n.op_type for m in FLOAT_CASES.values() for n in m.graph.node}
    integer = {"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}
    integer |= {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
    assert {op for domain, op in OPERATORS if not domain} - integer <= used
