"""Single passes: what they change, what they leave, and that the numbers stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from autoq.errors import InputError
from autoq.frontend import from_model
from autoq.graph import Fusion, Layer, dump, evaluate, optimise
from autoq.graph.passes.dtypes.activation_dtype import choose_activation_dtypes
from autoq.graph.passes.preparation.dequantise_late import dequantise_late
from autoq.graph.passes.preparation.fold_affine import fold_affine
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

CUDA, CPU = parse_target("cuda"), parse_target("cpu")
RNG = np.random.default_rng(5)


def graph_of(nodes, constants=None, shape=(1, 4, 6, 6), output_dtype=onnx.TensorProto.FLOAT):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "passes", [value("x", onnx.TensorProto.FLOAT, shape)],
        [value("y", output_dtype, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    return from_model(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def quantise(name: str, output: str) -> onnx.NodeProto:
    return helper.make_node("QuantizeLinear", [name, "s", "z"], [output])


def dequantise(name: str, output: str) -> onnx.NodeProto:
    return helper.make_node("DequantizeLinear", [name, "s", "z"], [output])


def fake_quantised(dtype: str, zero_point: int, body=(), last: str = "d", tail=True):
    """x -> Q -> DQ -> body -> Q -> DQ -> y, all of one scale."""
    nodes = [quantise("x", "q"), dequantise("q", "d"), *body, quantise(last, "p")]
    nodes += [dequantise("p", "y")] if tail else []
    constants = {"s": np.float32(0.1), "z": np.array(zero_point, dtype)}
    if not tail:
        nodes[-1].output[0] = "y"
    kind = onnx.TensorProto.FLOAT if tail else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return graph_of(nodes, constants, output_dtype=kind)


def test_equal_quantisations_cancel_through_movement():
    body = [
        helper.make_node("Transpose", ["d"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["t", "shape"], ["r"]),
    ]
    graph = graph_of(
        [quantise("x", "q"), dequantise("q", "d"), *body, quantise("r", "p"), dequantise("p", "y")],
        {"s": np.float32(0.1), "z": np.int8(3), "shape": np.int64([4, 36])},
    )
    dequantise_late(graph)
    assert [node.op for node in graph.operations] == [
        "QuantizeLinear", "Transpose", "Reshape", "DequantizeLinear",
    ]  # fmt: skip


def test_a_network_of_nothing_but_quantisation_is_one_kernel():
    graph = optimise(fake_quantised("uint8", 128), CUDA)
    assert len(graph.nodes) == 1
    x = RNG.standard_normal((1, 4, 6, 6), np.float32)
    y = evaluate(graph, {"x": x})["y"]
    expected = np.clip(np.rint(x / np.float32(0.1)), -128, 127) * np.float32(0.1)
    np.testing.assert_array_equal(y, expected.astype(np.float32))


@pytest.mark.parametrize(
    ("dtype", "zero_point", "target", "expected"),
    [
        ("int8", -128, CUDA, ("uint8", 0)),
        ("uint8", 128, CUDA, ("int8", 0)),
        ("int8", 5, CUDA, ("int8", 5)),
        ("uint8", 7, CUDA, ("uint8", 7)),
        ("int8", 5, CPU, ("uint8", 133)),
        ("uint8", 128, CPU, ("uint8", 128)),
        ("int4", -8, CUDA, ("uint4", 0)),
        ("uint4", 8, CUDA, ("int4", 0)),
        ("uint4", 7, CUDA, ("uint4", 7)),
        ("int4", 3, CPU, ("uint4", 11)),
    ],
)
def test_activation_dtype(dtype, zero_point, target, expected):
    body = [helper.make_node("MaxPool", ["d"], ["m"], kernel_shape=[2, 2])]
    graph = fake_quantised(dtype, zero_point, body, "m")
    choose_activation_dtypes(graph, target)
    node = graph.operations[0]
    assert (graph.dtype(node.output), int(node.attributes["zero_point"])) == expected


def test_integers_that_leave_the_graph_keep_their_dtype():
    graph = optimise(fake_quantised("int8", -128, tail=False), CPU)
    x = RNG.standard_normal((1, 4, 6, 6), np.float32) + 10
    y = evaluate(graph, {"x": x})["y"]
    assert y.dtype == np.int8
    np.testing.assert_array_equal(y, np.clip(np.rint(x / np.float32(0.1)) - 128, -128, 127))


@pytest.mark.parametrize("op", ["Mul", "Div", "Add", "Sub"])
@pytest.mark.parametrize("reverse", [False, True])
def test_affine_of_channels_goes_into_the_weights(op, reverse):
    constants = {"w": RNG.standard_normal((3, 4, 3, 3), np.float32), "b": np.ones(3, np.float32)}
    constants["c"] = RNG.uniform(0.5, 2, (3, 1, 1)).astype(np.float32)
    names = ["c", "a"] if reverse else ["a", "c"]
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["a"]), helper.make_node(op, names, ["y"])]
    graph = graph_of(nodes, constants)
    plain = optimise(graph_of([nodes[0], helper.make_node("Identity", ["a"], ["y"])],
                              constants), CPU)  # fmt: skip
    x = RNG.standard_normal((1, 4, 6, 6), np.float32)
    a, c = evaluate(plain, {"x": x})["y"], constants["c"]
    operation = {"Mul": np.multiply, "Div": np.divide, "Add": np.add, "Sub": np.subtract}[op]
    expected = operation(c, a) if reverse else operation(a, c)
    result = evaluate(optimise(graph, CPU), {"x": x})["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    fold_affine(graph)
    assert len(graph.operations) == (2 if (op, reverse) == ("Div", True) else 1)


def test_full_size_constant_is_not_taken_for_a_bias():
    constants = {"w": RNG.standard_normal((3, 4, 1, 1), np.float32)}
    constants["c"] = RNG.standard_normal((1, 3, 6, 6), np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]),
             helper.make_node("Add", ["a", "c"], ["y"])]  # fmt: skip
    graph = graph_of(nodes, constants)
    fold_affine(graph)
    assert [node.op for node in graph.operations] == ["Conv", "Add"]


def test_the_later_convolution_takes_the_addition():
    constants = {name: RNG.standard_normal((4, 4, 1, 1), np.float32) for name in ("w", "v")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="early"),
        helper.make_node("Conv", ["x", "v"], ["b"], name="late"),
        helper.make_node("Add", ["a", "b"], ["c"], name="add"),
        helper.make_node("Relu", ["c"], ["y"], name="relu"),
    ]
    graph = optimise(graph_of(nodes, constants), CPU)
    convs = [n for n in graph.nodes if isinstance(n, Layer) and isinstance(n.workload, Conv2d)]
    assert [conv.covers for conv in convs] == [("early",), ("late", "add", "relu")]


def test_a_value_that_others_read_is_kept():
    constants = {"w": RNG.standard_normal((4, 4, 1, 1), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Add", ["a", "r"], ["y"]),
    ]
    graph = optimise(graph_of(nodes, constants), CPU)
    x = RNG.standard_normal((1, 4, 6, 6), np.float32)
    a = np.einsum("kc,nchw->nkhw", constants["w"][:, :, 0, 0], x)
    expected = a + np.maximum(a, 0)
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], expected, rtol=1e-4, atol=1e-4)


def test_flattened_image_permutes_weights_instead_of_data():
    constants = {"w": RNG.standard_normal((5, 4, 1, 1), np.float32)}
    constants["v"] = RNG.standard_normal((180, 3), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Flatten", ["a"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["y"]),
    ]
    graph = optimise(graph_of(nodes, constants), CPU)
    kinds = [type(n.workload) if isinstance(n, Layer) else n.kind for n in graph.nodes]
    assert kinds == ["Transpose", Conv2d, Gemm]


def test_elementwise_region_is_one_operator():
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node("Mul", ["x", "a"], ["b"]),
        helper.make_node("Tanh", ["b"], ["c"]),
        helper.make_node("Add", ["c", "a"], ["y"]),
    ]
    graph = optimise(graph_of(nodes), CPU)
    assert len(graph.nodes) == 1 and isinstance(graph.nodes[0], Fusion)
    same = optimise(graph_of(nodes), CPU).nodes[0]
    assert same.key == graph.nodes[0].key and hash(same.key) == hash(graph.nodes[0].key)


def test_dump_has_a_line_for_each_node():
    graph = graph_of([helper.make_node("Relu", ["x"], ["a"]),
                      helper.make_node("Softmax", ["a"], ["y"])])  # fmt: skip
    text = dump(graph)
    assert "y: float32[1, 4, 6, 6] = Softmax" in text and "input  x" in text
    lowered = optimise(fake_quantised("uint8", 3), CPU)
    assert len(dump(lowered).splitlines()) == 1 + 1 + len(lowered.nodes) + 1


@pytest.mark.parametrize(
    "feeds",
    [{}, {"z": np.zeros(1)}, {"x": np.zeros((1, 4, 6, 6))}, {"x": np.zeros((4, 6), np.float32)}],
)
def test_evaluate_refuses_wrong_feeds(feeds):
    graph = optimise(graph_of([helper.make_node("Relu", ["x"], ["y"])]), CPU)
    with pytest.raises(InputError):
        evaluate(graph, feeds)
