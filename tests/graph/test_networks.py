"""Whole networks: fused as they should be, and in agreement with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models.networks import light_path, resnet_path
from onnx_models.oracle import output_step, random_feeds, run_onnxruntime

from autoq.frontend import load
from autoq.graph import Fusion, Graph, Layer, evaluate, optimise, workloads
from autoq.quantization.quantize import quantize
from autoq.templates.operators.add import Add
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.target import parse_target


def check(path, graph: Graph) -> None:
    feeds = random_feeds(path)
    expected = run_onnxruntime(path, feeds)
    steps = output_step(path)
    for name, result in evaluate(graph, feeds).items():
        value = expected[name]
        assert len(np.unique(value)) > 5  # a network that says the same always proves nothing
        assert result.dtype == value.dtype and result.shape == value.shape
        if name in steps:
            assert np.abs(result - value).max() <= 1.001 * steps[name]
        else:
            np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-4 * np.abs(value).max())


@pytest.mark.parametrize(
    ("form", "activation", "target"), [("QDQ", "uint8", "cpu"), ("QOperator", "int8", "cuda")]
)
def test_quantised_resnet18(form, activation, target):
    path = resnet_path(18, form, activation=activation)
    graph = optimise(load(path), parse_target(target))
    assert all(isinstance(node, Layer) for node in graph.nodes)
    check(path, graph)


def test_quantised_resnet50():
    # Fewer pixels than 128 x 128 average too little: one flipped rounding moves outputs two steps.
    path = resnet_path(50, "QDQ", image=128)
    graph = optimise(load(path), parse_target("cuda"))
    assert all(isinstance(node, Layer) for node in graph.nodes)
    check(path, graph)


@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_float_resnet(target):
    path = resnet_path(18, "float32")
    graph = optimise(load(path), parse_target(target))
    check(path, graph)
    kinds = [type(n.workload) for n in graph.nodes if isinstance(n, Layer)]
    assert kinds.count(Conv2d) == 20 and Add not in kinds
    assert len(graph.nodes) - len(kinds) == 1  # the input's transposition


def test_resnet50_is_one_kernel_an_operator():
    graph = optimise(load(resnet_path(50, "QDQ")), parse_target("cuda"))
    counts: dict[type, int] = {}
    for node in graph.nodes:
        counts[type(node.workload)] = counts.get(type(node.workload), 0) + 1
    assert counts == {Quantize: 1, Conv2d: 53, Pool2d: 2, Gemm: 1, Dequantize: 1}
    convs = [n.workload for n in graph.nodes if isinstance(n.workload, Conv2d)]
    assert sum(c.epilogue.residual_dtype is not None for c in convs) == 16
    assert all(c.epilogue.out_dtype in ("int8", "uint8") for c in convs)
    assert all(c.c % 16 == 0 for c in convs)
    # ReLU outputs have zero point 0, so that none of the 3x3 layers needs a border of its own.
    assert all(not c.zero_point_border for c in convs if (c.r, c.s) == (3, 3))
    assert {t.shape[-1] for t in graph.tensors.values() if len(t.shape) == 4} > {64, 256}


def test_workloads_count_and_name_their_layers():
    graph = optimise(load(resnet_path(50, "QDQ")), parse_target("cuda"))
    listed = workloads(graph)
    assert sum(count for _, count, _ in listed) == len(graph.nodes)
    assert isinstance(listed[0][0], Quantize)
    conv2 = {names: c for workload, c, names in listed if "layer1.1.conv2" in names}
    assert list(conv2.values()) == [3]
    assert len({workload for workload, _, _ in listed}) == len(listed)


def test_optimise_leaves_its_argument_alone():
    semantic = load(resnet_path(18, "QDQ"))
    before = [(n.op, n.inputs, n.output, sorted(n.attributes)) for n in semantic.nodes]
    zero_points = [str(n.attributes.get("zero_point")) for n in semantic.nodes]
    tensors = dict(semantic.tensors)
    optimise(semantic, parse_target("cpu"))
    assert before == [(n.op, n.inputs, n.output, sorted(n.attributes)) for n in semantic.nodes]
    assert zero_points == [str(n.attributes.get("zero_point")) for n in semantic.nodes]
    assert tensors == semantic.tensors


def test_batch_can_be_given():
    path = resnet_path(18, "QDQ")
    graph = optimise(load(path, {"input": (2, 3, 64, 64)}), parse_target("cuda"))
    single = optimise(load(path), parse_target("cuda"))
    x = np.random.default_rng(0).standard_normal((2, 3, 64, 64), np.float32)
    together = evaluate(graph, {"input": x})["output"]
    for image in range(2):
        alone = evaluate(single, {"input": x[image : image + 1]})["output"]
        np.testing.assert_array_equal(together[image : image + 1], alone)


@pytest.mark.parametrize(
    ("name", "form", "logits"),
    [
        ("shufflenet", "QDQ", False), ("shufflenet", "QOperator", False),
        ("squeezenet", "QDQ", False), ("squeezenet", "QOperator", True),
    ],
)  # fmt: skip
def test_light_model(name, form, logits):
    path = light_path(name, form, logits=logits)
    check(path, optimise(load(path), parse_target("cuda")))


def test_batch_normalisation_is_folded_before_quantisation(tmp_path):
    path = tmp_path / "fused.onnx"
    quantize(light_path("shufflenet", "float32"), None, path)
    graph = optimise(load(path), parse_target("cuda"))
    check(path, graph)
    layers = [n for n in graph.nodes if isinstance(n, Layer)]
    assert sum(isinstance(n.workload, Conv2d) for n in layers) == 49
    assert {n.kind for n in graph.nodes if isinstance(n, Fusion)} <= {
        "ChannelShuffle", "dequantize+Softmax+quantize+dequantize", "dequantize+quantize",
        "dequantize+Relu+quantize", "dequantize+Softmax+quantize",
    }  # fmt: skip


def test_light_model_with_one_scale_a_tensor_keeps_its_old_opset():
    path = light_path("squeezenet", "QDQ", per_channel=False)
    check(path, optimise(load(path), parse_target("cpu")))
