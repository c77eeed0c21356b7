"""Concatenations done by convolutions change no bit, and are left to others where they must."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from qdq.oracle import normal_feeds
from qdq.writer import GraphWriter, Real

from autoq.frontend import from_model, load
from autoq.graph import Layer, evaluate, optimise
from autoq.models import shufflenet_v2
from autoq.quantization.quantize import quantize
from autoq.templates.operators.concat import Concat
from autoq.templates.target import parse_target

HOPPER, OLDER = parse_target("cuda:sm_90a"), parse_target("cuda:sm_75")


def convolution(w: GraphWriter, x: Real, k: int, taps: int = 1, groups: int = 1) -> Real:
    """Of stride 1 that keeps the image, sometimes with a clamp."""
    weight, scale = w.weights((k, x.shape[1] // groups, taps, taps))
    bias = [w.bias(k, x, scale)] if w.chance(0.7) else []
    shape = (x.shape[0], k, *x.shape[2:])
    y = w.node("Conv", [x.name, weight, *bias], shape, pads=[taps // 2] * 4, group=groups)
    y = w.node("Relu", [y.name], shape) if w.chance(0.6) else y
    return kept(w, quantised(w, y))


def quantised(w: GraphWriter, x: Real) -> Real:
    """Q and DQ behind `x`, now and then of another scheme."""
    y = w.quantise(x)
    if w.chance(0.03):
        return w.dequantise(y)
    return w.node("DequantizeLinear", [y.name, y.scale, y.zero_point], y.shape)


def kept(w: GraphWriter, x: Real) -> Real:
    """The tensor, which now and then becomes an output or is read by something else."""
    if w.chance(0.01):
        w.reals.append(w.node("Sigmoid", [x.name], x.shape))
    if w.chance(0.01):
        w.reals.append(x)
    return x


def branch(w: GraphWriter, x: Real, k: int) -> Real:
    """Two 1x1 convolutions around a depthwise one, or less."""
    y = convolution(w, x, k)
    if w.chance(0.7):
        y = convolution(w, y, k, taps=3, groups=k)
    return convolution(w, y, k, taps=3 if w.chance(0.02) else 1)


def sliced(w: GraphWriter, x: Real, first: int, last: int) -> Real:
    names = [x.name, *(w.constant([value], "int64") for value in (first, last, 1, 1))]
    y = w.node("Slice", names, (x.shape[0], last - first, *x.shape[2:]))
    return quantised(w, y) if w.chance(0.03) else y


def joined(w: GraphWriter, left: Real, right: Real) -> Real:
    """Concatenation in either order, quantised, shuffled."""
    pair = [left, right][:: int(w.choose([1, 1, 1, -1]))]
    shape = (left.shape[0], left.shape[1] + right.shape[1], *left.shape[2:])
    y = kept(w, quantised(w, w.node("Concat", [x.name for x in pair], shape, axis=1)))
    if shape[1] % 2 or w.chance(0.2):
        return y
    apart = (shape[0], 2, shape[1] // 2, *shape[2:])
    for op, wanted in (("Reshape", apart), ("Transpose", None), ("Reshape", shape)):
        if op == "Transpose":
            turned = (shape[0], shape[1] // 2, 2, *shape[2:])
            y = w.node("Transpose", [y.name], turned, perm=[0, 2, 1, 3, 4])
        else:
            y = w.node("Reshape", [y.name, w.constant(wanted, "int64")], wanted)
    return kept(w, y)


def shuffled_units(rng: np.random.Generator) -> onnx.ModelProto:
    """A chain of units as ShuffleNet V2 has them, of unrelated schemes and odd splits."""
    w = GraphWriter(rng, exact=True)
    w.dtypes = ["int8", "uint8"]
    half = int(w.choose([7, 13, 14, 16, 23]))
    x = w.reals[0]
    x = joined(w, branch(w, x, half), branch(w, x, half + int(w.chance(0.2))))
    for _ in range(int(rng.integers(1, 4))):
        c = x.shape[1]
        middle = c // 2 + int(w.chance(0.1))
        right = branch(w, sliced(w, x, middle, c), c - middle)
        x = joined(w, sliced(w, x, 0, middle), right)
    w.reals = [*w.reals[1:], convolution(w, x, 5)]
    if w.chance(0.7):  # else any tensor of the units may be an output
        w.integers = w.integers[-1:]
    return w.finish()


def concatenations(graph) -> int:
    return sum(isinstance(n, Layer) and isinstance(n.workload, Concat) for n in graph.nodes)


def beside(graph) -> int:
    convs = [n.workload for n in graph.nodes if isinstance(n, Layer)]
    return sum(getattr(getattr(w, "epilogue", None), "concatenates", False) for w in convs)


@pytest.mark.parametrize("seed", range(12))
def test_random_units_keep_every_bit(seed):
    rng = np.random.default_rng(seed)
    model = shuffled_units(rng)
    feeds = normal_feeds(model, rng)
    graph = from_model(model)
    outputs = evaluate(optimise(graph, HOPPER), feeds)
    for name, value in evaluate(optimise(graph, OLDER), feeds).items():
        np.testing.assert_array_equal(outputs[name], value)


def test_random_units_are_mostly_absorbed():
    """The test above would prove nothing of graphs that the pass leaves alone."""
    graphs = [optimise(from_model(shuffled_units(np.random.default_rng(seed))), HOPPER)
              for seed in range(24)]  # fmt: skip
    assert sum(map(beside, graphs)) > 15
    assert sum(map(concatenations, graphs)) > 5


def test_shufflenet_has_no_kernels_but_its_layers(tmp_path):
    onnx.save(shufflenet_v2(image=32), tmp_path / "f.onnx")
    quantize(tmp_path / "f.onnx", None, tmp_path / "q.onnx")
    graph = load(tmp_path / "q.onnx")
    optimised = optimise(graph, HOPPER)
    # 56 convolutions, the product, two pools, one kernel at either end.
    assert len(optimised.nodes) == 61
    assert beside(optimised) == 16
    x = {"input": np.random.default_rng(0).standard_normal((1, 3, 32, 32), np.float32)}
    (y,), (expected,) = (evaluate(g, x).values() for g in (optimised, optimise(graph, OLDER)))
    np.testing.assert_array_equal(y, expected)
