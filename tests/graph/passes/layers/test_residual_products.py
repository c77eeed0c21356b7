"""Linear layers and convolutions of float32 models through integers, against onnxruntime."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

from autoq.errors import InputError
from autoq.frontend import from_model
from autoq.graph import Fusion, Graph, Layer, evaluate, optimise
from autoq.graph.precision import Precision, make_precision
from autoq.templates.base import Template
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import Target, parse_target

CPU, HOPPER = parse_target("cpu"), parse_target("cuda:sm_90a")


def _never(*given: object) -> None:
    raise AssertionError("a stand-in is not built")


STAND_IN = Template(
    "stand_in", 1, lambda workload, target: workload.operator == "residual_gemm",
    _never, _never, _never, _never, _never, preference=1,
)  # fmt: skip
"""Matches every such product, so that graphs can be optimised for any target."""


def network(rng: np.random.Generator) -> onnx.ModelProto:
    """Convolutions of every form, a grouped one, and Linear layers behind them."""

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    return model(
        [
            node("Conv", "x w1 b1", "c1", pads=[1, 2, 0, 1], dilations=[2, 1]),
            node("Relu", "c1", "r1"),
            node("Conv", "r1 w2", "c2", strides=[2, 1]),
            node("Add", "c2 shift", "d2"),
            node("Conv", "d2 w3", "c3"),
            node("Conv", "c3 w4", "c4", group=2, pads=[1, 1, 1, 1]),
            node("Add", "c4 c3", "s"),
            node("Flatten", "s", "f"),
            node("Gemm", "f w5 b5", "g", transB=1, alpha=0.5),
            node("Relu", "g", "h"),
            node("MatMul", "h w6", "y"),
        ],
        {"x": ((2, 3, 9, 8), "float32")},
        {
            "w1": normal(6, 3, 3, 3), "b1": normal(6), "w2": normal(5, 6, 2, 3),
            "shift": normal(1, 5, 1, 1), "w3": normal(4, 5, 1, 1), "w4": normal(4, 2, 3, 3),
            "w5": normal(16, 4 * 3 * 7), "b5": normal(16), "w6": normal(16, 7),
        },
    )  # fmt: skip


def optimised(made: onnx.ModelProto, precision: Precision | None, target: Target = CPU) -> Graph:
    return optimise(from_model(made), target, [*TEMPLATES, STAND_IN], precision)


def error(made: onnx.ModelProto, graph: Graph) -> float:
    """The relative error of the output y in the Frobenius norm."""
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 3, 9, 8)).astype(np.float32)}
    (exact,) = run_in_memory(made, feeds).values()
    return float(np.linalg.norm(evaluate(graph, feeds)["y"] - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("target", [CPU, HOPPER], ids=lambda target: target.kind)
@pytest.mark.parametrize(
    ("name", "threshold", "least", "most"),
    [
        ("residual8", 0.0, 1e-6, 3e-4),
        ("residual8", math.inf, 3e-3, 5e-2),
        ("residual8", 1.0, 1e-6, 5e-2),
        ("residual4", 0.0, 3e-3, 1e-1),
    ],
)
def test_products_give_what_onnxruntime_gives(
    name: str, threshold: float, least: float, most: float, target: Target
) -> None:
    made = network(np.random.default_rng(0))
    precision = make_precision(name, threshold, None)
    graph = optimised(made, precision, target)
    layers = {node.name: node.workload for node in graph.nodes if isinstance(node, Layer)}
    asked = {n.name for n in graph.nodes if isinstance(n, Layer) and n.precision}
    assert asked == {"Conv_c1", "Conv_c2", "Conv_c3", "Gemm_g", "MatMul_y"}
    sparse = 0 < threshold < math.inf
    for layer in asked:
        through_images = layer in ("Conv_c1", "Conv_c2") and not sparse
        assert layers[layer].operator == ("conv2d" if through_images else "residual_gemm")
        assert through_images or layers[layer].constant_b
    dtypes = {workload.inputs[0].dtype for workload in layers.values()}
    assert ("int8" in dtypes or "uint8" in dtypes) == (not sparse)
    convolutions = [n for n in graph.nodes if isinstance(n, Layer) and n.name == "Conv_c1"]
    assert len(convolutions) == (3 if threshold == 0 else 1)
    assert least < error(made, graph) < most


def test_windows_are_made_channels_last_and_pixels_not_at_all() -> None:
    graph = optimised(network(np.random.default_rng(0)), Precision("residual8"))
    windows = [node for node in graph.nodes if isinstance(node, Fusion) and node.kind == "Windows"]
    assert [(node.input_shapes, node.output_shape) for node in windows] == [
        (((2, 9, 8, 3),), (2, 6, 9, 27)),
        (((2, 6, 9, 6),), (2, 3, 7, 36)),
    ]


@pytest.mark.parametrize(("tolerance", "kinds"), [(0.5, {"direct"}), (1e-3, {"full", "sparse"})])
def test_each_layer_keeps_the_tolerance_at_the_least_cost(
    tolerance: float, kinds: set[str]
) -> None:
    made = network(np.random.default_rng(0))
    graph = optimised(made, make_precision("residual8", None, tolerance))
    layers = [node for node in graph.nodes if isinstance(node, Layer) and node.precision]
    assert len(layers) == 5
    for layer in layers:
        assert layer.precision.startswith("8 bits, ")
        assert any(kind in layer.precision for kind in kinds)
        layer.workload.check_constants(layer.constants)
    assert error(made, graph) < 5 * tolerance


def test_what_cannot_be_asked_for() -> None:
    made = network(np.random.default_rng(0))
    with pytest.raises(InputError, match=r"layer 'Conv_c1': tolerance 1e-08: .* reach \d"):
        optimised(made, make_precision("residual8", None, 1e-8))
    plain = model([node("Relu", "x")], {"x": ((2, 32), "float32")})
    with pytest.raises(InputError, match="residual8: the model 'case' has no MatMul, Gemm or Conv"):
        optimised(plain, Precision("residual8"))


def test_without_a_precision_nothing_changes() -> None:
    made = network(np.random.default_rng(0))
    graph = optimised(made, None)
    assert not any(n.precision for n in graph.nodes if isinstance(n, Layer))
    assert error(made, graph) < 1e-5
