"""Channels of sums: they leave the model where all products that are added prune them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models.oracle import run_onnxruntime

from autoq.errors import InputError
from autoq.models import resnet
from autoq.pruning.matrices import prune_matrices
from autoq.pruning.model import PruneOptions, prune
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.pruning.ties import Joint, Ties
from autoq.quantization.quantize import quantize

TW = Pattern.make("tw", 16)
ALIKE = Bounds(0.75, 0.75)


def residual_network() -> onnx.ModelProto:
    """A sum of two branches, a block around which the sum goes on, and a linear layer.

    The block's first convolution is padded, and reads constant channels at its borders.
    """
    rng = np.random.default_rng(0)
    shapes = {
        "one": (48, 8, 3, 3), "two": (64, 48, 1, 1), "side": (64, 8, 1, 1), "three": (48, 64, 3, 3),
        "four": (64, 48, 3, 3), "last": (10, 64),
    }  # fmt: skip
    tensors = []
    for name, shape in shapes.items():
        weight = rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)
        tensors.append(numpy_helper.from_array(weight.astype(np.float32), f"{name}.w"))
        bias = rng.normal(0.3, 0.5, shape[0]).astype(np.float32)
        tensors.append(numpy_helper.from_array(bias, f"{name}.b"))

    def convolution(name, x, y, pads):
        inputs = [x, f"{name}.w", f"{name}.b"]
        return helper.make_node("Conv", inputs, [y], name, pads=[pads] * 4)

    nodes = [
        convolution("one", "x", "a", 1),
        helper.make_node("Relu", ["a"], ["b"], "relu1"),
        convolution("two", "b", "c", 0),
        convolution("side", "x", "d", 0),
        helper.make_node("Add", ["c", "d"], ["e"], "add1"),
        helper.make_node("Relu", ["e"], ["f"], "relu2"),
        convolution("three", "f", "g", 1),
        helper.make_node("Relu", ["g"], ["h"], "relu3"),
        convolution("four", "h", "i", 1),
        helper.make_node("Add", ["i", "f"], ["j"], "add2"),
        helper.make_node("Relu", ["j"], ["k"], "relu4"),
        helper.make_node("GlobalAveragePool", ["k"], ["l"], "pool"),
        helper.make_node("Flatten", ["l"], ["m"], "flatten"),
        helper.make_node("Gemm", ["m", "last.w", "last.b"], ["y"], "last", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8, 7, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 10])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def by_hand(path, output, result):
    """The model with all channels and its weights masked, but for rows that multiply constants."""
    proto = onnx.load(path)
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    masks = {one.name: one.structure.mask for one in result.weights}
    kept = {name: mask.any(axis=0) for name, mask in masks.items()}
    summed = kept["two"] | kept["side"] | kept["four"]
    reads = {"two": kept["one"], "three": summed, "four": kept["three"]}
    for name, mask in masks.items():
        whole = mask.copy()
        if name in reads:
            dead = np.tile(~reads[name], len(mask) // len(reads[name]))
            assert not mask[dead].any() and dead.any()
            whole[np.ix_(dead, kept[name])] = True
        tensor = tensors[f"{name}.w"]
        values = numpy_helper.to_array(tensor)
        out, channels, *taps = values.shape
        stored = np.moveaxis(whole.reshape(*taps, channels, out), (-1, -2), (0, 1))
        tensor.CopyFrom(numpy_helper.from_array(np.where(stored, values, 0), tensor.name))
    onnx.save(proto, str(output))
    return kept


def widths(path):
    graph = onnx.load(path).graph
    dims = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    found = {n.name: dims[n.input[1]] for n in graph.node if n.op_type in ("Conv", "Gemm")}
    return {name: shape[:2] for name, shape in found.items()}


@pytest.fixture
def model(tmp_path):
    onnx.save(residual_network(), str(tmp_path / "m.onnx"))
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("joint", [False, True])
def test_a_residual_sum_without_its_constant_channels(tmp_path, model, joint):
    options = PruneOptions(("last",), ALIKE, joint_channels=joint)
    result = prune(model, tmp_path / "out.onnx", TW, 0.75, options)
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)
    kept = by_hand(model, tmp_path / "hand.onnx", result)
    x = {"x": np.random.default_rng(1).standard_normal((2, 8, 7, 6)).astype(np.float32)}
    y, expected = (run_onnxruntime(tmp_path / f, x)["y"] for f in ("out.onnx", "hand.onnx"))
    assert np.allclose(y, expected, atol=2e-5) and np.ptp(expected) > 0.1
    found = widths(tmp_path / "out.onnx")
    inner = [-(-kept[name].sum() // 16) * 16 for name in ("one", "three")]
    summed = kept["two"] | kept["side"] | kept["four"]
    outer = -(-summed.sum() // 16) * 16
    assert found == {
        "one": [inner[0], 8], "two": [outer, inner[0]], "side": [outer, 8],
        "three": [inner[1], outer], "four": [outer, inner[1]], "last": [10, outer],
    }  # fmt: skip
    if joint:
        assert outer == 32 and all((kept[name] == summed).all() for name in ("two", "side", "four"))
    else:
        assert not (kept["two"] == kept["side"]).all()


def test_a_quantised_residual_sum_without_its_constant_channels(tmp_path, model):
    pruned, integers = tmp_path / "p.onnx", tmp_path / "q.onnx"
    prune(model, pruned, TW, 0.75, PruneOptions(("last",), ALIKE, joint_channels=True))
    x = np.random.default_rng(1).standard_normal((2, 8, 7, 6)).astype(np.float32)
    quantize(pruned, {"x": x}, integers)
    y, expected = (run_onnxruntime(file, {"x": x})["y"] for file in (integers, pruned))
    assert np.abs(y - expected).mean() < 0.03 * np.abs(expected).mean()


def test_a_whole_network_keeps_half_of_each_sum(tmp_path):
    """The first stage adds to a pool of a convolution that is not pruned."""
    onnx.save(resnet(18, image=32), str(tmp_path / "m.onnx"))
    options = PruneOptions(("conv1", "fc"), ALIKE, joint_channels=True)
    result = prune(
        tmp_path / "m.onnx", tmp_path / "out.onnx", Pattern.make("tw", 64), 0.75, options
    )
    found = widths(tmp_path / "out.onnx")
    assert found["conv1"] == [64, 3] and found["fc"] == [1000, 256]
    assert [found[f"layer{stage}.1.conv2"] for stage in (1, 2, 3, 4)] == [
        [64, 32], [64, 64], [128, 128], [256, 256],
    ]  # fmt: skip
    assert all(abs(one.sparsity - 0.75) < 0.01 for one in result.weights)


def test_columns_that_go_together_are_the_least_important_of_all_matrices():
    rng = np.random.default_rng(2)
    scores = [rng.random((40, 32)), rng.random((80, 32)), rng.random((40, 32))]
    scores[0][:, :16] += 3.0
    made = prune_matrices(scores, TW, 0.75, [ALIKE] * 3, Ties(joint=[Joint((0, 1))]))
    first, second, third = (one.mask.any(axis=0) for one in made)
    assert (first == second).all() and not (second == third).all()
    assert first[:16].all() and not first[16:].any()
    apart = prune_matrices(scores, TW, 0.75, [ALIKE] * 3)
    assert not (apart[0].mask.any(axis=0) == apart[1].mask.any(axis=0)).all()


def test_patterns_without_columns_have_no_sums(tmp_path, model):
    for name in ("ew", "vw", "bw", "tew"):
        with pytest.raises(InputError, match="prunes no columns; tw and tvw do"):
            options = PruneOptions(joint_channels=True)
            prune(model, tmp_path / "out.onnx", Pattern.make(name), 0.5, options)


def test_sums_of_what_is_no_product_keep_their_channels(tmp_path, model):
    proto = onnx.load(model)
    side = next(node for node in proto.graph.node if node.name == "side")
    side.CopyFrom(helper.make_node("AveragePool", ["x2"], ["d"], "side", kernel_shape=[1, 1]))
    proto.graph.input.append(helper.make_tensor_value_info("x2", TensorProto.FLOAT, [2, 64, 7, 6]))
    onnx.save(proto, str(model))
    prune(model, tmp_path / "out.onnx", TW, 0.75, PruneOptions(("last",), joint_channels=True))
    assert widths(tmp_path / "out.onnx")["three"][1] == 64
