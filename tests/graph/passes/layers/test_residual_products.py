"""Linear layers and convolutions of float32 models through integers, against onnxruntime."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from gpu_kernels import end_if_compile_only
from onnx_models.float_networks import random_network
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

import autoq
from autoq.errors import InputError
from autoq.frontend import from_model
from autoq.graph import Fusion, Graph, Layer, evaluate, optimise
from autoq.graph.corrections import windows_cost
from autoq.graph.passes.layers.residual_products import residual_products
from autoq.graph.precision import Precision, ResidualPrecision, make_precision
from autoq.residual.setting import ONE_SIDED, Setting
from autoq.templates import TEMPLATES
from autoq.templates.target import Target, parse_target

CPU, HOPPER = parse_target("cpu"), parse_target("cuda:sm_90a")


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
    return optimise(from_model(made), target, precision=precision)


def error(made: onnx.ModelProto, graph: Graph, x: np.ndarray | None = None) -> float:
    """The relative error of the output y in the Frobenius norm."""
    usual = np.random.default_rng(1).standard_normal((2, 3, 9, 8), np.float32)
    feeds = {"x": usual if x is None else x}
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


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_give_what_onnxruntime_gives(seed: int) -> None:
    made, x = random_network(np.random.default_rng(seed))
    for threshold, most in ((0.0, 1e-3), (0.3, 2e-2), (math.inf, 1e-1)):
        for target in (CPU, HOPPER):
            graph = optimised(made, make_precision("residual8", threshold, None), target)
            assert error(made, graph, x) < most, (threshold, target.kind)


def test_windows_are_made_channels_last_and_pixels_not_at_all() -> None:
    graph = optimised(network(np.random.default_rng(0)), ResidualPrecision("residual8"))
    windows = [node for node in graph.nodes if isinstance(node, Fusion) and node.kind == "Windows"]
    assert [(node.input_shapes, node.output_shape) for node in windows] == [
        (((2, 9, 8, 3),), (2, 6, 9, 27)),
        (((2, 6, 9, 6),), (2, 3, 7, 36)),
    ]


@pytest.mark.parametrize("target", [CPU, HOPPER], ids=lambda target: target.kind)
@pytest.mark.parametrize(
    ("tolerance", "kinds"),
    [
        (0.5, {"direct"}),
        (7e-3, {"direct", "full", "of the activations"}),
        (1e-3, {"full", "sparse"}),
    ],
)
def test_each_layer_keeps_the_tolerance_at_the_least_cost(
    tolerance: float, kinds: set[str], target: Target
) -> None:
    made = network(np.random.default_rng(0))
    graph = optimised(made, make_precision("residual8", None, tolerance), target)
    layers = [node for node in graph.nodes if isinstance(node, Layer) and node.precision]
    chosen = {node.name: node.precision for node in layers}
    one_sided = [name for name, text in chosen.items() if "activations" in text]
    assert one_sided == (["Conv_c1", "Conv_c2"] if tolerance == 7e-3 else [])
    for name in one_sided:
        parts = [n for n in graph.nodes if isinstance(n, Layer) and n.name == name]
        assert [part.workload.operator for part in parts] == ["conv2d", "conv2d"]
    assert len(layers) == 5
    for layer in layers:
        assert layer.precision.startswith("8 bits, ")
        assert any(kind in layer.precision for kind in kinds)
        layer.workload.check_constants(layer.constants)
    assert error(made, graph) < 5 * tolerance


@pytest.mark.parametrize("side", ONE_SIDED)
def test_the_residual_of_one_factor_takes_back_its_part(side: str) -> None:
    """What is left is what the other factor lost, which is made small here."""
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((6, 3, 3, 3), np.float32)
    x = rng.standard_normal((2, 3, 9, 8), np.float32)
    if side == "activations":
        weights = np.sign(weights)
    else:
        x = np.sign(x)
    made = model(
        [node("Conv", "x w", "y", pads=[1, 1, 1, 1])], {"x": (x.shape, "float32")}, {"w": weights}
    )
    errors = {}
    for correction in ("none", side, "full"):
        graph = from_model(made)
        settings = {graph.operations[0].name: Setting(8, correction)}
        residual_products(graph, CPU, TEMPLATES, ResidualPrecision("residual8"), settings)
        (exact,) = run_in_memory(made, {"x": x}).values()
        difference = evaluate(optimise(graph, CPU), {"x": x})["y"] - exact
        errors[correction] = float(np.linalg.norm(difference) / np.linalg.norm(exact))
    assert errors["full"] <= errors[side] * 1.01 < 0.02 * errors["none"]


def test_writing_windows_pays_for_many_filters_alone() -> None:
    assert windows_cost(64, HOPPER) > 10 > windows_cost(256, HOPPER) > 2
    assert windows_cost(1024, CPU) < 0.5 < 2 < windows_cost(64, CPU)


def test_what_cannot_be_asked_for() -> None:
    made = network(np.random.default_rng(0))
    with pytest.raises(InputError, match=r"layer 'Conv_c1': tolerance 1e-08: .* reach \d"):
        optimised(made, make_precision("residual8", None, 1e-8))
    plain = model([node("Relu", "x")], {"x": ((2, 32), "float32")})
    with pytest.raises(InputError, match="residual8: the model 'case' has no MatMul, Gemm or Conv"):
        optimised(plain, ResidualPrecision("residual8"))


def test_without_a_precision_nothing_changes() -> None:
    made = network(np.random.default_rng(0))
    graph = optimised(made, None)
    assert not any(n.precision for n in graph.nodes if isinstance(n, Layer))
    assert error(made, graph) < 1e-5


def compiled_error(target: str, precision: dict[str, object], folder: Path) -> float:
    """The relative error of a small network, compiled and run."""
    rng = np.random.default_rng(0)
    weights = {"w1": (6, 3, 3, 3), "w2": (4, 6, 1, 1), "w3": (144, 5), "b3": (5,)}
    made = model(
        [
            node("Conv", "x w1", "c1", pads=[1, 1, 0, 1]),
            node("Conv", "c1 w2", "c2"),
            node("Flatten", "c2", "f"),
            node("Gemm", "f w3 b3", "y"),
        ],
        {"x": ((2, 3, 7, 6), "float32")},
        {name: rng.standard_normal(shape, np.float32) for name, shape in weights.items()},
    )
    onnx.save(made, folder / "floats.onnx")
    report = autoq.compile(
        folder / "floats.onnx", target=target, output=folder / "made.autoq", **precision
    )
    assert set(report.precisions) == {"Conv_c1", "Conv_c2", "Gemm_y"}
    feeds = {"x": rng.standard_normal((2, 3, 7, 6), np.float32)}
    (y,) = autoq.Session(folder / "made.autoq").run(None, feeds)
    (exact,) = run_in_memory(made, feeds).values()
    return float(np.linalg.norm(y - exact) / np.linalg.norm(exact))


COMPILED = [
    ({"precision": "residual8", "threshold": 0.5}, 1e-3),
    ({"precision": "residual8", "tolerance": 8e-3}, 2e-2),
    ({"precision": "residual4", "tolerance": 0.05}, 0.2),
]


@pytest.mark.parametrize(("precision", "most"), COMPILED[2:])
def test_compiled_for_a_cpu(precision: dict[str, object], most: float, tmp_path: Path) -> None:
    assert compiled_error("cpu", precision, tmp_path) < most


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "most"), COMPILED)
def test_compiled_for_a_gpu(precision: dict[str, object], most: float, tmp_path: Path) -> None:
    end_if_compile_only()
    assert compiled_error("cuda", precision, tmp_path) < most
