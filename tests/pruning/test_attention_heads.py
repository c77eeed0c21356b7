"""Heads of attention that leave a model, and those that cannot."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models.oracle import run_onnxruntime

from autoq.models.bert import bert
from autoq.models.token_writer import TokenWriter
from autoq.pruning.model import PruneOptions, prune
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds

WIDTH, HEADS, EACH = 64, 4, 16
HALF = PruneOptions(bounds=Bounds(0.75, 0.75), joint_channels=True)
TW = Pattern.make("tw", 16)
PARTS = ("query", "key", "value")


def widths(path):
    graph = onnx.load(path).graph
    dims = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    return {
        n.name: dims[n.input[1]] for n in graph.node if n.op_type == "MatMul" and n.input[1] in dims
    }


def by_hand(path, output, result):
    """The model with all its heads and hidden channels, but for rows of constants as they were."""
    proto = onnx.load(path)
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    masks = {one.name: one.structure.mask for one in result.weights}
    reads = {"attention.output": "attention.value", "contract": "expand"}
    for one in result.weights:
        mask = masks[one.name].copy()
        layer, kind = one.name.split(".", 1)
        if kind in reads:
            dead = ~masks[f"{layer}.{reads[kind]}"].any(axis=0)
            mask[np.ix_(dead, mask.any(axis=0))] = True
        values = numpy_helper.to_array(tensors[one.weight])
        made = numpy_helper.from_array(np.where(mask, values, 0), one.weight)
        tensors[one.weight].CopyFrom(made)
    onnx.save(proto, str(output))
    return {name: mask.any(axis=0) for name, mask in masks.items()}


def test_whole_heads_leave_and_outputs_stay(tmp_path):
    onnx.save(bert(2, 8, WIDTH, HEADS, batch=2), str(tmp_path / "m.onnx"))
    result = prune(tmp_path / "m.onnx", tmp_path / "out.onnx", TW, 0.75, HALF)
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)
    kept = by_hand(tmp_path / "m.onnx", tmp_path / "hand.onnx", result)
    found = widths(tmp_path / "out.onnx")
    for layer in ("layer0", "layer1"):
        heads = kept[f"{layer}.attention.value"].reshape(HEADS, EACH)
        assert (heads.any(axis=1) == heads.all(axis=1)).all() and heads.sum() == WIDTH // 2
        for part in PARTS:
            assert (kept[f"{layer}.attention.{part}"] == heads.ravel()).all()
            assert found[f"{layer}.attention.{part}"] == [WIDTH, WIDTH // 2]
        assert found[f"{layer}.attention.output"] == [WIDTH // 2, WIDTH]
    x = {"input": np.random.default_rng(0).standard_normal((2, 8, WIDTH)).astype(np.float32)}
    y, expected = (
        next(iter(run_onnxruntime(tmp_path / f, x).values())) for f in ("out.onnx", "hand.onnx")
    )
    assert np.allclose(y, expected, atol=2e-5) and np.ptp(expected) > 1


def test_heads_stay_where_their_columns_are_ranked_alone(tmp_path):
    onnx.save(bert(1, 8, WIDTH, HEADS), str(tmp_path / "m.onnx"))
    alone = PruneOptions(bounds=HALF.bounds)
    prune(tmp_path / "m.onnx", tmp_path / "out.onnx", TW, 0.75, alone)
    assert widths(tmp_path / "out.onnx")["layer0.attention.output"] == [WIDTH, WIDTH]


def attention_with_a_mask(heads_of_mask):
    """Attention whose scores are masked, the mask of each head by itself or alike for all."""
    writer = TokenWriter(np.random.default_rng(1))
    rng = np.random.default_rng(2)
    mask = np.where(rng.random((1, heads_of_mask, 8, 8)) < 0.2, -1e4, 0).astype(np.float32)
    y = writer.attention("input", (1, 8, WIDTH), HEADS, "attention", writer.constant(mask, "mask"))
    return writer.tokens_model("attention", y, (1, 8, WIDTH), (1, 8, WIDTH))


@pytest.mark.parametrize("heads_of_mask", [1, HEADS])
def test_masks_that_are_alike_for_all_heads(tmp_path, heads_of_mask):
    onnx.save(attention_with_a_mask(heads_of_mask), str(tmp_path / "m.onnx"))
    prune(tmp_path / "m.onnx", tmp_path / "out.onnx", TW, 0.75, HALF)
    left = WIDTH // 2 if heads_of_mask == 1 else WIDTH
    assert widths(tmp_path / "out.onnx")["attention.value"] == [WIDTH, left]
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)
    x = {"input": np.random.default_rng(0).standard_normal((1, 8, WIDTH)).astype(np.float32)}
    (y,) = run_onnxruntime(tmp_path / "out.onnx", x).values()
    assert np.isfinite(y).all()


def test_heads_stay_where_something_else_reads_the_shares(tmp_path):
    proto = attention_with_a_mask(1)
    proto.graph.output.append(
        helper.make_tensor_value_info("attention.softmax", TensorProto.FLOAT, None)
    )
    names = {name for node in proto.graph.node for name in node.output}
    softmax = next(node.output[0] for node in proto.graph.node if node.op_type == "Softmax")
    assert softmax in names
    proto.graph.output[-1].name = softmax
    onnx.save(proto, str(tmp_path / "m.onnx"))
    prune(tmp_path / "m.onnx", tmp_path / "out.onnx", TW, 0.75, HALF)
    assert widths(tmp_path / "out.onnx")["attention.value"] == [WIDTH, WIDTH]
