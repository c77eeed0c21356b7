"""Weights of integers behind float activations: MatMulNBits, scales by blocks, both floats."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx_models.integers import MICROSOFT, with_known_output
from onnx_models.makers import model, node, normal
from qdq.oracle import run_in_memory
from refusals import assert_refused, saved

import autoq
from autoq.frontend import from_model
from autoq.graph import Layer, evaluate, optimise
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target

RNG = np.random.default_rng(3)
N = 24
FLOATS = ("float32", "float16")
TARGETS = [parse_target("cpu"), parse_target("cuda:sm_90a")]
WITHOUT = [t for t in TEMPLATES if "float_gemm" not in t.name]
"""Templates none of which takes a product of float16."""


def n_bits(dtype: str, bits: int, k: int = 96, block: int = 32, zero_points: bool = False,
           level: int = 0, **changed: np.ndarray) -> onnx.ModelProto:  # fmt: skip
    """A MatMulNBits with a bias and a Relu over x [2, 5, k]."""
    blocks = -(-k // block)
    constants = {
        "q": RNG.integers(0, 256, (N, blocks, block * bits // 8)).astype(np.uint8),
        "s": (RNG.uniform(0.5, 1.5, N * blocks) / 2 ** (bits + 3)).astype(dtype),
        "b": normal(N).astype(dtype),
    }
    names = "x q s"
    if zero_points:
        constants["z"] = RNG.integers(0, 256, N * -(-blocks * bits // 8)).astype(np.uint8)
        names = "x q s z"
    constants |= changed
    sizes = {"bits": bits, "block_size": block, "N": N, "K": k, "accuracy_level": level}
    nodes = [node("MatMulNBits", names, "m", MICROSOFT, **sizes), node("Add", "m b", "a"),
             node("Relu", "a")]  # fmt: skip
    made = model(nodes, {"x": ((2, 5, k), dtype)}, constants)
    return with_known_output(made, (2, 5, N), dtype)


def dequantised(
    dtype: str, weight: str, block: int = 0, rows: bool = False, turned: bool = False
) -> onnx.ModelProto:
    """A product with a dequantised constant [96, 24], or with rows of the constant [24, 96]."""
    shape, axis = ((N, 96), 1) if rows else ((96, N), 0)
    kind = ml_dtypes.int4 if weight == "int4" else weight
    sizes = [size // block if block and i == axis else size for i, size in enumerate(shape)]
    scale = RNG.uniform(0.5, 1.5, sizes if block else N) / 60
    constants = {"w": RNG.integers(-8, 8, shape).astype(kind), "s": scale.astype(dtype)}
    attributes = {"axis": axis, "block_size": block} if block else {"axis": 1 - axis}
    product = node("Gemm", "x v", "m", transB=1) if rows else node("MatMul", "x v", "m")
    if turned:
        product = node("MatMul", "x t", "m")
    nodes = [node("DequantizeLinear", "w s", "v", **attributes), product, node("Relu", "m")]
    if turned:
        nodes.insert(1, node("Transpose", "v", "t", perm=[1, 0]))
    x = (10, 96) if rows else (2, 5, 96)
    return model(nodes, {"x": (x, dtype)}, constants, opset=21)


CASES = {
    "4_bits": lambda f: n_bits(f, 4),
    "4_bits_zero_points": lambda f: n_bits(f, 4, zero_points=True),
    "2_bits": lambda f: n_bits(f, 2),
    "2_bits_zero_points": lambda f: n_bits(f, 2, zero_points=True),
    "8_bits": lambda f: n_bits(f, 8),
    "8_bits_zero_points": lambda f: n_bits(f, 8, zero_points=True),
    "4_bits_one_block": lambda f: n_bits(f, 4, 64, 128),
    "4_bits_part_of_a_block": lambda f: n_bits(f, 4, 80, zero_points=True),
    "int8": lambda f: dequantised(f, "int8"),
    "int4_rows": lambda f: dequantised(f, "int4", rows=True),
    "int8_blocks": lambda f: dequantised(f, "int8", 32),
    "int4_blocks_of_rows": lambda f: dequantised(f, "int4", 32, rows=True),
    "int4_blocks_transposed": lambda f: dequantised(f, "int4", 32, rows=True, turned=True),
}
WEIGHTS = {
    "4_bits": ("int4", 32, False), "4_bits_zero_points": ("uint4", 32, True),
    "2_bits": ("int4", 32, False), "2_bits_zero_points": ("uint4", 32, True),
    "8_bits": ("int8", 32, False), "8_bits_zero_points": ("uint8", 32, True),
    "4_bits_one_block": ("int4", 0, False), "4_bits_part_of_a_block": ("uint4", 32, True),
    "int8": ("int8", 0, False),
    "int4_rows": ("int4", 0, False), "int8_blocks": ("int8", 32, False),
    "int4_blocks_of_rows": ("int4", 32, False), "int4_blocks_transposed": ("int4", 32, False),
}  # fmt: skip


def feeds_of(made: onnx.ModelProto) -> dict[str, np.ndarray]:
    value = made.graph.input[0].type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.elem_type)
    shape = [dim.dim_value for dim in value.shape.dim]
    return {"x": RNG.standard_normal(shape, np.float32).astype(dtype)}


def assert_near(found: np.ndarray, expected: np.ndarray) -> None:
    """float32 to 1e-5 of the largest, float16 to two of its steps."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    share = 2.0**-9 if expected.dtype == np.float16 else 1e-5
    largest = np.abs(expected.astype(np.float64)).max()
    difference = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max()
    assert largest > 0 and difference <= share * largest


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_onnxruntime(name, dtype):
    made = CASES[name](dtype)
    feeds = feeds_of(made)
    expected = run_in_memory(made, feeds)["y"]
    for target, templates in itertools.product(TARGETS, (TEMPLATES, WITHOUT)):
        graph = optimise(from_model(made), target, templates)
        assert_near(evaluate(graph, feeds)["y"], expected)
        (workload,) = (node.workload for node in graph.nodes if isinstance(node, Layer))
        if templates is WITHOUT or (dtype == "float32" and target.kind == "cuda"):
            assert isinstance(workload, Gemm) and workload.in_dtype == "float32"
        else:
            found = workload.weight_dtype, workload.group, workload.zero_points
            assert found == WEIGHTS[name] and workload.activation == "relu"
            # The model's output, not a rounding behind it.
            assert workload.in_dtype == workload.out_dtype == dtype


def test_what_no_group_of_a_kernel_divides_is_computed_in_float32():
    made = n_bits("float16", 4, k=80, block=16)
    feeds = feeds_of(made)
    graph = optimise(from_model(made), TARGETS[1])
    assert any(isinstance(n, Layer) and isinstance(n.workload, Gemm) for n in graph.nodes)
    assert_near(evaluate(graph, feeds)["y"], run_in_memory(made, feeds)["y"])


@pytest.mark.parametrize(("level", "dtype"), [(1, "float32"), (2, "float16"), (4, "bfloat16")])
def test_a_float32_product_is_rounded_as_far_as_its_level_allows(level, dtype):
    made = n_bits("float32", 4, level=level)
    feeds = feeds_of(made)
    expected = run_in_memory(n_bits_of_level(made, 1), feeds)["y"]
    for target in TARGETS:
        graph = optimise(from_model(made), target)
        (workload,) = (node.workload for node in graph.nodes if isinstance(node, Layer))
        assert workload.in_dtype == (dtype if target.kind == "cuda" else "float32")
        step = {"float32": 1e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}[workload.in_dtype]
        error = np.abs(evaluate(graph, feeds)["y"] - expected).max()
        assert error <= 4 * step * np.abs(expected).max()


def test_zero_points_that_are_whole_floats():
    zero = RNG.integers(0, 16, (N, 3)).astype(np.float32)
    made = n_bits("float32", 4, zero_points=True, z=zero)
    feeds = feeds_of(made)
    expected = run_in_memory(made, feeds)["y"]
    for target in TARGETS:
        assert_near(evaluate(optimise(from_model(made), target), feeds)["y"], expected)


def n_bits_of_level(made: onnx.ModelProto, level: int) -> onnx.ModelProto:
    """A copy of a model whose first node has another accuracy_level."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    (attribute,) = (a for a in copy.graph.node[0].attribute if a.name == "accuracy_level")
    attribute.i = level
    return copy


def block_of_a_transformer() -> onnx.ModelProto:
    """A normalisation, two products with what lies between, a residual and a dense product."""
    half = np.float16
    constants = {
        "w": RNG.integers(-8, 8, (64, 128)).astype(ml_dtypes.int4),
        "s": (RNG.uniform(0.5, 1.5, (2, 128)) / 30).astype(half), "b": normal(128).astype(half),
        "w2": RNG.integers(-100, 100, (128, 64)).astype(np.int8),
        "s2": (RNG.uniform(0.5, 1.5, 64) / 600).astype(half), "b2": normal(64).astype(half),
        "w3": (normal(64, 24) / 8).astype(half), "one": np.ones(64, half),
    }  # fmt: skip
    nodes = [
        node("LayerNormalization", "x one", "l"),
        node("DequantizeLinear", "w s", "v", axis=0, block_size=32), node("MatMul", "l v", "m"),
        node("Add", "m b", "a"), node("Relu", "a", "r"),
        node("DequantizeLinear", "w2 s2", "v2", axis=1), node("MatMul", "r v2", "m2"),
        node("Add", "m2 b2", "a2"), node("Add", "a2 x", "z"),
        node("MatMul", "z w3", "p"), node("Softmax", "p", "y", axis=-1),
    ]  # fmt: skip
    inputs = {"x": ((2, 5, 64), "float16")}
    return model(nodes, inputs, constants, outputs=("y", "z"), opset=21)


def test_products_of_a_float16_model_write_what_the_next_reads():
    made = block_of_a_transformer()
    feeds = feeds_of(made)
    graph = optimise(from_model(made), TARGETS[1])
    results = evaluate(graph, feeds)
    for name, expected in run_in_memory(made, feeds).items():
        assert_near(results[name], expected)
    workloads = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    products = [w for w in workloads if isinstance(w, FloatGemm)]
    assert [(w.weight_dtype, w.out_dtype, w.group) for w in products] == [
        ("int4", "float16", 32), ("int8", "float16", 0), ("float16", "float32", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.kind)
def test_activations_that_a_float16_model_quantises_are_multiplied_as_integers(target):
    constants = {
        "s": np.float16(0.05), "z": np.int8(3), "w": RNG.integers(-9, 9, (64, 32)).astype(np.int8),
        "v": RNG.uniform(0.01, 0.02, 32).astype(np.float16), "b": normal(32).astype(np.float16),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w v", "f", axis=1), node("MatMul", "d f", "m"),
        node("Add", "m b", "a"), node("QuantizeLinear", "a s z", "r"),
        node("DequantizeLinear", "r s z", "y"),
    ]  # fmt: skip
    made = model(nodes, {"x": ((16, 64), "float16")}, constants, opset=21)
    graph = optimise(from_model(made), target)
    products = [n.workload for n in graph.nodes if isinstance(n, Layer)]
    assert [w.weight_dtype for w in products if isinstance(w, (Gemm, FloatGemm))] == ["int8"]
    assert not any(isinstance(w, FloatGemm) for w in products)
    feeds = feeds_of(made)
    found, expected = evaluate(graph, feeds)["y"], run_in_memory(made, feeds)["y"]
    assert found.dtype == np.float16
    steps = np.abs(found.astype(np.float32) - expected.astype(np.float32)) / np.float32(0.05)
    assert np.rint(steps).max() <= 1 and np.mean(steps > 0.5) < 0.02


def test_integers_of_float16_scales_are_an_output_of_integers():
    constants = {"s": np.float16(0.05), "z": np.int8(0), "w": np.eye(8, 4, dtype=np.int8)}
    made = model([node("QLinearMatMul", "x s z w s z s z")], {"x": ((6, 8), "int8")}, constants,
                 opset=21)  # fmt: skip
    graph = from_model(made)
    assert graph.dtype("y") == "int8"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("zero_points", [False, True])
def test_weights_of_four_bits_run_on_the_cpu_and_stay_so(dtype, zero_points, tmp_path):
    made = n_bits(dtype, 4, 256, zero_points=zero_points)
    feeds = feeds_of(made)
    onnx.save(made, tmp_path / "nibbles.onnx")
    path = tmp_path / "nibbles.autoq"
    autoq.compile(tmp_path / "nibbles.onnx", target="cpu", output=path, jobs=1)
    (result,) = autoq.Session(path).run(["y"], feeds)
    assert_near(result, run_in_memory(made, feeds)["y"])
    assert "float_gemm_nibbles" in [t.call.template for t in autoq.Session(path).profile(1)]


def test_a_float16_model_runs_on_the_cpu(tmp_path):
    made = block_of_a_transformer()
    feeds = feeds_of(made)
    onnx.save(made, tmp_path / "half.onnx")
    autoq.compile(tmp_path / "half.onnx", target="cpu", output=tmp_path / "half.autoq", jobs=1)
    results = autoq.Session(tmp_path / "half.autoq").run(["y", "z"], feeds)
    for result, expected in zip(results, run_in_memory(made, feeds).values(), strict=True):
        assert_near(result, expected)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (n_bits("float32", 4, q=np.zeros((N, 3, 15), np.uint8)), "weights uint8"),
        (n_bits("float32", 4, b=normal(N), s=np.ones(5, np.float32)), "malformed|cannot reshape"),
        (
            n_bits("float32", 4, zero_points=True, z=np.full((N, 3), 0.5, np.float32)),
            "of float32 that are no whole numbers of 4 bits; quantise",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(made, message, tmp_path):
    assert_refused(saved(made, tmp_path), message)


def test_blocks_of_activations_are_refused(tmp_path):
    constants = {"s": np.ones((2, 3), np.float32), "z": np.zeros((2, 3), np.int8)}
    made = model([node("DequantizeLinear", "x s z", axis=1, block_size=2)],
                 {"x": ((2, 6), "int8")}, constants, opset=21)  # fmt: skip
    assert_refused(saved(made, tmp_path), "blocked scales of anything but a constant")
