"""Products of two quantised activations become one kernel with what stands around them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node
from optimised_models import optimised, pair
from qdq.oracle import normal_feeds, run_in_memory

from autoq.frontend import from_model
from autoq.graph import Layer, evaluate, optimise
from autoq.graph.passes.layers.batched_axes import Source, common_axes
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import parse_target

TARGETS = [parse_target("cpu"), parse_target("cuda")]
HEADS = (2, 5, 3, 4)
CONSTANTS = {
    "s": np.float32(0.05), "t": np.float32(0.07), "u": np.float32(0.3),
    "z": np.int8(3), "zu": np.uint8(120), "c": np.float32(0.125),
    "w": np.ones((4, 6), np.float32), "flat": np.int64([30, 12]),
}  # fmt: skip


def products(made: onnx.ModelProto, target) -> list[BatchedGemm]:
    """The workloads of a graph in which nothing else is left."""
    found = optimised(made, target)
    assert all(isinstance(n, Layer) and isinstance(n.workload, BatchedGemm) for n in found)
    return [node.workload for node in found]


ATTENTION = [
    *pair("q", "qd", "s", "zu"), *pair("k", "kd"), *pair("v", "vd", "t"),
    node("Transpose", "qd", "qt", perm=[0, 2, 1, 3]),
    node("Transpose", "kd", "kt", perm=[0, 2, 3, 1]),
    node("Transpose", "vd", "vt", perm=[0, 2, 1, 3]),
    node("MatMul", "qt kt", "a"), *pair("a", "ad", "u"),
    node("MatMul", "ad vt", "b"), *pair("b", "bd", "u"),
    node("Transpose", "bd", "y", perm=[0, 2, 1, 3]),
]  # fmt: skip
QKV = {name: (HEADS, "float32") for name in "qkv"}


@pytest.mark.parametrize("target", TARGETS)
def test_attention_transposes_nothing(target):
    scores, values = products(model(ATTENTION, QKV, CONSTANTS), target)
    assert (scores.batch, scores.heads, scores.m, scores.n, scores.k) == (2, 3, 5, 5, 4)
    assert (scores.x_order, scores.other_order, scores.y_order) == ("bmhk", "bnhk", "bhmn")
    assert (values.batch, values.heads, values.m, values.n, values.k) == (2, 3, 5, 4, 5)
    assert (values.x_order, values.other_order, values.y_order) == ("bhmk", "bkhn", "bmhn")


@pytest.mark.parametrize("target", TARGETS)
def test_a_result_that_others_read_is_not_transposed(target):
    made = model([*ATTENTION, node("Relu", "bd", "r")], QKV, CONSTANTS, outputs=("y", "r"))
    found = [n for n in optimised(made, target) if isinstance(n, Layer)]
    orders = [n.workload.y_order for n in found if isinstance(n.workload, BatchedGemm)]
    assert orders == ["bhmn", "bhmn"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_transposition_between_two_products_belongs_to_the_first(target):
    nodes = [*pair("q", "qd"), *pair("k", "kd"), node("Transpose", "kd", "kt", perm=[0, 1, 3, 2]),
             node("MatMul", "qd kt", "a"), *pair("a", "ad", "u"),
             node("Transpose", "ad", "at", perm=[0, 2, 1, 3]), *pair("p", "pd"),
             node("MatMul", "at pd", "b"), *pair("b", "y", "u")]  # fmt: skip
    shapes = {"q": (2, 5, 3, 4), "k": (2, 5, 3, 4), "p": (2, 3, 3, 4)}
    inputs = {name: (shape, "float32") for name, shape in shapes.items()}
    first, second = products(model(nodes, inputs, CONSTANTS), target)
    assert first.y_order == "bmhn" and second.x_order == "bhmk"


MATRICES = {"x": ((3, 5, 4), "float32"), "o": ((3, 4, 6), "float32"), "r": ((3, 5, 6), "float32")}
START = [*pair("x", "xd"), *pair("o", "od", "t", "zu"), node("MatMul", "xd od", "m")]
TAILS = {
    "float32": ([node("Identity", "m", "y")], ("float32", None)),
    "clamp": ([node("Relu", "m", "c1"), *pair("c1", "y", "u")], ("int8", None)),
    "residual": (
        [*pair("m", "n", "u"), *pair("r", "e"), node("Add", "e n", "a"), *pair("a", "y", "t")],
        ("int8", "int8"),
    ),
    "float_residual": ([node("Add", "m r", "a"), *pair("a", "y", "t")], ("int8", "float32")),
    "turned": (
        [*pair("m", "n", "u"), node("Transpose", "n", "y", perm=[0, 2, 1])], ("int8", None)
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tail", TAILS)
def test_what_follows_is_in_the_epilogue(tail, target):
    nodes, (out_dtype, residual_dtype) = TAILS[tail]
    workload, *rest = optimised(model([*START, *nodes], MATRICES, CONSTANTS), target)
    assert isinstance(workload, Layer) and len(rest) == (tail == "turned")
    epilogue = workload.workload.epilogue
    kinds = {"int8": ("int8", "uint8"), "float32": ("float32",), None: (None,)}
    assert epilogue.out_dtype in kinds[out_dtype]
    assert epilogue.residual_dtype in kinds[residual_dtype]


@pytest.mark.parametrize("target", TARGETS)
def test_a_tensor_by_its_own_transpose(target):
    nodes = [*pair("x", "xd"), node("Transpose", "xd", "xt", perm=[0, 2, 1]),
             node("MatMul", "xd xt", "m"), *pair("m", "y", "u")]  # fmt: skip
    (workload,) = products(model(nodes, {"x": MATRICES["x"]}, CONSTANTS), target)
    assert (workload.products, workload.other_order) == (3, "bhnk")


@pytest.mark.parametrize("target", TARGETS)
def test_integers_come_out_as_sums(target):
    inputs = {"a": ((2, 5, 4), "uint8"), "b": ((2, 4, 6), "uint8")}
    made = model([node("MatMulInteger", "a b zu zu")], inputs, CONSTANTS)
    feeds = normal_feeds(made, np.random.default_rng(1))
    graph = optimise(from_model(made), target)
    assert [n.workload.epilogue.out_dtype for n in graph.nodes] == ["int32"]
    expected = run_in_memory(made, feeds)
    np.testing.assert_array_equal(evaluate(graph, feeds)["y"], expected["y"])


@pytest.mark.parametrize("target", TARGETS)
def test_one_matrix_for_a_whole_batch_multiplies_all_rows(target):
    nodes = [*pair("x", "xd"), *pair("p", "pd"), node("MatMul", "xd pd", "m"), *pair("r", "rd"),
             *pair("m", "n", "u"), node("Add", "n rd", "a"), *pair("a", "y")]  # fmt: skip
    inputs = {"x": MATRICES["x"], "p": ((1, 4, 6), "float32"), "r": MATRICES["r"]}
    (workload,) = products(model(nodes, inputs, CONSTANTS), target)
    assert (workload.products, workload.m, workload.n, workload.k) == (1, 15, 6, 4)
    assert workload.epilogue.residual_dtype in ("int8", "uint8")


UNFIT = {
    "broadcast": [*pair("p", "pd"), *pair("o", "od"), node("MatMul", "pd od", "m")],
    "constant": [*pair("x", "xd"), *pair("w", "wd"), node("MatMul", "xd wd", "m")],
    "float32": [*pair("x", "xd"), node("MatMul", "xd o", "m")],
}


@pytest.mark.parametrize("kind", UNFIT)
def test_other_products_are_left(kind):
    inputs = {**MATRICES, "p": ((1, 5, 4), "float32")}
    nodes = [*UNFIT[kind], *pair("m", "n", "u"), node("Add", "n r", "y")]
    found = optimised(model(nodes, inputs, CONSTANTS), TARGETS[0])
    layers = [n.workload for n in found if isinstance(n, Layer)]
    batched = [w for w in layers if isinstance(w, BatchedGemm)]
    # A CPU has a kernel for products of float32, which are not products of bytes for that.
    assert all(w.in_dtype == "float32" == w.epilogue.out_dtype for w in batched)
    assert len(batched) == (kind == "float32" and TARGETS[0].kind == "cpu")


def test_axes_of_one_element_lie_anywhere():
    x = [Source("turned", ("row", 1, "column")), Source("x", (1, "row", "column"))]
    other = [Source("other", (1, "column"))]  # one column of k
    y = [Source("y", (1, "row"))]
    axes = common_axes((1, 3), {"x": x, "other": other, "y": y})
    assert axes.names["x"] == "turned" and axes.heads == 3 and axes.batch == 1
