"""Functions of one quantised tensor: exact, found whole, absorbed where nobody else reads them."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest
from onnx_models.makers import model as model_of
from onnx_models.makers import node as node_of
from qdq.oracle import run_in_memory
from table_cases import FUNCTIONS, QdqModel, by_onnxruntime, silu

import autoq
from autoq.frontend.load import from_model
from autoq.graph.evaluate import evaluate
from autoq.graph.ir import Graph, Layer
from autoq.graph.optimise import optimise
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.lookup import Lookup
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

CUDA = parse_target("cuda:sm_90a")
CPU = parse_target("cpu")


def scheme(rng: np.random.Generator, dtype: str) -> tuple[float, int, str]:
    """A scale, often a power of two so that there are ties, a zero point and the dtype."""
    scale = rng.choice([rng.uniform(0.005, 0.2), 2.0 ** -rng.integers(2, 8)])
    return float(np.float32(scale)), int(rng.integers(*INTEGER_RANGE[dtype])), dtype


def kinds(graph: Graph) -> list[str]:
    """Workloads by name, a product with a table marked."""
    names = []
    for node in graph.nodes:
        assert isinstance(node, Layer), node
        table = getattr(getattr(node.workload, "epilogue", None), "table", False)
        names.append(type(node.workload).__name__ + ("+table" if table else ""))
    return names


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_value_is_that_of_onnxruntime(name: str) -> None:
    rng = np.random.default_rng(len(name))
    for in_dtype, out_dtype in (("int8", "uint8"), ("uint8", "int8"), ("uint8", "uint8")):
        model = QdqModel()
        x = model.dequantise("x", *scheme(rng, in_dtype))
        y = model.quantise(FUNCTIONS[name](model, x), *scheme(rng, out_dtype))
        proto = model.finish({"x": (in_dtype, [4, 64])}, {y: out_dtype})
        values = np.arange(256, dtype=np.uint8).view(in_dtype).reshape(4, 64)
        graph = optimise(from_model(proto), CPU)
        assert kinds(graph) == ["Lookup"]
        (expected,) = by_onnxruntime(proto, {"x": values})
        np.testing.assert_array_equal(evaluate(graph, {"x": values})[y], expected)


def test_what_kernels_do_not_look_up_is_computed(tmp_path):
    """float16 outputs of a float16 model, and int32."""
    scheme = {"s": np.float16(0.05), "z": np.int8(3)}
    nodes = [
        node_of("QuantizeLinear", "x s z", "q"), node_of("DequantizeLinear", "q s z", "d"),
        node_of("Sigmoid", "d", "y"), node_of("Cast", "q", "i", to=6),
    ]  # fmt: skip
    proto = model_of(nodes, {"x": ((4, 64), "float16")}, scheme, ("d", "y", "i"), opset=19)
    for target in (CPU, CUDA):
        layers = [n for n in optimise(from_model(proto), target).nodes if isinstance(n, Layer)]
        assert all(matching(layer.workload, target) for layer in layers)
    onnx.save(proto, tmp_path / "model.onnx")
    autoq.compile(tmp_path / "model.onnx", target="cpu", output=tmp_path / "model.tar")
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float16)
    found = autoq.Session(tmp_path / "model.tar").run(None, {"x": x})
    for value, expected in zip(found, run_in_memory(proto, {"x": x}).values(), strict=True):
        assert value.dtype == expected.dtype
        np.testing.assert_allclose(value, expected, rtol=1e-3)


def convolution(model: QdqModel, x: str, dtype: str, channels: int = 8) -> str:
    """A quantised 1x1 convolution's output as floats, of a scheme of its own."""
    rng = np.random.default_rng(channels)
    integers = model.constant(rng.integers(-90, 90, (channels, 8, 1, 1)), "int8")
    weight = model.dequantise(integers, 0.01, 0, "int8")
    y = model.node("Conv", model.dequantise(x, 0.02, 3, dtype), weight)
    return model.through(y, 0.031, 7, dtype)


@pytest.mark.parametrize("dtypes", [("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")])
def test_a_convolution_looks_its_outputs_up(dtypes: tuple[str, str]) -> None:
    """Also where the table's entries have another sign than what selects them."""
    in_dtype, out_dtype = dtypes
    model = QdqModel()
    y = model.quantise(silu(model, convolution(model, "x", in_dtype)), 0.02, 11, out_dtype)
    proto = model.finish({"x": (in_dtype, [2, 8, 5, 5])}, {y: out_dtype})
    x = np.frombuffer(np.random.default_rng(0).bytes(400), in_dtype).reshape(2, 8, 5, 5)
    (expected,) = by_onnxruntime(proto, {"x": x})
    for target, found in ((CUDA, ["Conv2d+table"]), (CPU, ["Conv2d", "Lookup"])):
        graph = optimise(from_model(proto), target)
        assert kinds_of_layers(graph) == found
        np.testing.assert_array_equal(evaluate(graph, {"x": x})[y], expected)


def test_a_convolution_of_four_bits_looks_its_outputs_up_as_bytes() -> None:
    import ml_dtypes

    model = QdqModel()
    integers = model.constant(np.random.default_rng(0).integers(-8, 8, (8, 8, 1, 1)), "int4")
    weight = model.dequantise(integers, 0.1, 0, "int4")
    y = model.node("Conv", model.dequantise("x", 0.1, 3, "uint4"), weight)
    y = model.through(y, 0.2, -1, "int4")
    y = model.quantise(model.node("HardSwish", y), 0.1, 2, "uint4")
    proto = model.finish({"x": ("uint4", [2, 8, 4, 4])}, {y: "uint4"})
    x = np.random.default_rng(1).integers(0, 16, (2, 8, 4, 4)).astype(ml_dtypes.uint4)
    found = []
    for target in (CUDA, CPU):
        graph = optimise(from_model(proto), target)
        found.append(evaluate(graph, {"x": x})[y].astype(np.int32))
        expected = ["Conv2d+table"] if target is CUDA else ["Conv2d", "Lookup"]
        assert kinds_of_layers(graph) == expected
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) > 6


def kinds_of_layers(graph: Graph) -> list[str]:
    """`kinds` without fusions that transpose inputs and outputs."""
    layers = [node for node in graph.nodes if isinstance(node, Layer)]
    return kinds(dataclasses.replace(graph, nodes=layers))


def test_a_convolution_that_is_read_elsewhere_keeps_its_output() -> None:
    model = QdqModel()
    between = convolution(model, "x", "uint8")
    y = model.quantise(silu(model, between), 0.02, 11, "uint8")
    (integers,) = (n.output[0] for n in model.nodes if n.output[0] in model.nodes[4].input)
    proto = model.finish({"x": ("uint8", [1, 8, 4, 4])}, {y: "uint8", integers: "uint8"})
    graph = optimise(from_model(proto), CUDA)
    assert kinds_of_layers(graph) == ["Conv2d", "Lookup"]


def test_a_chain_of_any_length_is_one_table() -> None:
    """Each tensor on the way is read twice, so that its paths double with every step."""
    model = QdqModel()
    x = model.dequantise("x", 0.03, 120, "uint8")
    for _ in range(40):
        x = model.through(silu(model, x), 0.03, 20, "uint8")
    y = model.quantise(x, 0.03, 20, "uint8")
    proto = model.finish({"x": ("uint8", [256])}, {y: "uint8"})
    graph = optimise(from_model(proto), CPU)
    assert kinds(graph) == ["Lookup"]
    values = np.arange(256, dtype=np.uint8)
    (expected,) = by_onnxruntime(proto, {"x": values})
    np.testing.assert_array_equal(evaluate(graph, {"x": values})[y], expected)


def test_what_is_read_on_the_way_starts_another_table() -> None:
    model = QdqModel()
    x = model.dequantise("x", 0.03, 120, "uint8")
    first = model.quantise(model.node("Tanh", x), 0.01, 128, "uint8")
    second = model.node("Exp", model.dequantise(first, 0.01, 128, "uint8"))
    second = model.quantise(second, 0.02, 0, "uint8")
    proto = model.finish({"x": ("uint8", [256])}, {first: "uint8", second: "uint8"})
    graph = optimise(from_model(proto), CUDA)
    assert [node.inputs for node in graph.nodes] == [("x",), (first,)]
    values = np.arange(256, dtype=np.uint8)
    found = evaluate(graph, {"x": values})
    for name, array in zip((first, second), by_onnxruntime(proto, {"x": values}), strict=True):
        np.testing.assert_array_equal(found[name], array)


def test_float_outputs_come_from_a_table_of_floats() -> None:
    model = QdqModel()
    y = silu(model, model.dequantise("x", 0.03, 120, "uint8"))
    proto = model.finish({"x": ("uint8", [256])}, {y: "float32"})
    graph = optimise(from_model(proto), CPU)
    assert [node.workload for node in graph.nodes] == [Lookup((256,), "uint8", "float32")]
    values = np.arange(256, dtype=np.uint8)
    (expected,) = by_onnxruntime(proto, {"x": values})
    np.testing.assert_allclose(evaluate(graph, {"x": values})[y], expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_four_bit_tensors_have_tables_of_bytes(dtype: str) -> None:
    import ml_dtypes

    model = QdqModel()
    y = model.quantise(silu(model, model.dequantise("x", 0.5, 2, dtype)), 0.25, 1, dtype)
    proto = model.finish({"x": (dtype, [4, 4])}, {y: dtype})
    least, most = INTEGER_RANGE[dtype]
    values = np.arange(least, most + 1).astype(getattr(ml_dtypes, dtype)).reshape(4, 4)
    for target in (CPU, CUDA):
        graph = optimise(from_model(proto), target)
        assert kinds(graph) == ["Lookup"]
        reals = (values.astype(np.float32) - 2) * np.float32(0.5)
        gates = np.rint(1 / (1 + np.exp(-reals)) * 255) * np.float32(1 / 255)
        expected = np.clip(np.rint(reals * gates / np.float32(0.25)) + 1, least, most)
        found = evaluate(graph, {"x": values})[y].astype(np.float32)
        np.testing.assert_array_equal(found, expected)


def test_functions_of_two_tensors_stay_fusions() -> None:
    model = QdqModel()
    a = model.node("Sigmoid", model.dequantise("a", 0.03, 120, "uint8"))
    b = model.dequantise("b", 0.02, 10, "uint8")
    y = model.quantise(model.node("Mul", a, b), 0.02, 0, "uint8")
    proto = model.finish({"a": ("uint8", [16]), "b": ("uint8", [16])}, {y: "uint8"})
    graph = optimise(from_model(proto), CPU)
    assert not any(isinstance(getattr(n, "workload", None), Lookup) for n in graph.nodes)


def test_a_clamp_behind_a_convolution_is_no_table() -> None:
    model = QdqModel()
    x = model.node("Relu", convolution(model, "x", "uint8"))
    y = model.quantise(x, 0.031, 7, "uint8")
    proto = model.finish({"x": ("uint8", [1, 8, 4, 4])}, {y: "uint8"})
    (layer,) = (n for n in optimise(from_model(proto), CUDA).nodes if isinstance(n, Layer))
    assert isinstance(layer.workload, Conv2d)
    assert not layer.workload.epilogue.table
