"""Branches that become one change no bit, and stay apart where zeros would cost more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from qdq.oracle import Oracle, normal_feeds
from qdq.writer import GraphWriter, Real

from autoq.frontend import from_model
from autoq.graph import Layer, evaluate, optimise
from autoq.templates.operators.concat import Concat
from autoq.templates.target import parse_target

HOPPER, OLDER = parse_target("cuda:sm_90a"), parse_target("cuda:sm_75")


def convolution(w: GraphWriter, x: Real, k: int, taps: int) -> Real:
    """Of one type and one zero point mostly, which is what lets branches join."""
    weight, scale = w.weights((k, x.shape[1], taps, taps))
    bias = [w.bias(k, x, scale)] if w.chance(0.7) else []
    shape = (x.shape[0], k, *x.shape[2:])
    y = w.node("Conv", [x.name, weight, *bias], shape, pads=[taps // 2] * 4)
    y = w.quantise(w.node("Relu", [y.name], shape))
    y = w.node("DequantizeLinear", [y.name, y.scale, y.zero_point], y.shape)
    if w.chance(0.03):
        w.reals.append(y)  # may become an output
    return y


def modules(rng: np.random.Generator) -> onnx.ModelProto:
    """A chain of concatenations of one to three branches with one to three filters each."""
    w = GraphWriter(rng, exact=True)
    w.dtypes = ["uint8"]
    x = w.reals[0]
    for _ in range(int(rng.integers(1, 3))):
        sizes = [[1, 3], [1], [3, 1, 3]][int(rng.integers(3))]
        branches = []
        for _ in range(int(rng.integers(2, 5))):
            y = x
            for taps in sizes if w.chance(0.7) else [1, 3]:
                y = convolution(w, y, int(rng.integers(1, 12)), taps)
            branches.append(y)
        shape = (x.shape[0], sum(y.shape[1] for y in branches), *x.shape[2:])
        y = w.quantise(w.node("Concat", [y.name for y in branches], shape, axis=1))
        x = w.node("DequantizeLinear", [y.name, y.scale, y.zero_point], y.shape)
    w.reals = [*w.reals[1:], x]
    return w.finish()


def test_a_part_that_stands_twice_beside_joined_ones():
    w = GraphWriter(np.random.default_rng(5), exact=True)
    w.dtypes = ["uint8"]
    x = w.reals[0]
    parts = [convolution(w, x, k, taps) for k, taps in ((6, 3), (5, 1), (7, 1), (4, 3))]
    parts += [parts[0], parts[3]]
    shape = (x.shape[0], sum(y.shape[1] for y in parts), *x.shape[2:])
    w.reals = [w.quantised(w.node("Concat", [y.name for y in parts], shape, axis=1))]
    model = w.finish()
    feeds = normal_feeds(model, np.random.default_rng(1))
    graph = optimise(from_model(model), HOPPER)
    assert joined(graph) == 1
    assert not Oracle(model, feeds).complaint(evaluate(graph, feeds))


def joined(graph) -> int:
    """Concatenations that take several parts from one tensor."""
    return sum(
        isinstance(n, Layer) and isinstance(n.workload, Concat) and bool(n.workload.sources)
        for n in graph.nodes
    )


@pytest.mark.parametrize("seed", range(8))
def test_random_modules_keep_every_bit(seed):
    rng = np.random.default_rng(seed)
    model = modules(rng)
    feeds = normal_feeds(model, rng)
    graph = from_model(model)
    outputs = evaluate(optimise(graph, HOPPER), feeds)
    for name, value in evaluate(optimise(graph, OLDER), feeds).items():
        np.testing.assert_array_equal(outputs[name], value)


def test_random_modules_are_mostly_joined():
    """The test above would prove nothing of graphs that the pass leaves alone."""
    graphs = [from_model(modules(np.random.default_rng(seed))) for seed in range(8)]
    free = replace(HOPPER, launch_seconds=1e-15)  # filters of one input have no zeros between them
    found, where_free, unknown = (
        sum(joined(optimise(graph, target)) for graph in graphs) for target in (HOPPER, free, OLDER)
    )
    assert found > where_free > unknown == 0
