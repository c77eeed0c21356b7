"""Move the Reshape behind a matrix product past element-wise operations, into which it may fuse.

A product over tensors of more than two axes has rows, and behind it a Reshape to the axes that the
model has. What follows element by element is the same over rows: a bias, a clamp, a quantisation,
the addition of a residual.
"""

from __future__ import annotations

import math

from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.rewrite import add_tensor, fresh_name, prune
from autoq.graph.shapes import BROADCASTING, UNARY, Shape

_QUANTISED = ("QuantizeLinear", "DequantizeLinear")


def reshape_late(graph: Graph) -> None:
    """Compute over rows [m, n] what element-wise operations compute behind a product's Reshape.

    Each of their tensors is reshaped for the readers that need all axes.
    """
    rows = _Rows(graph)
    nodes: list[Node] = []
    for node in graph.operations:
        nodes += rows.moved(node)
    graph.nodes = nodes
    prune(graph)


class _Rows:
    """Tensors that are reshaped rows of a product: `of` maps each to the rows.

    made: the rows, a product's or what follows from them element by element.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.of: dict[str, str] = {}
        self.made: set[str] = set()

    def moved(self, node: Operation) -> list[Node]:
        """What takes the place of `node`."""
        graph = self.graph
        if node.op in ("Gemm", "MatMul") and len(graph.shape(node.output)) == 2:
            self.made.add(node.output)
        if node.op == "Reshape":
            source = self.of.get(node.inputs[0], node.inputs[0])
            kept = graph.shape(node.output)[-1:] == graph.shape(source)[-1:]
            if source in self.made and kept:
                node.inputs = (source,)
                self.of[node.output] = source
            return [node]
        if not self._is_elementwise(node):
            return [node]
        if any(name in self.made for name in node.inputs):
            self.made.add(node.output)
        sources = [self.of[name] for name in node.inputs if name in self.of]
        if not sources:
            return [node]
        rows = graph.shape(sources[0])
        if graph.shape(node.output) != graph.shape(self._whole(node)):
            return [node]
        before: list[Node] = []
        inputs = []
        for name in node.inputs:
            flat = self._flat(node, name, rows, before)
            if flat is None:
                return [node]
            inputs.append(flat)
        return [*before, *self._over_rows(node, tuple(inputs), rows)]

    def _is_elementwise(self, node: Operation) -> bool:
        return node.op in (*UNARY, *BROADCASTING) or (
            node.op in _QUANTISED and node.attributes["axis"] is None
        )

    def _whole(self, node: Operation) -> str:
        return next(name for name in node.inputs if name in self.of)

    def _flat(self, node: Operation, name: str, rows: Shape, before: list[Node]) -> str | None:
        """The rows of an operand of `node`, None where it has none that broadcast as it does."""
        graph = self.graph
        if name in self.of:
            return self.of[name] if graph.shape(self.of[name]) == rows else None
        shape = graph.shape(name)
        if shape == graph.shape(node.output):
            new = rows
            if node.op != "Add" and name not in graph.constants:
                return None  # a residual may fuse; other operands had better fuse in front
        elif math.prod(shape[:-1]) == 1 and not (self._is_of_rows(name) and rows[0] == 1):
            new = shape[-1:]
        else:
            return None
        if new == shape:
            return name
        if name in graph.constants:
            reshaped = fresh_name(graph, f"{name}/rows")
            graph.constants[reshaped] = graph.constants[name].reshape(new)
            return reshaped
        reshaped = add_tensor(graph, f"{name}/rows", new, graph.dtype(name))
        before.append(Operation("Reshape", node.name, (name,), reshaped, {"shape": new}))
        return reshaped

    def _is_of_rows(self, name: str) -> bool:
        """Whether it may be a number of each row, as a normalisation's mean, which stays so."""
        shape = self.graph.shape(name)
        return name not in self.graph.constants and len(shape) > 1 and shape[-1] == 1

    def _over_rows(self, node: Operation, inputs: tuple[str, ...], rows: Shape) -> list[Node]:
        """`node` over rows, and the Reshape of its result."""
        graph, whole = self.graph, node.output
        node.inputs = inputs
        node.output = add_tensor(graph, f"{whole}/rows", rows, graph.dtype(whole))
        self.of[whole] = node.output
        self.made.add(node.output)
        shape = graph.shape(whole)
        return [node, Operation("Reshape", node.name, (node.output,), whole, {"shape": shape})]
