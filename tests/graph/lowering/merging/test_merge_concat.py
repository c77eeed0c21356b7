"""DenseNet's concatenations write what is normalised behind them, too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from qdq.oracle import run_in_memory

from autoq import models
from autoq.frontend import load
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.quantization.quantize import quantize
from autoq.templates.operators.concat import Concat
from autoq.templates.target import parse_target


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A DenseNet of two blocks, quantised as onnxruntime does."""
    folder = tmp_path_factory.mktemp("densenet")
    made = models.densenet(depths=(2, 3), growth=8, stem=16, image=32, batch=2, classes=10)
    onnx.save(made, folder / "float.onnx")
    images = np.random.default_rng(0).standard_normal((4, 3, 32, 32), np.float32)
    quantize(folder / "float.onnx", {"input": images}, folder / "int8.onnx")
    return folder / "int8.onnx"


def concats(graph) -> list[Concat]:
    found = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    return [workload for workload in found if isinstance(workload, Concat)]


def test_normalisations_are_part_of_concatenations(network):
    graph = optimise(load(network), parse_target("cuda:sm_80"))
    assert [bool(workload.scaled_dtype) for workload in concats(graph)] == [True] * 5
    alone = [node.kind for node in graph.nodes if isinstance(node, Fusion)]
    assert alone == ["dequantize+Mul+Add+quantize"] * 2  # behind the pools
    feeds = {"input": np.random.default_rng(1).standard_normal((2, 3, 32, 32), np.float32)}
    expected = run_in_memory(onnx.load(network), feeds)["output"]
    error = np.abs(evaluate(graph, feeds)["output"] - expected).mean()
    assert error <= 0.02 * np.sqrt((expected**2).mean())


def test_a_cpu_has_no_such_kernel(network):
    graph = optimise(load(network), parse_target("cpu"))
    assert not any(workload.scaled_dtype for workload in concats(graph))
