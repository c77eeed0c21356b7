"""Layouts over a graph: the least total time, re-layouts only where they pay, the same bits."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoq.graph import Graph, Layer, Tensor, evaluate
from autoq.graph.lowering.layouts import choose_layouts
from autoq.measure.arrays import random_case
from autoq.templates.arrays.layout import LAYOUTS, NHWC, NHWCNC
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.relayout import Relayout

SHAPE = (8, 3, 3, 16)
COPY = 10.0


class Costs:
    """Seconds of convolutions by their number and layouts; copies take `copy` seconds each.

    A convolution's number is its dilation, which changes nothing about one tap.
    """

    def __init__(self, seconds: Callable[[int, str, str], float | None], copy: float = COPY):
        self._seconds = seconds
        self._copy = copy

    def copying_seconds(self, copy: Relayout) -> float:
        return self._copy

    def seconds(self, workload: Conv2d) -> float | None:
        return self._seconds(workload.dilation[0], workload.in_layout, workload.out_layout)


def conv(number: int, x: str, y: str, residual: str | None = None) -> Layer:
    epilogue = Epilogue("int8", "int8" if residual else None)
    workload = Conv2d(*SHAPE, 16, 1, 1, dilation=(number, 1), epilogue=epilogue)
    _, constants = random_case(workload, number)
    return Layer(workload, constants, (x, residual) if residual else (x,), y, (y,))


def addition(a: str, b: str, y: str) -> Layer:
    workload = Add(SHAPE)
    _, constants = random_case(workload, 3)
    return Layer(workload, constants, (a, b), y, (y,))


def graph_of(nodes: list[Layer], outputs: tuple[str, ...] | None = None) -> Graph:
    names = ["x", *(node.output for node in nodes)]
    tensors = {name: Tensor(name, SHAPE, "int8") for name in names}
    return Graph("test", tensors, list(nodes), ("x",), outputs or (names[-1],))


def layouts(graph: Graph) -> list[str]:
    """The graph in short: "1 NHWC>NHWCnc" for a convolution, "copy a" and "add" for others."""
    text = []
    for node in graph.nodes:
        work = node.workload
        if isinstance(work, Conv2d):
            text.append(f"{work.dilation[0]} {work.in_layout}>{work.out_layout}")
        else:
            text.append("add" if isinstance(work, Add) else f"copy {node.inputs[0]}")
    return text


def blocked(*fast: int) -> Callable[[int, str, str], float]:
    """15 seconds less for each NHWCnc side of a fast convolution, 6 more of any other one."""

    def seconds(number: int, in_layout: str, out_layout: str) -> float:
        sides = (in_layout, out_layout).count(NHWCNC)
        return 100.0 + sides * (-15.0 if number in fast else 6.0)

    return seconds


CHAIN = [conv(1, "x", "a"), conv(2, "a", "b"), conv(3, "b", "c"), conv(4, "c", "y")]


def test_a_chain_keeps_one_layout():
    """Its ends change layout inside convolutions, so nothing is copied but the input."""
    found = choose_layouts(graph_of(CHAIN), Costs(blocked(1, 2, 3, 4)))
    assert layouts(found) == [
        "copy x", "1 NHWCnc>NHWCnc", "2 NHWCnc>NHWCnc", "3 NHWCnc>NHWCnc", "4 NHWCnc>NHWC",
    ]  # fmt: skip
    assert found.tensors["b"].shape == (1, 3, 3, 1, 8, 16)
    assert found.tensors["y"].shape == SHAPE and found.outputs == ("y",)


def test_a_copy_that_does_not_pay_is_left_out():
    costs = Costs(blocked(1, 2, 3, 4), copy=16.0)
    assert layouts(choose_layouts(graph_of(CHAIN), costs))[0] == "1 NHWC>NHWCnc"


@pytest.mark.parametrize(("copy", "third"), [(10.0, NHWCNC), (5.0, NHWC)])
def test_a_slow_convolution_is_crossed_where_copies_cost_more(copy, third):
    """The third one loses 12 seconds in NHWCnc; going around it takes two copies."""
    graph = graph_of([*CHAIN[:3], conv(4, "c", "d"), conv(5, "d", "y")])
    found = laid_out(choose_layouts(graph, Costs(_uniform({3}), copy)))
    assert [found[number][0] for number in range(1, 6)] == [NHWCNC, NHWCNC, third, NHWCNC, NHWC]


def _uniform(slow: set[int]) -> Callable[[int, str, str], float | None]:
    """Convolutions that read and write one layout: NHWCnc saves 30 seconds, or costs 12."""

    def seconds(number: int, in_layout: str, out_layout: str) -> float | None:
        if in_layout != out_layout:
            return None
        return 100.0 + (0 if in_layout == NHWC else 12.0 if number in slow else -30.0)

    return seconds


def test_a_tensor_is_copied_once_for_all_its_readers():
    nodes = [
        conv(1, "x", "a"), conv(2, "a", "b"), conv(3, "a", "c"), addition("b", "c", "y"),
    ]  # fmt: skip

    def seconds(number: int, in_layout: str, out_layout: str) -> float | None:
        if number == 1:
            return 100.0 if (in_layout, out_layout) == (NHWC, NHWC) else None
        return blocked(2, 3)(number, in_layout, out_layout) if out_layout == NHWC else None

    found = choose_layouts(graph_of(nodes), Costs(seconds, copy=20.0))
    assert layouts(found) == ["1 NHWC>NHWC", "copy a", "2 NHWCnc>NHWC", "3 NHWCnc>NHWC", "add"]
    assert found.nodes[2].inputs == found.nodes[3].inputs == (found.nodes[1].output,)


def test_a_residual_is_in_the_layout_of_the_output():
    nodes = [
        conv(1, "x", "a"), conv(2, "a", "b"), conv(3, "b", "c", residual="a"), conv(4, "c", "y"),
    ]  # fmt: skip
    found = choose_layouts(graph_of(nodes), Costs(blocked(1, 2, 3, 4), copy=16.0))
    assert layouts(found) == [
        "1 NHWC>NHWCnc", "2 NHWCnc>NHWCnc", "3 NHWCnc>NHWCnc", "4 NHWCnc>NHWC",
    ]  # fmt: skip


def test_the_graph_stays_as_it_is_where_nhwc_is_best():
    graph = graph_of(CHAIN)
    assert choose_layouts(graph, Costs(blocked())) is graph
    assert choose_layouts(graph, Costs(lambda *_: None)) is graph
    assert choose_layouts(graph, Costs(lambda *_: 5.0)) is graph, "a tie goes to NHWC"


def test_outputs_and_reshaped_tensors_stay_nhwc():
    graph = graph_of(CHAIN, outputs=("b", "y"))
    graph.tensors["c"] = Tensor("c", (8, 144), "int8")
    graph.tensors["x"] = Tensor("x", (8, 16, 3, 3), "int8")
    found = choose_layouts(graph, Costs(blocked(1, 2, 3, 4), copy=1.0))
    assert layouts(found) == [
        "1 NHWC>NHWCnc", "2 NHWCnc>NHWC", "copy b", "3 NHWCnc>NHWC", "4 NHWC>NHWC",
    ]  # fmt: skip


def total(graph: Graph, sides: dict[int, tuple[str, str]], costs: Costs) -> float:
    """Time of a choice of (in_layout, out_layout) for every convolution, by its definition."""
    written, needed, seconds = {"x": NHWC}, set(), 0.0
    for node in graph.nodes:
        in_layout = out_layout = NHWC
        if isinstance(node.workload, Conv2d):
            in_layout, out_layout = sides[node.workload.dilation[0]]
            laid = dataclasses.replace(node.workload, in_layout=in_layout, out_layout=out_layout)
            time = costs.seconds(laid)
            seconds += float("inf") if time is None else time
        written[node.output] = out_layout
        needed.update(zip(node.inputs, (in_layout, out_layout), strict=False))
    copies = {(name, layout) for name, layout in needed if written[name] != layout}
    return seconds + len(copies) * costs.copying_seconds(Relayout(*SHAPE, NHWC, NHWCNC))


def laid_out(graph: Graph) -> dict[int, tuple[str, str]]:
    works = [node.workload for node in graph.nodes if isinstance(node.workload, Conv2d)]
    return {work.dilation[0]: (work.in_layout, work.out_layout) for work in works}


@st.composite
def random_graphs(draw) -> Graph:
    nodes: list[Layer] = []
    for index in range(draw(st.integers(1, 4))):
        names = st.sampled_from(["x", *(node.output for node in nodes)])
        kind = draw(st.sampled_from(["conv", "residual", "add"]))
        x, other, y = draw(names), draw(names), f"t{index}"
        if kind == "add":
            nodes.append(addition(x, other, y))
        else:
            nodes.append(conv(index + 1, x, y, other if kind == "residual" else None))
    return graph_of(nodes)


@settings(max_examples=40, deadline=None)
@given(random_graphs(), st.integers(0, 1 << 30), st.integers(1, 12))
def test_no_choice_is_faster_and_the_bits_stay(graph, seed, copy):
    pairs = list(itertools.product(LAYOUTS, LAYOUTS))
    times = np.random.default_rng(seed).integers(1, 20, (5, len(pairs)))
    costs = Costs(lambda number, *pair: float(times[number, pairs.index(pair)]), float(copy))
    found = choose_layouts(graph, costs)
    numbers = list(laid_out(graph))
    last = graph.nodes[-1].workload
    free = [
        [pair for pair in pairs if work is not last or pair[1] == NHWC]
        for work in (node.workload for node in graph.nodes) if isinstance(work, Conv2d)
    ]  # fmt: skip
    choices = [dict(zip(numbers, choice, strict=True)) for choice in itertools.product(*free)]
    best = min(total(graph, choice, costs) for choice in choices)
    assert total(graph, laid_out(found), costs) == best
    x = np.random.default_rng(1).integers(-128, 128, SHAPE).astype(np.int8)
    np.testing.assert_array_equal(
        evaluate(found, {"x": x})[graph.outputs[0]], evaluate(graph, {"x": x})[graph.outputs[0]]
    )
    copies = [node for node in found.nodes if isinstance(node.workload, Relayout)]
    made = {(node.inputs[0], node.workload.out_layout) for node in copies}
    assert len(made) == len(copies), "a tensor was copied twice"
    for node in found.nodes:
        shapes = [found.tensors[name].shape for name in node.inputs]
        assert shapes == list(node.input_shapes), "a node reads a tensor of another layout"


def test_many_tensors_alive_at_once_are_no_worse_than_nhwc():
    """Twelve of them have more states than are kept."""
    nodes = [conv(i + 1, "x", f"t{i}") for i in range(12)]
    nodes += [conv(i + 13, f"t{i}", f"u{i}", f"u{i - 1}" if i else None) for i in range(12)]
    graph = graph_of(nodes)
    costs = Costs(blocked(*range(1, 25)))
    found = choose_layouts(graph, costs)
    plain = total(graph, laid_out(graph), costs)
    assert total(graph, laid_out(found), costs) <= plain - 30.0 * 20


@pytest.mark.parametrize("copy", [1.0, COPY, 1000.0])
def test_no_copy_between_two_convolutions_of_one_layout(copy):
    found = choose_layouts(graph_of(CHAIN), Costs(_uniform({2}), copy))
    producers = found.producers()
    for node in found.nodes:
        if isinstance(node.workload, Relayout):
            before = producers.get(node.inputs[0])
            after = [reader for reader in found.nodes if node.output in reader.inputs]
            assert before is None or before.workload.out_layout != node.workload.out_layout
            assert all(reader.workload.in_layout == node.workload.out_layout for reader in after)
    assert (copy < 1000.0) == any(isinstance(node.workload, Relayout) for node in found.nodes)


def test_tensors_in_another_layout_keep_the_type_of_their_numbers():
    graph = graph_of([conv(1, "x", "a"), conv(2, "a", "b"), conv(3, "b", "c")])
    for name in "ab":
        graph.tensors[name] = dataclasses.replace(graph.tensors[name], values="int4")
    costs = Costs(lambda number, x, y: 30.0 if (x, y) == (NHWC, NHWC) else 1.0)
    chosen = choose_layouts(graph, costs)
    moved = {t.name: t for t in chosen.tensors.values() if t.shape != SHAPE}
    assert moved and all(t.values == "int4" and t.dtype == "int8" for t in moved.values())
