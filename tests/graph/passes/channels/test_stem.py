"""Space to depth and channel padding of the first convolution change no bit of its result."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.graph.lowering.lower import lower
from autoq.graph.passes.fusions.gather_fusions import gather_fusions
from autoq.graph.passes.layers.fuse_products import fuse_products
from autoq.graph.passes.preparation.dequantise_late import dequantise_late
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target


def stem_model(size: tuple[int, int], c: int, taps, pads, stride: int, zero_point: int):
    """Quantise, convolution, quantise, with random integers."""
    rng = np.random.default_rng(3)
    constants = {
        "xs": np.float32(0.03), "xz": np.uint8(zero_point),
        "wq": rng.integers(-127, 128, (8, c, *taps)).astype(np.int8),
        "ws": rng.uniform(0.001, 0.004, 8).astype(np.float32), "wz": np.zeros(8, np.int8),
        "b": rng.normal(0, 1, 8).astype(np.float32),
        "ys": np.float32(0.07), "yz": np.uint8(90),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["w"], axis=0),
        helper.make_node("Conv", ["d", "w", "b"], ["c"], strides=[stride] * 2, pads=pads),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "stem", [value("x", onnx.TensorProto.FLOAT, [2, c, *size])],
        [value("y", onnx.TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def plainly_lowered(made):
    """The kernels without any widening."""
    graph = from_model(made)
    dequantise_late(graph)
    fuse_products(graph, parse_target("cuda:sm_90a"), TEMPLATES)
    gather_fusions(graph)
    return lower(graph)


CASES = list(itertools.product([(7, 7), (3, 3), (5, 2), (1, 1)], [0, 1, 3], [1, 2, 3], [1, 2]))


@pytest.mark.parametrize(("taps", "pad", "c", "stride"), CASES)
def test_widened_stem_is_exact(taps, pad, c, stride):
    made = stem_model((12, 14), c, taps, [pad, pad // 2, pad, pad], stride, zero_point=77)
    x = np.random.default_rng(0).standard_normal((2, c, 12, 14), np.float32) * 3
    expected = evaluate(plainly_lowered(made), {"x": x})["y"]
    for target, multiple in (("cuda", 16), ("cpu", 4)):
        wide = optimise(from_model(made), parse_target(target))
        np.testing.assert_array_equal(evaluate(wide, {"x": x})["y"], expected, err_msg=target)
        workload = next(n.workload for n in wide.nodes if isinstance(n.workload, Conv2d))
        assert workload.c % multiple == 0


def test_resnet_stem_becomes_a_four_by_four_convolution():
    made = stem_model((224, 224), 3, (7, 7), [3, 3, 3, 3], 2, zero_point=77)
    graph = optimise(from_model(made), parse_target("cuda"))
    conv = graph.nodes[1].workload
    assert (conv.r, conv.s, conv.c, conv.stride) == (4, 4, 16, (1, 1))
    assert conv.padding == (2, 2, 1, 1) and (conv.p, conv.q) == (112, 112)
    assert graph.nodes[0].workload.block == 2


@pytest.mark.parametrize(
    ("size", "image", "c"), [(4, (12, 20), 3), (16, (32, 16), 3), (3, (9, 6), 5)]
)
def test_patches_become_a_product_of_matrices(size, image, c):
    made = stem_model(image, c, (size, size), [0] * 4, size, zero_point=77)
    wide = optimise(from_model(made), parse_target("cuda"))
    x = np.random.default_rng(0).standard_normal((2, c, *image), np.float32) * 3
    expected = evaluate(plainly_lowered(made), {"x": x})["y"]
    np.testing.assert_array_equal(evaluate(wide, {"x": x})["y"], expected)
    first, conv = (node.workload for node in wide.nodes[:2])
    assert first.planes and (conv.r, conv.s, conv.stride) == (1, 1, (1, 1))
    assert conv.c == -(-c * size**2 // 16) * 16


@pytest.mark.parametrize(
    ("taps", "stride", "image", "pads"),
    [
        ((4, 4), 4, (14, 12), [0] * 4),
        ((4, 2), 4, (12, 12), [0] * 4),
        ((4, 4), 4, (10, 12), [1, 0] * 2),
    ],
)
def test_other_windows_are_no_patches(taps, stride, image, pads):
    made = stem_model(image, 3, taps, pads, stride, zero_point=77)
    wide = optimise(from_model(made), parse_target("cuda"))
    x = np.random.default_rng(0).standard_normal((2, 3, *image), np.float32) * 3
    expected = evaluate(plainly_lowered(made), {"x": x})["y"]
    np.testing.assert_array_equal(evaluate(wide, {"x": x})["y"], expected)
    assert not wide.nodes[0].workload.planes
