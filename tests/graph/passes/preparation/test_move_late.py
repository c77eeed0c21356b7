"""What a transposed convolution's pixels are put side by side behind."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models.makers import model, node, normal
from qdq.oracle import normal_feeds, run_in_memory

from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.graph.float_kernels import float_kernels
from autoq.templates.target import parse_target


def decoder(scales: int, axis: int) -> object:
    """A quantised transposed convolution 4x4 of stride 2 and a Relu, doubled behind."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.05), "z": np.uint8(120), "t": np.float32(0.1), "u": np.uint8(0),
        "w": rng.integers(-99, 99, (6, 5, 4, 4)).astype(np.int8),
        "ws": rng.uniform(0.5, 1.5, scales).astype(np.float32) / 100,
        "wz": np.zeros(scales, np.int8), "b": normal(5),
    }  # fmt: skip
    if scales == 1:
        constants |= {"ws": constants["ws"][0], "wz": np.int8(3)}
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w ws wz", "v", axis=axis),
        node("ConvTranspose", "d v b", "c", strides=[2, 2], pads=[1, 1, 0, 1]),
        node("Relu", "c", "r"), node("QuantizeLinear", "r t u", "p"),
        node("DequantizeLinear", "p t u", "y"), node("Identity", "p", "bytes"),
    ]  # fmt: skip
    return model(nodes, {"x": ((2, 6, 4, 5), "float32")}, constants, ("y", "bytes"))


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90a"])
@pytest.mark.parametrize("scales", [1, 5])
def test_a_transposed_convolution_stays_in_integers(scales, target):
    made = decoder(scales, 1)
    feeds = normal_feeds(made, np.random.default_rng(1))
    graph = optimise(from_model(made), parse_target(target))
    assert float_kernels(graph).floats == 0
    found, expected = evaluate(graph, feeds)["bytes"], run_in_memory(made, feeds)["bytes"]
    assert np.abs(found.astype(int) - expected).max() <= 1 and (found == expected).mean() > 0.99


def test_scales_of_inputs_are_computed_in_floats():
    made = decoder(6, 0)
    feeds = normal_feeds(made, np.random.default_rng(1))
    found = evaluate(optimise(from_model(made), parse_target("cpu")), feeds)["bytes"]
    assert np.abs(found.astype(int) - run_in_memory(made, feeds)["bytes"]).max() <= 1
