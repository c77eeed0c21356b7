"""Products of two activations of a float16 model: one kernel each, as onnxruntime computes them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_models.makers import model, node, normal
from qdq.oracle import run_in_memory

from autoq.frontend import from_model
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.graph.lowering.fusions import kernel_family
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

HOPPER, TURING, CPU = (parse_target(name) for name in ("cuda:sm_90a", "cuda:sm_75", "cpu"))
RNG = np.random.default_rng(5)
BATCH, LENGTH, HEADS, DEPTH = 2, 7, 3, 8
WIDTH = HEADS * DEPTH


def attention(scaling: str = "Div", dtype: str = "float16") -> onnx.ModelProto:
    """Self-attention as torch exports it, from [2, 7, 24] to as much."""
    names = ("q", "k", "v", "o")
    constants = {f"w_{n}": (normal(WIDTH, WIDTH) / 5).astype(dtype) for n in names}
    split, join = [BATCH, LENGTH, HEADS, DEPTH], [BATCH, LENGTH, WIDTH]
    constants |= {"split": np.array(split), "join": np.array(join), "root": np.array(2.75, dtype)}
    nodes = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", f"x w_{name}", f"{name}_rows"),
            node("Reshape", f"{name}_rows split", f"{name}_heads"),
            node("Transpose", f"{name}_heads", name, perm=perm),
        ]
    nodes += [
        node("MatMul", "q k", "raw"), node(scaling, "raw root", "scores"),
        node("Softmax", "scores", "shares", axis=-1), node("MatMul", "shares v", "context"),
        node("Transpose", "context", "turned", perm=[0, 2, 1, 3]),
        node("Reshape", "turned join", "joined"), node("MatMul", "joined w_o", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": ((BATCH, LENGTH, WIDTH), dtype)}, constants)


def products(graph) -> list:
    """The products among a graph's layers."""
    found = [node.workload for node in graph.nodes if isinstance(node, Layer)]
    return [w for w in found if isinstance(w, (BatchedGemm, FloatGemm))]


def assert_agrees(graph, made: onnx.ModelProto) -> None:
    """Equal to onnxruntime's results, but for two steps of float16 at the largest."""
    (given,) = made.graph.input
    shape = [size.dim_value for size in given.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
    feeds = {given.name: RNG.standard_normal(shape).astype(dtype)}
    (expected,) = run_in_memory(made, feeds).values()
    (found,) = evaluate(graph, feeds).values()
    assert found.dtype == expected.dtype
    difference = np.abs(found.astype(np.float32) - expected.astype(np.float32)).max()
    assert difference <= 2.0**-8 * np.abs(expected.astype(np.float32)).max()


@pytest.mark.parametrize("scaling", ["Div", "Mul"])
@pytest.mark.parametrize("target", [TURING], ids=lambda t: t.arch)
def test_attention_multiplies_heads_where_they_lie(scaling, target):
    made = attention(scaling)
    graph = optimise(from_model(made), target)
    assert_agrees(graph, made)
    *_, scores, values, _ = products(graph)
    assert isinstance(scores, BatchedGemm) and isinstance(values, BatchedGemm)
    assert (scores.x_order, scores.other_order, scores.y_order) == ("bmhk", "bnhk", "bhmn")
    assert (values.x_order, values.other_order, values.y_order) == ("bhmk", "bkhn", "bmhn")
    assert {scores.in_dtype, scores.other_dtype, values.in_dtype} == {"float16"}
    assert scores.epilogue.out_dtype == "float32"  # for the softmax, which computes in it
    assert values.epilogue.out_dtype == "float16"  # for the product behind it
    assert [w.out_dtype for w in products(graph)[:3]] == ["float16"] * 3
    (shares,) = (node for node in graph.nodes if isinstance(node, Fusion))
    assert [item.op for item in shares.primitives] == ["Softmax", "Cast"]
    assert kernel_family(shares, target) == "rows"


def test_numbers_that_scale_the_factors_are_the_products():
    """As torch writes scaled_dot_product_attention."""
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 1]), node("Mul", "x root", "q"),
             node("Div", "t third", "k"), node("MatMul", "q k", "m"), node("Div", "m third"),
             node("MatMul", "q x2", "other"), node("Mul", "zero x", "z"),
             node("MatMul", "z x2", "nought")]  # fmt: skip
    half = np.float16
    constants = {"root": np.array(0.5, half), "third": np.array([3], half),
                 "zero": np.array(0, half)}  # fmt: skip
    inputs = {"x": ((3, 5, 11), "float16"), "x2": ((3, 11, 4), "float16")}
    made = model(nodes, inputs, constants, ("y", "other", "nought"))
    graph = optimise(from_model(made), HOPPER)
    feeds = {n: RNG.standard_normal(shape).astype(half) for n, (shape, _) in inputs.items()}
    found = evaluate(graph, feeds)
    for name, expected in run_in_memory(made, feeds).items():
        assert np.abs(found[name].astype(np.float32) - expected).max() <= 2.0**-6
    layers = [item for item in graph.nodes if isinstance(item, Layer)]
    scales = [float(item.constants["scale"][0]) for item in layers]
    assert sorted(scales) == pytest.approx([0, 1 / 9, 1])  # x times 0.5 has two readers
    assert {item.workload.other_order for item in layers} == {"bhnk", "bhkn"}


def test_a_number_between_two_products_is_the_first_ones():
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t", "m"),
             node("Mul", "m root", "s"), node("MatMul", "s x", "y")]  # fmt: skip
    made = model(nodes, {"x": ((3, 5, 11), "float32")}, {"root": np.array(0.5, np.float32)})
    graph = optimise(from_model(made), CPU)
    assert_agrees(graph, made)
    scales = [float(item.constants["scale"][0]) for item in graph.nodes if isinstance(item, Layer)]
    assert scales == [0.5, 1]


@pytest.mark.parametrize("shape", [(BATCH, 1, 1, LENGTH), (1, HEADS, LENGTH, LENGTH)])
def test_masks_join_the_softmax(shape):
    """Where products and softmax are kernels of their own, as on sm_75."""
    made = attention()
    (at,) = (i for i, item in enumerate(made.graph.node) if item.op_type == "Softmax")
    made.graph.node[at].input[0] = "masked"
    made.graph.node.insert(at, node("Add", "scores mask", "masked"))
    made.graph.initializer.append(
        numpy_helper.from_array(normal(*shape).astype(np.float16), "mask")
    )
    graph = optimise(from_model(made), TURING)
    assert_agrees(graph, made)
    (shares,) = (n for n in graph.nodes if isinstance(n, Fusion) and "Softmax" in n.kind)
    assert [item.op for item in shares.primitives][:2] == ["Add", "Softmax"]
    assert kernel_family(shares, TURING) == "rows"


def test_without_a_kernel_nothing_is_rounded():
    for made, target in ((attention(), CPU), (attention(dtype="float32"), HOPPER)):
        graph = optimise(from_model(made), target)
        taken = [w.in_dtype for w in products(graph) if isinstance(w, BatchedGemm)]
        assert taken == (["float32"] * 2 if target is CPU else [])
        assert_agrees(graph, made)


@pytest.mark.parametrize(
    ("nodes", "taken"),
    [
        ([node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t")], True),
        ([node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t", "m"),
          node("Div", "one m")], True),
        ([node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t", "m"),
          node("Mul", "m row"), ], True),
        ([node("MatMul", "x batch")], False),
    ],
    ids=["square", "reciprocal", "scales of columns", "constant"],
)  # fmt: skip
def test_what_is_taken_of_what_lies_around(nodes, taken):
    half = np.float16
    constants = {"one": np.array(1, half), "row": np.linspace(1, 2, 5).astype(half),
                 "batch": normal(3, 11, 4).astype(half)}  # fmt: skip
    used = {name for item in nodes for name in item.input}
    constants = {name: value for name, value in constants.items() if name in used}
    made = model(nodes, {"x": ((3, 5, 11), "float16")}, constants)
    graph = optimise(from_model(made), HOPPER)
    assert_agrees(graph, made)
    found = products(graph)
    assert [type(w) for w in found] == ([BatchedGemm] if taken else [])
