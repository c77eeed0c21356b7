"""Compute only the rows that something reads: a Slice moves in front of what makes its rows.

A classifier reads one token of the last layer of a transformer. What makes the others, products
above all, is computed for nothing, as each row of theirs follows from one row of what is before
them. Attention reads all rows of its keys and values, and stays as it is.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor, prune
from autoq.graph.shapes import BROADCASTING, UNARY, Shape

_QUANTISED = ("QuantizeLinear", "DequantizeLinear")
_REDUCED = ("ReduceMean", "ReduceSum", "ReduceMax")
_LEAST_GAIN = 2
"""How many times as many rows a product has when all are computed."""


@dataclass(frozen=True)
class _Pick:
    """Some indices of an axis, evenly apart."""

    axis: int
    start: int
    step: int
    count: int

    @property
    def indices(self) -> np.ndarray:
        return self.start + self.step * np.arange(self.count)

    def on(self, axis: int) -> _Pick:
        """The same indices of another axis."""
        return _Pick(axis, self.start, self.step, self.count)

    def of(self, shape: Shape) -> Shape:
        """What is left of a shape."""
        return (*shape[: self.axis], self.count, *shape[self.axis + 1 :])


def pick_early(graph: Graph) -> None:
    """Move each Slice in front of all that it can be taken from, where that saves products."""
    around = Neighbourhood(graph)
    for leaf in [node for node in graph.operations if node.op == "Slice"]:
        pick = _pick_of(graph, leaf)
        if pick is not None:
            moved = _Moved(around, leaf, pick)
            if moved.saves:
                moved.apply()
                around = Neighbourhood(graph)
    prune(graph)


def _pick_of(graph: Graph, leaf: Operation) -> _Pick | None:
    """What a Slice takes of the one axis that it cuts."""
    given, a = graph.shape(leaf.inputs[0]), leaf.attributes
    bounds = list(zip(a["starts"], a["ends"], a["steps"], strict=True))
    cut = [axis for axis, size in enumerate(given) if bounds[axis] != (0, size, 1)]
    if len(cut) != 1 or bounds[cut[0]][2] < 1 or leaf.inputs[0] in graph.constants:
        return None
    start, _, step = bounds[cut[0]]
    return _Pick(cut[0], start, step, graph.shape(leaf.output)[cut[0]])


def _even(axis: int, indices: np.ndarray) -> _Pick | None:
    """The pick of indices, None where they are not evenly apart."""
    steps = np.diff(indices)
    if len(steps) and (steps.min() != steps.max() or steps[0] < 1):
        return None
    return _Pick(axis, int(indices[0]), int(steps[0]) if len(steps) else 1, len(indices))


class _Moved:
    """A Slice moved upwards from where it stands, past products.

    picks: of each tensor that is picked, what is read of it; changed: the operations that compute
    no more than that, in running order, and which of their inputs are picked.
    """

    def __init__(self, around: Neighbourhood, leaf: Operation, pick: _Pick) -> None:
        self.graph, self.leaf = around.graph, leaf
        self.picks = {leaf.inputs[0]: pick}
        self.changed: dict[int, list[str]] = {}
        self._products: list[Operation] = []
        nodes = self._moved_past(around)
        self._keep_behind_products(nodes)

    def _moved_past(self, around: Neighbourhood) -> list[Operation]:
        """The operations that the Slice moves past, in running order; sets `picks` of them.

        Of the whole graph it sees no more than these and what is in front of them.
        """
        graph, picks = self.graph, self.picks
        picking = Counter({self.leaf.inputs[0]: 1})
        passed: list[Operation] = []
        waiting: list[tuple[int, Operation]] = []
        _add_producer(waiting, self.leaf.inputs[0], around)
        while waiting:
            _, node = heapq.heappop(waiting)  # the last to run, whose readers have all been seen
            alone = len(around.consumers[node.output]) == picking[node.output]
            if not alone or node.output in graph.outputs:
                continue
            wanted = _wanted(graph, node, picks[node.output])
            if wanted is None or any(
                name in graph.constants or picks.get(name, pick) != pick for name, pick in wanted
            ):
                continue
            self.changed[id(node)] = [name for name, _ in wanted]
            passed.append(node)
            picks.update(wanted)
            for name, _ in wanted:
                if not picking[name]:
                    _add_producer(waiting, name, around)
                picking[name] += 1
        return passed[::-1]

    def _keep_behind_products(self, nodes: list[Operation]) -> None:
        """What stands in front of all products stays, as it is computed with what is before it."""
        behind: set[str] = set()
        for node in nodes:
            if node.op == "Gemm" or not behind.isdisjoint(self.changed[id(node)]):
                behind.add(node.output)
                self._products += [node] * (node.op == "Gemm")
            else:
                del self.changed[id(node)]

    @property
    def saves(self) -> bool:
        """Whether a product has far fewer rows so."""
        shapes = ((self.graph.shape(n.output), self.picks[n.output]) for n in self._products)
        return any(shape[0] >= _LEAST_GAIN * pick.count for shape, pick in shapes)

    def apply(self) -> None:
        """Let the changed operations compute picked tensors, and cut what they read of others."""
        graph = self.graph
        new: dict[str, str] = {}
        read = {name for names in self.changed.values() for name in names} | {self.leaf.inputs[0]}
        computed = {node.output for node in graph.operations if id(node) in self.changed}
        cut = read - computed
        nodes: list[Node] = [self._slice(name, new) for name in graph.inputs if name in cut]
        for node in graph.operations:
            if node is self.leaf:
                nodes.append(self._end(new))
            elif id(node) in self.changed:
                nodes.append(self._picked(node, new))
            else:
                nodes.append(node)
                nodes += [self._slice(name, new) for name in node.outputs if name in cut]
        graph.nodes = nodes

    def _slice(self, name: str, new: dict[str, str]) -> Operation:
        shape, pick = self.graph.shape(name), self.picks[name]
        new[name] = self._declare(name)
        starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
        axis = pick.axis
        starts[axis], steps[axis] = pick.start, pick.step
        ends[axis] = pick.start + pick.step * (pick.count - 1) + 1
        bounds = {"starts": tuple(starts), "ends": tuple(ends), "steps": tuple(steps)}
        return Operation("Slice", self.leaf.name, (name,), new[name], bounds, self.leaf.covers)

    def _declare(self, name: str) -> str:
        graph = self.graph
        shape = self.picks[name].of(graph.shape(name))
        return add_tensor(graph, f"{name}/picked", shape, graph.dtype(name))

    def _picked(self, node: Operation, new: dict[str, str]) -> Operation:
        picked = self.changed[id(node)]
        node.inputs = tuple(new[name] if name in picked else name for name in node.inputs)
        whole = node.output
        new[whole] = node.output = self._declare(whole)
        if node.op == "Reshape":
            node.attributes["shape"] = self.graph.shape(node.output)
        return node

    def _end(self, new: dict[str, str]) -> Operation:
        """What the Slice gave is there already, under another name."""
        leaf = self.leaf
        shape = {"shape": self.graph.shape(leaf.output)}
        source = new[leaf.inputs[0]]
        return Operation("Reshape", leaf.name, (source,), leaf.output, shape, leaf.covers)


def _add_producer(waiting: list[tuple[int, Operation]], name: str, around: Neighbourhood) -> None:
    """Let the operation that makes a tensor wait for its turn, the last of a graph first."""
    node = around.producers.get(name)
    if isinstance(node, Operation) and node.output == name:
        heapq.heappush(waiting, (-around.position[id(node)], node))


def _wanted(graph: Graph, node: Operation, pick: _Pick) -> list[tuple[str, _Pick]] | None:
    """What a pick of an operation's output needs of its inputs; None where all are needed.

    Inputs that are needed as a whole whatever is picked, as weights, are left out.
    """
    if node.op == "Reshape":
        own = _before_reshape(graph.shape(node.inputs[0]), graph.shape(node.output), pick)
        return None if own is None else [(node.inputs[0], own)]
    if node.op == "Transpose":
        return [(node.inputs[0], pick.on(node.attributes["perm"][pick.axis]))]
    if node.op in _QUANTISED or node.op in UNARY:
        other = node.attributes.get("axis") if node.op in _QUANTISED else None
        return [(node.inputs[0], pick)] if other != pick.axis else None
    if node.op == "Softmax":
        return [(node.inputs[0], pick)] if node.attributes["axis"] != pick.axis else None
    if node.op in _REDUCED:
        same = len(graph.shape(node.inputs[0])) == len(graph.shape(node.output))
        kept = same and pick.axis not in node.attributes["axes"]
        return [(node.inputs[0], pick)] if kept else None
    if node.op == "Gemm":
        return [(node.inputs[0], pick)] if pick.axis == 0 and len(node.inputs) == 2 else None
    if node.op in BROADCASTING:
        return _of_operands(graph, node, pick)
    return None


def _of_operands(graph: Graph, node: Operation, pick: _Pick) -> list[tuple[str, _Pick]] | None:
    """What is needed of operands that broadcast."""
    rank, wanted = len(graph.shape(node.output)), []
    for name in dict.fromkeys(node.inputs):
        axis = pick.axis - rank + len(graph.shape(name))
        if axis < 0 or graph.shape(name)[axis] == 1:
            continue
        wanted += [(name, pick.on(axis))] * node.inputs.count(name)
    return wanted


def _before_reshape(before: Shape, behind: Shape, pick: _Pick) -> _Pick | None:
    """The pick of a Reshape's input; None where it is none of one axis, evenly apart."""
    left = math.prod(behind[: pick.axis])
    first = next((i for i in range(len(before)) if math.prod(before[:i]) == left), None)
    if first is not None and before[first : first + 1] == behind[pick.axis : pick.axis + 1]:
        return pick.on(first)
    numbers = np.arange(math.prod(behind)).reshape(behind).take(pick.indices, pick.axis).reshape(-1)
    places = [np.unique(one) for one in np.unravel_index(numbers, before)]
    cut = [axis for axis, found in enumerate(places) if len(found) < before[axis]]
    product = math.prod(map(len, places)) == len(numbers)
    return _even(cut[0], places[cut[0]]) if len(cut) == 1 and product else None
