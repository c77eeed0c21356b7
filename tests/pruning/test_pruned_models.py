"""Pruned ONNX models: which numbers they hold, and that onnxruntime computes them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models.oracle import run_onnxruntime

import autoq
from autoq.errors import InputError, ModelError
from autoq.pruning.activation_norms import activation_norms
from autoq.pruning.model import PruneOptions, prune
from autoq.pruning.onnx_weights import find_weights
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.quantization.quantize import quantize

RNG = np.random.default_rng(5)
WEIGHTS = {
    "conv.w": RNG.normal(0, 0.1, (32, 16, 3, 3)),
    "conv.b": RNG.normal(0, 0.1, 32),
    "grouped.w": RNG.normal(0, 0.3, (32, 1, 3, 3)),
    "gemm.w": RNG.normal(0, 0.2, (48, 32)),
    "gemm.b": RNG.normal(0, 0.1, 48),
    "matmul.w": RNG.normal(0, 0.2, (48, 40)),
}
X = np.random.default_rng(6).standard_normal((2, 16, 9, 7)).astype(np.float32)


def network(weights=WEIGHTS, **conv) -> onnx.ModelProto:
    """A convolution, a depthwise one, a Gemm of a transposed weight, and a MatMul."""
    conv = conv or {"pads": [1] * 4, "strides": [2, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "conv.w", "conv.b"], ["a"], "conv", **conv),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "grouped.w"], ["c"], "grouped", group=32),
        helper.make_node("GlobalAveragePool", ["c"], ["d"], "pool"),
        helper.make_node("Flatten", ["d"], ["e"], "flatten"),
        helper.make_node("Gemm", ["e", "gemm.w", "gemm.b"], ["f"], "gemm", transB=1),
        helper.make_node("MatMul", ["f", "matmul.w"], ["y"], "matmul"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 16, 9, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 40])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(network(), str(path))
    return path


def initializers(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def matrix(name, array):
    """As `OnnxWeight` should see it, written down once more."""
    if name == "conv.w":
        return array.transpose(2, 3, 1, 0).reshape(9 * 16, 32)
    return array.T if name == "gemm.w" else array


@pytest.mark.parametrize("kind", ["ew", "bw", "tw", "tew", "tvw"])
def test_a_float_model(model, tmp_path, kind):
    pattern = Pattern.make(kind, {"ew": 1, "bw": 4}.get(kind, 16))
    options = PruneOptions(keep_channels=True)
    result = prune(model, tmp_path / "out.onnx", pattern, 0.75, options)
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)
    assert result.sparsity == pytest.approx(0.75, abs=0.005)
    assert [(one.name, one.reason) for one in result.left] == [("grouped", "a grouped convolution")]
    before, after = initializers(model), initializers(tmp_path / "out.onnx")
    masked = dict(WEIGHTS)
    for one in result.weights:
        dense, pruned = (matrix(one.weight, held[one.weight]) for held in (before, after))
        mask = one.structure.mask
        assert np.array_equal(pruned, np.where(mask, dense, 0))
        assert one.shape == dense.shape and one.sparsity == pytest.approx((pruned == 0).mean())
        size = np.abs(dense)
        assert one.lost == pytest.approx(size[~mask].sum() / size.sum())
        masked[one.weight] = after[one.weight]
    assert {one.weight for one in result.weights} == {"conv.w", "gemm.w", "matmul.w"}
    onnx.save(network(masked), str(tmp_path / "by_hand.onnx"))
    outputs = [run_onnxruntime(tmp_path / f, {"x": X})["y"] for f in ("out.onnx", "by_hand.onnx")]
    assert np.array_equal(*outputs) and np.ptp(outputs[0]) > 0.1


def test_a_quantised_model_keeps_its_scales(model, tmp_path):
    """Integers become their zero point: here 3, beside a scale for every column."""
    quantize(model, None, tmp_path / "q.onnx")
    proto = onnx.load(tmp_path / "q.onnx")
    tensors = {t.name: t for t in proto.graph.initializer}
    points = tensors["matmul.w_zero_point"]
    shifted = numpy_helper.to_array(points) + np.int8(3)
    points.CopyFrom(numpy_helper.from_array(shifted, points.name))
    onnx.save(proto, str(tmp_path / "q.onnx"))
    out = tmp_path / "out.onnx"
    options = PruneOptions(keep_channels=True)
    result = prune(tmp_path / "q.onnx", out, Pattern.make("tvw", 16), 0.75, options)
    onnx.checker.check_model(onnx.load(out), full_check=True)
    before, after = initializers(tmp_path / "q.onnx"), initializers(out)
    assert result.sparsity == pytest.approx(0.75, abs=0.005)
    names = [one.weight for one in result.weights]
    assert names == ["conv.w_quantized", "gemm.w_quantized", "matmul.w_quantized"]
    for one in result.weights:
        name = one.weight.removesuffix("_quantized")
        zero = 3 if name == "matmul.w" else 0
        dense, pruned = (matrix(name, held[one.weight]) for held in (before, after))
        assert pruned.dtype == np.int8
        assert np.array_equal(pruned, np.where(one.structure.mask, dense, zero))
    others = set(before) - set(names)
    assert all(np.array_equal(before[name], after[name]) for name in others)
    assert set(run_onnxruntime(out, {"x": X})) == {"y"}


def test_real_values_of_integers_are_ranked(model, tmp_path):
    """A column of large integers with a small scale goes before one of small integers."""
    quantize(model, None, tmp_path / "q.onnx")
    weights, _ = find_weights(onnx.load(tmp_path / "q.onnx"))
    for weight, name in zip(weights, ("conv.w", "gemm.w", "matmul.w"), strict=True):
        dense = matrix(name, WEIGHTS[name])
        step = np.abs(dense).max(axis=0) / 127
        assert (np.abs(weight.values() - dense) <= step * 0.501 + 1e-7).all()


@pytest.mark.parametrize(
    "conv",
    [
        {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "VALID"},
    ],
)
def test_norms_of_activations(conv):
    """Beside those of im2col, here the convolutions of x with a single one in their filter."""
    proto = network(**conv)
    weights, _ = find_weights(proto)
    norms = activation_norms(proto, weights, [{"x": X}, {"x": X * 2}])
    probe = {**WEIGHTS, "conv.w": np.zeros((144, 16, 3, 3)), "conv.b": np.zeros(144)}
    for row, place in enumerate(np.ndindex(3, 3, 16)):
        probe["conv.w"][row][(place[2], *place[:2])] = 1
    columns = network(probe, **conv)
    del columns.graph.node[1:]
    columns.graph.output[0].CopyFrom(helper.make_tensor_value_info("a", TensorProto.FLOAT, None))
    from onnx.reference import ReferenceEvaluator

    (found,) = ReferenceEvaluator(columns).run(None, {"x": X})
    expected = np.sqrt(5 * np.square(found).sum(axis=(0, 2, 3)))
    assert np.allclose(norms[0], expected, rtol=1e-5)
    assert [len(one) for one in norms] == [144, 32, 48]


def test_activations_and_gradients_rank_weights(model, tmp_path):
    scaled = X * np.where(np.arange(16) < 8, 1, 1e-3).astype(np.float32)[:, None, None]
    options = PruneOptions(("gemm", "matmul"), Bounds(), {"x": scaled})
    ew = Pattern.make("ew")
    (by_inputs,) = prune(model, tmp_path / "a.onnx", ew, 0.5, options).weights
    assert by_inputs.structure.mask.reshape(9, 16, 32)[:, 8:].mean() < 0.02
    gradients = {name: np.ones(WEIGHTS[name].shape) for name in ("conv.w", "gemm.w", "matmul.w")}
    gradients["conv.w"][:, :, 1:] = 1e-6
    options = PruneOptions(("gemm", "matmul"), Bounds(), gradients=gradients)
    (by_loss,) = prune(model, tmp_path / "b.onnx", ew, 2 / 3, options).weights
    assert by_loss.structure.mask.reshape(9, 16, 32)[3:].mean() == 0


def test_weights_that_others_read_stay(tmp_path):
    shared = network({**WEIGHTS, "matmul.w": RNG.normal(0, 1, (48, 48))})
    shared.graph.node.append(helper.make_node("MatMul", ["y", "matmul.w"], ["z"], "again"))
    (both,) = [w for w in find_weights(shared)[0] if w.tensor.name == "matmul.w"]
    assert [node.name for node in both.readers] == ["matmul", "again"]
    shared.graph.node.append(helper.make_node("Gemm", ["z", "matmul.w"], ["u"], "third", transB=1))
    weights, left = find_weights(shared)
    assert "matmul.w" not in {w.tensor.name for w in weights}
    assert [one.name for one in left] == ["grouped", "matmul", "again", "third"]


REFUSED = {
    "unknown node": ({"skip": ("relu",)}, ("skip 'relu'", "conv, gemm, matmul")),
    "everything skipped": ({"skip": ("conv", "gemm", "matmul")}, ("no weight to prune",)),
    "two rankings": ({"calibration": {"x": X}, "gradients": {}}, ("give one",)),
    "no gradients": ({"gradients": {"conv.w": WEIGHTS["conv.w"]}}, ("'gemm.w'", "skip")),
    "gradients of another shape": (
        {"gradients": {n: WEIGHTS[n].T for n in ("conv.w", "gemm.w", "matmul.w")}},
        ("[3, 3, 16, 32]", "[32, 16, 3, 3]"),
    ),
    "names in one text": ({"skip": "conv"}, ("names of nodes in a list",)),
    "samples of another shape": ({"calibration": {"x": X[:, :3]}}, ("[2, 16, 9, 7]",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(model, tmp_path, name):
    options, words = REFUSED[name]
    with pytest.raises((InputError, ModelError)) as raised:
        prune(model, tmp_path / "out.onnx", Pattern.make("ew"), 0.5, PruneOptions(**options))
    assert all(word in str(raised.value) for word in words), raised.value
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ew", "half"), "sparsity 'half'"),
        (("ew", None), "sparsity None"),
        (("xw", 0.5), "'xw'; choose ew or vw"),
        ((None, 0.5), "a Pattern or its name"),
        (("ew", 0.5, ["conv"]), "PruneOptions do"),
    ],
)
def test_what_is_no_argument(model, tmp_path, arguments, words):
    with pytest.raises(InputError, match=words):
        autoq.prune(model, tmp_path / "out.onnx", *arguments)
    with pytest.raises(InputError, match=r"granularity 1\.5"):
        Pattern.make("tw", 1.5)
