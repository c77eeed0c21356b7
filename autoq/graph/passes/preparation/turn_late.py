"""Move a transposition to channels first behind element-wise operations.

A network like ConvNeXt works on pixels, channels last, and turns what it adds to its images. Images
lie channels last in memory, so that a transposition is free on either side; computed in the order
of the product before it, what follows element by element may fuse.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor, fresh_name, prune
from autoq.graph.shapes import BROADCASTING, UNARY

TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Axes of a transposition from channels last to channels first, and back."""
_QUANTISED = ("QuantizeLinear", "DequantizeLinear")


def turn_late(graph: Graph) -> None:
    """Compute channels last what element-wise operations compute behind such a transposition.

    Each of their results is turned for the readers that need channels first; two transpositions
    that undo one another are gone.
    """
    turned = _Turned(graph)
    nodes: list[Node] = []
    for node in graph.operations:
        nodes += turned.moved(node)
    graph.nodes = nodes
    prune(graph)


def turn_first(graph: Graph) -> None:
    """Transpose an image before its pixels become one axis, where the model does so behind it.

    `[n, c, h, w]`, reshaped to `[n, c, h * w]` and transposed to `[n, h * w, c]`, are the bytes
    that a convolution writes.
    """
    around = Neighbourhood(graph)
    for node in graph.operations:
        if node.op != "Transpose" or tuple(node.attributes["perm"]) != (0, 2, 1):
            continue
        reshape = around.producer(node.inputs[0], "Reshape")
        if reshape is None or around.only_reader(reshape.output) is not node:
            continue
        shape = graph.shape(reshape.inputs[0])
        if len(shape) != 4 or graph.shape(reshape.output) != (*shape[:2], shape[2] * shape[3]):
            continue
        n, c, h, w = shape
        pixels = add_tensor(graph, f"{node.output}/last", (n, h, w, c), graph.dtype(node.output))
        first = Operation(
            "Transpose", node.name, reshape.inputs, pixels, {"perm": TO_LAST}, node.covers
        )
        last = Operation(
            "Reshape", reshape.name, (pixels,), node.output,
            {"shape": graph.shape(node.output)}, reshape.covers,
        )  # fmt: skip
        at = graph.nodes.index(node)
        graph.nodes[at : at + 1] = [first, last]
    prune(graph)


class _Turned:
    """Tensors that are transposed images: `of` maps each to the image, channels last."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.around = Neighbourhood(graph)
        self.of: dict[str, str] = {}

    def moved(self, node: Operation) -> Iterable[Node]:
        """What takes the place of `node`."""
        graph = self.graph
        if node.op == "Transpose":
            perm = tuple(node.attributes["perm"])
            source = self.of.get(node.inputs[0])
            if perm == TO_FIRST and node.inputs[0] not in graph.constants:
                self.of[node.output] = node.inputs[0]
            elif perm == TO_LAST and source is not None:
                shape = graph.shape(node.output)
                return [Operation("Reshape", node.name, (source,), node.output, {"shape": shape},
                                  node.covers)]  # fmt: skip
            return [node]
        if not self._is_elementwise(node) or not any(name in self.of for name in node.inputs):
            return [node]
        shape = graph.shape(node.output)
        if any(graph.shape(name) != shape for name in node.inputs if name in self.of):
            return [node]
        before: list[Node] = []
        inputs = []
        for name in node.inputs:
            last = self._last(node, name, before)
            if last is None:
                return [node]
            inputs.append(last)
        n, c, h, w = shape
        whole, node.inputs = node.output, tuple(inputs)
        node.output = add_tensor(graph, f"{whole}/last", (n, h, w, c), graph.dtype(whole))
        self.of[whole] = node.output
        back = Operation("Transpose", node.name, (node.output,), whole, {"perm": TO_FIRST})
        return [*before, node, back]

    def _is_elementwise(self, node: Operation) -> bool:
        return node.op in (*UNARY, *BROADCASTING) or (
            node.op in _QUANTISED and node.attributes["axis"] is None
        )

    def _last(self, node: Operation, name: str, before: list[Node]) -> str | None:
        """An operand of `node`, channels last; None where it would have to be moved."""
        graph = self.graph
        if name in self.of:
            return self.of[name]
        shape = graph.shape(name)
        if int(np.prod(shape)) == 1:
            return name if len(shape) <= 1 else None
        array = self.around.constant(name)
        if array is not None and len(shape) <= 4:
            array = array.reshape((1,) * (4 - len(shape)) + shape)
            last = fresh_name(graph, f"{name}/last")
            graph.constants[last] = np.ascontiguousarray(array.transpose(TO_LAST))
            return last
        if shape != graph.shape(node.output):
            return None
        n, c, h, w = shape
        last = add_tensor(graph, f"{name}/last", (n, h, w, c), graph.dtype(name))
        before.append(Operation("Transpose", node.name, (name,), last, {"perm": TO_LAST}))
        return last
