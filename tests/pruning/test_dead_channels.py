"""Channels that become constant leave the model, and what they add stays."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models.oracle import run_onnxruntime

from autoq.models.bert import bert
from autoq.pruning.dead_channels import without_a_rest
from autoq.pruning.model import PruneOptions, prune
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.quantization.quantize import quantize

TVW = Pattern.make("tvw", 8)


def network(pads=1, strides=1) -> onnx.ModelProto:
    """Two convolutions with a pool between, two linear layers, and GELU-like nodes between them."""
    rng = np.random.default_rng(0)
    weights = {
        "one.w": rng.normal(0, 0.2, (32, 8, 3, 3)) * rng.uniform(0.3, 1, (32, 1, 1, 1)),
        "one.b": rng.normal(0.3, 0.5, 32),
        "slope": rng.normal(0, 0.3, (32, 1, 1)),
        "two.w": rng.normal(0, 0.1, (24, 32, 3, 3)) * rng.uniform(0.3, 1, (24, 1, 1, 1)),
        "two.b": rng.normal(0.3, 0.5, 24),
        "three.w": rng.normal(0, 0.3, (40, 24)) * rng.uniform(0.3, 1, (40, 1)),
        "three.b": rng.normal(0, 0.5, 40),
        "four.w": rng.normal(0, 0.2, (40, 16)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "one.w", "one.b"], ["a"], "one", pads=[1] * 4),
        helper.make_node("PRelu", ["a", "slope"], ["b"], "prelu"),
        helper.make_node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2], strides=[1, 1]),
        helper.make_node(
            "Conv", ["c", "two.w", "two.b"], ["d"], "two",
            pads=[pads, 0, pads, pads], strides=[strides, 1],
        ),
        helper.make_node("Relu", ["d"], ["e"], "relu"),
        helper.make_node("GlobalAveragePool", ["e"], ["f"], "average"),
        helper.make_node("Flatten", ["f"], ["g"], "flatten"),
        helper.make_node("Gemm", ["g", "three.w", "three.b"], ["h"], "three", transB=1),
        helper.make_node("Sigmoid", ["h"], ["i"], "sigmoid"),
        helper.make_node("Mul", ["h", "i"], ["j"], "mul"),
        helper.make_node("MatMul", ["j", "four.w"], ["y"], "four"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8, 9, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 16])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def stored(weight, matrix, shape):
    if len(shape) == 4:
        return matrix.reshape(*shape[2:], shape[1], shape[0]).transpose(3, 2, 0, 1)
    return matrix.T if weight.startswith("three") else matrix


def kept_by_hand(model, path, result, first=1):
    """The model with all its channels, and the rows of constant ones as they were.

    Their products are what has to be in a bias; of weights before `first` there are none.
    """
    proto = onnx.load(model)
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    masks = [one.structure.mask for one in result.weights]
    zero = 0
    for place, one in enumerate(result.weights):
        mask = masks[place].copy()
        if place >= first:
            dead = ~masks[place - 1].any(axis=0)
            rows = np.tile(dead, len(mask) // len(dead)) & ~mask.any(axis=1)
            mask[np.ix_(rows, mask.any(axis=0))] = True
            zero += int(rows.sum())
        tensor = tensors[one.weight]
        values = numpy_helper.to_array(tensor)
        kept = np.where(stored(one.weight, mask, values.shape), values, 0).astype(values.dtype)
        tensor.CopyFrom(numpy_helper.from_array(kept, tensor.name))
    assert zero > 5
    onnx.save(proto, str(path))


def left(kept):
    """Channels that stay of those that a mask keeps: whole units of 16 or 32 where all are such."""
    unit = 32 if len(kept) == 128 else 16
    return -(-kept.sum() // unit) * unit if len(kept) % unit == 0 else kept.sum()


def shapes(path):
    graph = onnx.load(path).graph
    dims = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    kinds = ("Conv", "Gemm", "MatMul")
    return {node.name: dims[node.input[1]] for node in graph.node if node.op_type in kinds}


@pytest.mark.parametrize(("pads", "strides"), [(0, 1), (1, 1), (2, 2)])
def test_a_float_model_without_its_constant_channels(tmp_path, pads, strides):
    proto = network(pads, strides)
    if not pads:
        for attribute in proto.graph.node[3].attribute:
            if attribute.name == "pads":
                attribute.ints[:] = [0] * 4
    onnx.save(proto, str(tmp_path / "m.onnx"))
    out = tmp_path / "out.onnx"
    result = prune(tmp_path / "m.onnx", out, TVW, 0.8, PruneOptions(bounds=Bounds(0.5, 0.9)))
    onnx.checker.check_model(onnx.load(out), full_check=True)
    kept_by_hand(tmp_path / "m.onnx", tmp_path / "hand.onnx", result)
    x = np.random.default_rng(1).standard_normal((2, 8, 9, 8)).astype(np.float32)
    y, expected = (run_onnxruntime(tmp_path / f, {"x": x})["y"] for f in ("out.onnx", "hand.onnx"))
    assert np.allclose(y, expected, atol=2e-5) and np.ptp(expected) > 0.1
    columns = [one.structure.mask.any(axis=0) for one in result.weights]
    widths = [int(left(kept)) for kept in columns]
    assert widths[0] > columns[0].sum() and widths[2] == columns[2].sum()
    assert result.dead_channels == sum(len(kept) - left(kept) for kept in columns[:-1]) > 10
    found = shapes(out)
    assert found["two"] == [widths[1], widths[0], 3, 3]
    assert found["three"] == [widths[2], widths[1]] and found["four"] == [widths[2], 16]
    gathers = [node for node in onnx.load(out).graph.node if node.op_type == "Gather"]
    assert len(gathers) == (2 if pads else 0)


def test_channels_stay_on_request_and_where_outputs_show_them(tmp_path):
    proto = network()
    onnx.save(proto, str(tmp_path / "m.onnx"))
    kept = prune(
        tmp_path / "m.onnx", tmp_path / "out.onnx", TVW, 0.8,
        PruneOptions(bounds=Bounds(0.5, 0.9), keep_channels=True),
    )  # fmt: skip
    assert kept.dead_channels == 0
    assert shapes(tmp_path / "out.onnx") == shapes(tmp_path / "m.onnx")
    for name in "ceh":  # each is behind one of the three products
        proto.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    onnx.save(proto, str(tmp_path / "m.onnx"))
    shown = prune(tmp_path / "m.onnx", tmp_path / "out.onnx", TVW, 0.8)
    assert shown.dead_channels == 0


def test_constants_that_are_inputs_and_bodies_that_read_channels(tmp_path):
    """IR version 3 lists constants among inputs; a body names what it reads nowhere else."""
    proto = network(0)
    proto.ir_version = 3
    for tensor in proto.graph.initializer:
        value = helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, list(tensor.dims))
        proto.graph.input.append(value)
    onnx.save(proto, str(tmp_path / "m.onnx"))
    options = PruneOptions(bounds=Bounds(0.5, 0.9))
    result = prune(tmp_path / "m.onnx", tmp_path / "out.onnx", TVW, 0.8, options)
    assert result.dead_channels > 0
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)
    bodies = [
        helper.make_graph([helper.make_node("Identity", [name], [made])], made, [],
                          [helper.make_tensor_value_info(made, TensorProto.FLOAT, None)])
        for name, made in (("h", "then"), ("three.w", "else"))
    ]  # fmt: skip
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    branch = helper.make_node("If", ["yes"], ["z"], "if", then_branch=bodies[0],
                              else_branch=bodies[1])  # fmt: skip
    proto.graph.node.append(branch)
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    onnx.save(proto, str(tmp_path / "m.onnx"))
    result = prune(tmp_path / "m.onnx", tmp_path / "out.onnx", TVW, 0.8, options)
    assert result.dead_channels == 0
    assert [(one.name, one.reason) for one in result.left] == [
        ("three", "its weight is read by if too")
    ]


def test_a_quantised_model_without_its_constant_channels(tmp_path):
    """Constants go into biases of integers; past padding only channels of 0 are left out."""
    proto = network()
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    weak = numpy_helper.to_array(tensors["one.w"]) * np.where(np.arange(32) < 16, 0.2, 1).astype(
        np.float32
    ).reshape(32, 1, 1, 1)
    signs = np.where(np.arange(32) % 2, -0.5, 0.5).astype(np.float32)
    tensors["one.w"].CopyFrom(numpy_helper.from_array(weak, "one.w"))
    tensors["one.b"].CopyFrom(numpy_helper.from_array(signs, "one.b"))
    four = np.linspace(-1, 1, 16).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(four, "four.b"))
    proto.graph.node[1].CopyFrom(helper.make_node("Relu", ["a"], ["b"], "relu1"))
    del proto.graph.node[-3:]
    proto.graph.node.append(helper.make_node("Relu", ["h"], ["j"], "relu2"))
    proto.graph.node.append(helper.make_node("Gemm", ["j", "four.w", "four.b"], ["y"], "four"))
    onnx.save(proto, str(tmp_path / "f.onnx"))
    model, out, by_hand = (tmp_path / name for name in ("m.onnx", "out.onnx", "hand.onnx"))
    quantize(tmp_path / "f.onnx", None, model)
    result = prune(model, out, TVW, 0.8, PruneOptions(bounds=Bounds(0.5, 0.9)))
    onnx.checker.check_model(onnx.load(out), full_check=True)
    columns = [one.structure.mask.any(axis=0) for one in result.weights]
    zero = ~columns[0] & (signs < 0)
    assert 2 < zero.sum() < (~columns[0]).sum()
    widths = [left(~zero), *(kept.sum() for kept in columns[1:])]
    assert shapes_of_integers(out) == [
        [widths[0], 8, 3, 3], [widths[1], widths[0], 3, 3], [widths[2], widths[1]],
        [widths[2], 16],
    ]  # fmt: skip
    kept_by_hand(model, by_hand, result, first=2)
    x = np.random.default_rng(1).standard_normal((2, 8, 9, 8)).astype(np.float32)
    y, expected = (run_onnxruntime(f, {"x": x})["y"] for f in (out, by_hand))
    step = np.diff(np.unique(expected)).min()
    assert np.abs(y - expected).max() <= 1.01 * step and np.ptp(expected) > 20 * step


def shapes_of_integers(path):
    graph = onnx.load(path).graph
    tensors = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    sources = {node.output[0]: node.input[0] for node in graph.node}
    products = [node for node in graph.node if node.op_type in ("Conv", "Gemm")]
    return [tensors[sources[node.input[1]]] for node in products]


def test_the_hidden_layer_of_a_transformer(tmp_path):
    """GELU lies between, spelled out; the residual sums keep their channels."""
    onnx.save(bert(1, 8, 32, 2), str(tmp_path / "m.onnx"))
    alike = PruneOptions(bounds=Bounds(0.5, 0.5))
    result = prune(tmp_path / "m.onnx", tmp_path / "out.onnx", Pattern.make("tw", 8), 0.5, alike)
    masks = {one.name: one.structure.mask for one in result.weights}
    dead = ~masks["layer0.expand"].any(axis=0)
    assert result.dead_channels == len(dead) - left(~dead) > 5
    adds = [sum(node.op_type == "Add" for node in onnx.load(tmp_path / name).graph.node)
            for name in ("m.onnx", "out.onnx")]  # fmt: skip
    assert adds[0] == adds[1]  # what constants add is in biases that were there
    x = {"input": np.random.default_rng(0).standard_normal((1, 8, 32)).astype(np.float32)}
    (y,) = run_onnxruntime(tmp_path / "out.onnx", x).values()
    assert y.shape == (1, 8, 32) and np.isfinite(y).all()


@pytest.mark.parametrize(
    ("count", "constant", "stay"),
    [(64, 20, 48), (128, 40, 96), (256, 16, 256), (512, 100, 448), (24, 5, 19), (16, 16, 16)],
)
def test_what_stays_is_a_multiple_of_what_the_channels_were(count, constant, stay):
    assert count - without_a_rest(np.arange(count) < constant, 1).sum() == stay


def test_units_stay_whole():
    gone = without_a_rest(np.repeat([True, False, True, True], 48), 48)
    assert gone.reshape(4, 48).all(axis=1).sum() == gone.reshape(4, 48).any(axis=1).sum() == 2
    assert not without_a_rest(np.ones(96, bool), 48).all()
