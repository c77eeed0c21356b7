"""Constant images behind padded convolutions are a bias for every kind of border."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node
from optimised_models import pair
from qdq.oracle import Oracle, normal_feeds, run_in_memory

from autoq.frontend import from_model
from autoq.graph import Layer, evaluate, optimise
from autoq.quantization.quantize import quantize
from autoq.templates.borders.classes import border_classes
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
CPU = parse_target("cpu")


def image_of(rng: np.random.Generator, conv: Conv2d, dtype=np.float32) -> np.ndarray:
    """A random image [1, k, p, q] that differs by kinds of borders."""
    rows, columns = border_classes(conv)
    table = rng.normal(size=(conv.k, rows.count, columns.count)).astype(dtype)
    return table[None, :, rows.places()[:, None], columns.places()]


def random_conv(rng: np.random.Generator) -> Conv2d:
    taps, strides = rng.integers(1, 5, 2), rng.integers(1, 3, 2)
    padding = tuple(int(size) for size in rng.integers(0, 3, 4))
    return Conv2d(
        2, *(int(size) for size in rng.integers(5, 10, 2)), 16, 16, *(int(tap) for tap in taps),
        tuple(int(step) for step in strides), padding if any(padding) else (1, 0, 0, 0),
        zero_point_border=True,
    )  # fmt: skip


def quantised(conv: Conv2d, image: np.ndarray, rng: np.random.Generator) -> onnx.ModelProto:
    """The convolution of bytes, the image, perhaps a Relu and a residual; all else in bytes."""
    top, left, bottom, right = conv.padding
    constants = {
        "s": np.float32(0.04), "z": np.uint8(120), "wz": np.int8(0), "ws": np.float32(0.01),
        "w": rng.integers(-100, 101, (16, 16, conv.r, conv.s)).astype(np.int8), "image": image,
        "b": rng.normal(size=16).astype(np.float32), "s1": np.float32(0.05), "z1": np.uint8(90),
    }  # fmt: skip
    order = "c image" if rng.integers(2) else "image c"
    nodes = [
        *pair("x", "d"), node("DequantizeLinear", "w ws wz", "v"),
        node("Conv", "d v b", "c", pads=[top, left, bottom, right], strides=conv.stride),
        node("Add", order, "a"),
    ]  # fmt: skip
    if rng.integers(2):
        nodes.append(node("Relu", "a", "r"))
    nodes += pair(nodes[-1].output[0], "y", "s1", "z1")
    shape = (conv.n, conv.c, conv.h, conv.w)
    inputs = {"x": (shape, "float32")}
    if rng.integers(2):
        nodes += [*pair("other", "o"), node("Add", "y o", "u"), *pair("u", "w1", "s1", "z1")]
        inputs["other"] = (conv.n, conv.k, conv.p, conv.q), "float32"
    return model(nodes, inputs, constants, outputs=(nodes[-2].output[0],))


def bordered(graph) -> list[bool]:
    layers = (one.workload for one in graph.nodes if isinstance(one, Layer))
    return [work.border_bias for work in layers if isinstance(work, Conv2d)]


@pytest.mark.parametrize("seed", range(4))
def test_images_of_borders_become_biases(seed):
    rng = np.random.default_rng(seed)
    conv = random_conv(rng)
    made = quantised(conv, image_of(rng, conv), rng)
    feeds = normal_feeds(made, rng)
    oracle = Oracle(made, feeds)
    for target in (HOPPER, CPU):
        graph = optimise(from_model(made), target)
        assert bordered(graph) == [True]
        assert not oracle.complaint(evaluate(graph, feeds)), target


def test_other_images_stay_additions():
    rng = np.random.default_rng(0)
    conv = Conv2d(2, 6, 6, 16, 16, 3, 3, padding=(1, 1, 1, 1), zero_point_border=True)
    made = quantised(conv, rng.normal(size=(1, 16, 6, 6)).astype(np.float32), rng)
    feeds = normal_feeds(made, rng)
    graph = optimise(from_model(made), HOPPER)
    assert bordered(graph) == [False]
    assert not Oracle(made, feeds).complaint(evaluate(graph, feeds))


def test_quantisation_leaves_them_in_floats(tmp_path):
    rng = np.random.default_rng(1)
    conv = Conv2d(2, 8, 8, 16, 16, 3, 3, padding=(1, 1, 1, 1), zero_point_border=True)
    constants = {
        "w": rng.normal(size=(16, 16, 3, 3)).astype(np.float32), "image": image_of(rng, conv),
        "b": rng.normal(size=16).astype(np.float32), "other": rng.normal(size=(1, 16, 8, 8)),
    }  # fmt: skip
    constants["other"] = constants["other"].astype(np.float32)
    pads = [1, 1, 1, 1]
    nodes = [
        node("Conv", "x w b", "c", pads=pads), node("Add", "c image", "a"), node("Relu", "a", "r"),
        node("Conv", "r w b", "c1", pads=pads), node("Add", "c1 other"),
    ]  # fmt: skip
    made = model(nodes, {"x": ((2, 16, 8, 8), "float32")}, constants)
    onnx.save(made, tmp_path / "float.onnx")
    feeds = normal_feeds(made, rng)
    quantize(tmp_path / "float.onnx", feeds, tmp_path / "bytes.onnx")
    found = onnx.load(tmp_path / "bytes.onnx")
    onnx.checker.check_model(found)
    convolutions = {one.output[0] for one in found.graph.node if one.op_type == "Conv"}
    adds = [one for one in found.graph.node if one.op_type == "Add"]
    assert [bool(convolutions & set(one.input)) for one in adds] == [True, False]
    graph = optimise(from_model(found), HOPPER)
    assert bordered(graph) == [True, False]
    (y,), (exact,) = (run_in_memory(one, feeds).values() for one in (found, made))
    assert np.abs(evaluate(graph, feeds)["y"] - y).max() <= np.abs(exact).max() / 100
    assert np.abs(y - exact).max() < np.abs(exact).max() / 20
