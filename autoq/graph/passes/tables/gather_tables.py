"""Element-wise functions of one quantised tensor become tables of its 256 or 16 values.

What depends on nothing but one 8-bit or 4-bit tensor, value by value, is a function of so few
numbers that it is computed here for all of them, however many operations it takes: x * sigmoid(x)
reads its input twice and has a quantisation of its own behind the sigmoid, and is one table.
"""

from __future__ import annotations

import numpy as np

from autoq.graph.fused import FUSION, TABLE
from autoq.graph.ir import Graph, Operation
from autoq.graph.passes.fusions.regions import ELEMENTWISE
from autoq.graph.passes.tables.table_values import (
    entries_of_fusion,
    entries_of_operation,
    input_values,
)
from autoq.graph.rewrite import Neighbourhood, prune
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.storage import value_dtype

_CLAMPS = ("QuantizeLinear", "DequantizeLinear", "Relu", "Clip", "Identity")
"""What the kernels in front or behind may compute on the way, for less than a lookup costs."""

_TABULATED = (*INTEGER_RANGE, "float32")
"""Dtypes of what kernels look up."""


def gather_tables(graph: Graph) -> None:
    """Replace each region that depends on one quantised tensor by a table.

    Its output is a tensor that something else reads: a quantised one, or float32 values that no
    element-wise operation reads. Regions of nothing but clamps and changes of scale stay.
    """
    around = Neighbourhood(graph)
    sources = _Sources(around, set())
    outputs = {name for name in _read_elsewhere(around, sources)}
    sources = _Sources(around, outputs)
    tables = {
        name: table for name in outputs if (table := _table(around, sources, name)) is not None
    }
    graph.nodes = [tables.get(node.output, node) for node in graph.nodes]
    prune(graph)


def tabulate_fusions(graph: Graph) -> None:
    """Replace fusions that are element-wise functions of one quantised tensor by tables."""
    for index, node in enumerate(graph.nodes):
        if isinstance(node, Operation) and node.op == FUSION and _is_function(graph, node):
            entries = entries_of_fusion(node, graph.dtype(node.inputs[0]))
            graph.nodes[index] = _operation(graph, node, node.inputs[0], entries, node.covers)


class _Sources:
    """Of each tensor the quantised one that it is an element-wise function of, where there is one.

    of: by name; a quantised tensor that is a function of no other, or one of `ends`, is its own.
    origin: of the ends, what they are computed from.
    """

    def __init__(self, around: Neighbourhood, ends: set[str]) -> None:
        graph = around.graph
        self.of: dict[str, str] = {n: n for n in graph.inputs if graph.dtype(n) in INTEGER_RANGE}
        self.origin: dict[str, str] = {}
        for node in graph.operations:
            source = self._source(around, node)
            if source is not None:
                self.of[node.output] = source
            if node.output in ends and source is not None:
                self.origin[node.output] = source
            own = source is None or node.output in ends
            if own and graph.dtype(node.output) in INTEGER_RANGE:
                self.of[node.output] = node.output

    def _source(self, around: Neighbourhood, node: Operation) -> str | None:
        graph = around.graph
        if node.op not in ELEMENTWISE or node.attributes.get("axis") is not None:
            return None
        found = {self.of.get(n) for n in node.inputs if scalar(around, n) is None}
        if len(found) != 1 or None in found:
            return None
        (source,) = found
        return source if graph.shape(source) == graph.shape(node.output) else None


def scalar(around: Neighbourhood, name: str) -> np.ndarray | None:
    """The value of a constant of one element, or of the dequantisation of one."""
    value = around.constant(name)
    return None if value is None or value.size != 1 else value.reshape(())


def _read_elsewhere(around: Neighbourhood, sources: _Sources) -> list[str]:
    """Tensors of regions that are graph outputs, or read by something outside the region."""
    graph = around.graph
    reads = [(name, None) for name in graph.outputs]
    reads += [(name, node) for node in graph.operations for name in node.inputs]
    found = []
    for name, reader in reads:
        source = sources.of.get(name)
        if source is None or (reader is not None and sources.of.get(reader.output) == source):
            continue
        dequantise = around.producer(name, "DequantizeLinear")
        if reader is not None and dequantise is not None:
            name = dequantise.inputs[0]
        quantised = graph.dtype(name) in INTEGER_RANGE
        if not quantised and reader is not None and reader.op in ELEMENTWISE:
            continue  # a fusion of several tensors computes it on the way
        if name != source and graph.dtype(name) in _TABULATED:
            found.append(name)
    return list(dict.fromkeys(found))


def _members(around: Neighbourhood, sources: _Sources, name: str) -> list[Operation]:
    """The operations between an end and its origin, in running order."""
    origin = sources.origin[name]
    members: dict[int, Operation] = {}
    pending = [name]
    while pending:
        node = around.producers.get(pending.pop())
        if isinstance(node, Operation) and id(node) not in members:
            members[id(node)] = node
            pending += [n for n in node.inputs if n != origin and scalar(around, n) is None]
    return sorted(members.values(), key=lambda node: around.position[id(node)])


def _table(around: Neighbourhood, sources: _Sources, name: str) -> Operation | None:
    """The table whose output is `name`, None where it is nothing but clamps."""
    graph = around.graph
    if name not in sources.origin:
        return None
    members = _members(around, sources, name)
    if all(member.op in _CLAMPS for member in members):
        return None
    origin = sources.origin[name]
    values = {origin: input_values(graph.dtype(origin))}
    for member in members:
        arguments = [values[n] if n in values else scalar(around, n) for n in member.inputs]
        values[member.output] = entries_of_operation(graph, member, arguments)
    covers = tuple(dict.fromkeys(part for member in members for part in member.covers))
    return _operation(graph, members[-1], origin, values[name], covers)


def _is_function(graph: Graph, node: Operation) -> bool:
    primitives, constants = node.attributes["primitives"], node.attributes["constants"]
    known = {"quantize", "dequantize", *ELEMENTWISE}
    return (
        len(node.inputs) == 1
        and graph.dtype(node.inputs[0]) in INTEGER_RANGE
        and graph.dtype(node.output) in _TABULATED
        and graph.shape(node.inputs[0]) == graph.shape(node.output)
        and all(primitive.op in known for primitive in primitives)
        and all(array.size == 1 for array in constants)
    )


def _operation(
    graph: Graph, node: Operation, x: str, entries: np.ndarray, covers: tuple[str, ...]
) -> Operation:
    table = entries.astype(value_dtype(graph.dtype(node.output)))
    return Operation(TABLE, node.name, (x,), node.output, {"table": table}, covers)
