"""Networks of tokens with random weights: their structure and the range of their activations."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from autoq.models import bert, mlp_mixer, vit

SMALL_VIT = {"layers": 2, "width": 32, "heads": 2, "patch": 8, "image": 32, "classes": 10}
SMALL_MIXER = {"layers": 2, "width": 32, "hidden": (16, 64), "image": 64, "classes": 10}
MODELS = {
    "bert": (bert(2, length=16, width=64, heads=4), (1, 16, 64), (1, 16, 64), 2 * 8),
    "vit": (vit(**SMALL_VIT), (1, 3, 32, 32), (1, 10), 2 * 8 + 1),
    "mixer": (mlp_mixer(**SMALL_MIXER), (1, 3, 64, 64), (1, 10), 2 * 4 + 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_structure_and_sane_activations(name):
    model, shape, out_shape, products = MODELS[name]
    ops = Counter(node.op_type for node in model.graph.node)
    assert ops["MatMul"] == products and ops["Erf"] == 2 * (1 + (name == "mixer"))
    sums = [node.output[0] for node in model.graph.node if node.op_type == "MatMul"]
    for value in sums:
        model.graph.output.append(
            helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, None)
        )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    y, *values = session.run(None, {"input": x})
    assert y.shape == out_shape
    assert all(0.02 < value.std() < 50 for value in values)


def test_sizes_of_the_papers():
    """Millions of weights of a layer of BERT-base, of MLP-Mixer-S/16 and of ViT-S/16."""
    small_vit = vit(width=384, heads=6)
    for model, millions in ((bert(), 7.1), (mlp_mixer(), 18.5), (small_vit, 22.05)):
        count = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
        assert abs(count / 1e6 - millions) < 0.1
