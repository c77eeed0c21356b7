"""Products of bytes whose rows are normalised do that themselves."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from gpu_kernels import gpu_host
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

from autoq import Session, compile
from autoq.frontend import from_model
from autoq.graph import Graph, Layer, evaluate, optimise
from autoq.templates.operators.normalised_gemm import NormalisedGemm
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
WIDTH = 96


def normalised(graph: Graph) -> list[Layer]:
    layers = [node for node in graph.nodes if isinstance(node, Layer)]
    return [layer for layer in layers if isinstance(layer.workload, NormalisedGemm)]


def post_norm(rng: np.random.Generator, n: int = WIDTH, also: str = "", epsilon: float = 1e-3):
    """A product, a residual and a normalisation, each with bytes of its own type and scale behind.

    also: a tensor of the model that is an output as well.
    """
    rows, k = tuple(map(int, rng.integers(2, 6, 2))), 32
    constants = {
        "w": rng.integers(-127, 128, (k, n)).astype(np.int8),
        "ws": np.float32(rng.uniform(0.5, 1.5) / 400),
        "g": rng.uniform(-1.5, 1.5, n).astype(np.float32),
        "c": rng.normal(0, 0.3, n).astype(np.float32),
        "o": np.int8(0),
    }
    nodes = [node("DequantizeLinear", "w ws o", "wf")]

    def quantised(name: str, real: str, step: float) -> str:
        dtype = str(rng.choice(["int8", "uint8"]))
        zero = int(rng.integers(-9, 10)) + (128 if dtype == "uint8" else 0)
        constants[f"{name}s"] = np.float32(step * rng.uniform(0.7, 1.4))
        constants[f"{name}z"] = np.array(zero, dtype)
        nodes.append(node("QuantizeLinear", f"{real} {name}s {name}z", f"{name}q"))
        nodes.append(node("DequantizeLinear", f"{name}q {name}s {name}z", f"{name}f"))
        return f"{name}f"

    x, other = quantised("x", "x", 0.03), quantised("r", "r", 0.03)
    nodes.append(node("MatMul", f"{x} wf", "p"))
    product = quantised("p", "p", 0.04) if rng.random() < 0.7 else "p"
    nodes.append(
        node("Add", f"{other} {product}" if rng.random() < 0.5 else f"{product} {other}", "a")
    )
    total = quantised("a", "a", 0.05)
    nodes.append(node("LayerNormalization", f"{total} g c", "h", epsilon=epsilon))
    quantised("h", "h", 0.03)
    inputs = {"x": ((*rows, k), "float32"), "r": ((*rows, n), "float32")}
    outputs = ("hq", *([also] if also else []))
    feeds = {name: rng.standard_normal(shape, np.float32) for name, (shape, _) in inputs.items()}
    return model(nodes, inputs, constants, outputs), feeds


def test_random_normalisations_agree_with_onnxruntime(monkeypatch):
    """In every type of bytes, and as they are apart: within a step, in places that lie on ties."""
    counted = differ = 0
    for seed in range(24):
        made, feeds = post_norm(np.random.default_rng(seed))
        graph = optimise(from_model(made), TARGET)
        assert len(normalised(graph)) == 1 and len(graph.nodes) == 3
        found = evaluate(graph, feeds)["hq"].astype(int)
        away = np.abs(found - run_in_memory(made, feeds)["hq"].astype(int))
        counted, differ = counted + away.size, differ + np.count_nonzero(away)
        assert away.max() <= 1
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules["autoq.graph.optimise"], "merge_normalised", lambda *_: None)
            apart = optimise(from_model(made), TARGET)
        assert not normalised(apart)
        assert np.abs(evaluate(apart, feeds)["hq"].astype(int) - found).max() <= 1
    assert differ < 0.01 * counted


@pytest.mark.parametrize(
    ("n", "also", "target"),
    [
        (WIDTH, "aq", "cuda:sm_90a"),
        (WIDTH, "", "cuda:sm_80"),
        (WIDTH, "", "cpu"),
        (100, "", "cuda:sm_90a"),
    ],
)
def test_what_others_read_and_rows_of_no_cluster_stay(n, also, target):
    made, feeds = post_norm(np.random.default_rng(1), n, also)
    graph = optimise(from_model(made), parse_target(target))
    assert not normalised(graph)
    expected = run_in_memory(made, feeds)
    for name, value in evaluate(graph, feeds).items():
        assert np.abs(value.astype(int) - expected[name].astype(int)).max() <= 1


@pytest.mark.gpu
def test_a_gpu_gives_the_bytes_of_the_kernels_apart(tmp_path, monkeypatch):
    gpu_host()
    for seed in range(4):
        made, feeds = post_norm(np.random.default_rng(seed), (1, 8, 12, 2)[seed] * WIDTH)
        found = []
        for together in (True, False):
            with monkeypatch.context() as patch:
                if not together:
                    optimiser = sys.modules["autoq.graph.optimise"]
                    patch.setattr(optimiser, "merge_normalised", lambda *_: None)
                path = tmp_path / f"{seed}{together}.tar"
                report = compile(from_model(made), target="cuda", output=path)
            assert len(report.calls) == (3 if together else 4)
            found += Session(path).run(None, feeds)
        assert np.array_equal(*found)
