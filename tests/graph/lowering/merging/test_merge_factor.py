"""ConvNeXt's products scale their channels and add what their block read."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from qdq.matrices import layer_scale, rows
from qdq.oracle import Oracle, normal_feeds, run_in_memory
from qdq.random_graphs import binary, layer
from qdq.writer import GraphWriter

from autoq import models
from autoq.frontend import from_model, load
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.graph.lowering.merging.factor import merge_factor
from autoq.quantization.quantize import quantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
BLOCKS = 5


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A ConvNeXt of five blocks, quantised as onnxruntime does."""
    folder = tmp_path_factory.mktemp("convnext")
    made = models.convnext(depths=(2, 1, 1, 1), widths=(16, 32, 48, 64), image=64, batch=2)
    onnx.save(made, folder / "float.onnx")
    images = np.random.default_rng(0).standard_normal((4, 3, 64, 64), np.float32)
    quantize(folder / "float.onnx", {"input": images}, folder / "int8.onnx")
    return folder / "int8.onnx"


def factored(graph) -> list[Layer]:
    layers = [node for node in graph.nodes if isinstance(node, Layer)]
    return [layer for layer in layers if isinstance(layer.workload, Gemm)
            and layer.workload.epilogue.factor]  # fmt: skip


def feeds() -> dict[str, np.ndarray]:
    return {"input": np.random.default_rng(1).standard_normal((2, 3, 64, 64), np.float32)}


def test_blocks_end_in_a_product(network):
    graph = optimise(load(network), TARGET)
    assert len(factored(graph)) == BLOCKS
    kinds = [node.kind for node in graph.nodes if isinstance(node, Fusion)]
    assert all("ReduceMean" in kind for kind in kinds)
    expected = run_in_memory(onnx.load(network), feeds())["output"]
    error = np.abs(evaluate(graph, feeds())["output"] - expected).mean()
    assert error <= 0.02 * np.sqrt((expected**2).mean())


def test_no_byte_differs_from_the_kernels_apart(network, monkeypatch):
    """Factors of channels round as the model's steps do."""
    together = evaluate(optimise(load(network), TARGET), feeds())["output"]
    monkeypatch.setattr(sys.modules["autoq.graph.optimise"], "merge_factor", lambda *_: None)
    apart = optimise(load(network), TARGET)
    assert not factored(apart)
    assert np.array_equal(evaluate(apart, feeds())["output"], together)


def test_what_others_read_stays(network):
    graph = optimise(load(network), parse_target("cpu"))
    assert not factored(graph)
    tails = [node for node in graph.nodes if isinstance(node, Fusion) and len(node.inputs) == 2]
    assert len(tails) == BLOCKS
    layers = {node.output: node for node in graph.nodes if isinstance(node, Layer)}
    product = next(name for name in tails[0].inputs if isinstance(layers[name].workload, Gemm))
    graph.outputs = (*graph.outputs, product)
    merge_factor(graph, TARGET, TEMPLATES)
    assert len(factored(graph)) == BLOCKS - 1


def test_random_graphs_agree_with_onnxruntime():
    """Scales that do not fit together, factors below zero, tensors that others read, dead ones."""
    found = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        writer = GraphWriter(rng, exact=seed % 2 == 0)
        for _ in range(int(rng.integers(2, 6))):
            layer(writer, [*[layer_scale] * 4, rows, binary])
        model = writer.finish()
        inputs = normal_feeds(model, rng)
        graph = optimise(from_model(model), TARGET)
        found += len(factored(graph))
        complaint = Oracle(model, inputs).complaint(evaluate(graph, inputs))
        assert not complaint, f"seed {seed}: {complaint}"
    assert found >= 8
