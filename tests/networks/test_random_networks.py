"""Networks of random weights: their structure and the range of their activations."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from autoq.models import efficientnet_b0, googlenet, mobilenet_v2


def test_mobilenet_v2_and_googlenet_have_their_structure():
    for model, convolutions, millions in ((mobilenet_v2(64), 52, 3.5), (googlenet(64), 57, 6.6)):
        assert Counter(node.op_type for node in model.graph.node)["Conv"] == convolutions
        weights = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
        assert abs(weights / 1e6 - millions) < 0.06
        session = onnxruntime.InferenceSession(model.SerializeToString())
        images = np.random.default_rng(0).standard_normal((1, 3, 64, 64), np.float32)
        (logits,) = session.run(None, {"input": images})
        assert logits.shape == (1, 1000) and 0.1 < logits.std() < 10


def test_efficientnet_b0_has_its_structure_and_sane_activations():
    model = efficientnet_b0(image=64, batch=2)
    ops = Counter(node.op_type for node in model.graph.node)
    assert (ops["Conv"], ops["Sigmoid"], ops["Mul"], ops["Add"]) == (81, 65, 65, 9)
    weights = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
    assert 5.2e6 < weights < 5.4e6  # 5.3 million in the paper
    sums = [node.output[0] for node in model.graph.node if node.op_type == "Conv"]
    for name in sums:
        model.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    images = np.random.default_rng(0).standard_normal((2, 3, 64, 64), np.float32)
    logits, *values = session.run(None, {"input": images})
    assert logits.shape == (2, 1000)
    assert all(0.02 < value.std() < 50 for value in values)
