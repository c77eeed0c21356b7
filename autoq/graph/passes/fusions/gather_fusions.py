"""Gather what no template computes into fusions: one kernel for each region of the graph.

Elementwise operations join into one region as long as nobody else reads what lies between them;
operations that look at several elements (softmax, transposes, ...) take the dequantisation in
front of them and the quantisation behind them along.
"""

from __future__ import annotations

import numpy as np

from autoq.errors import ModelError
from autoq.graph.fused import DEQUANTIZE, FUSED, FUSION, QUANTIZE, Bounds, Scheme
from autoq.graph.ir import Graph, Operation
from autoq.graph.passes.fusions.primitives import PrimitiveWriter
from autoq.graph.passes.fusions.regions import ELEMENTWISE, QUANTISED, STRUCTURED, Partition
from autoq.graph.rewrite import prune
from autoq.templates.arrays.element import INTEGER_RANGE


def gather_fusions(graph: Graph) -> None:
    """Replace every operation that is neither fused nor a Reshape by fusions.

    Raises ModelError for an operation over a dtype that it has no kernel for.
    """
    regions = Partition(graph).by_root
    nodes = []
    for node in graph.operations:
        region = regions.get(id(node))
        if region is not None:
            members = region.in_order
            nodes.append(_single(graph, members) or _fusion(graph, members))
        elif node.op in FUSED or node.op == "Reshape":
            nodes.append(node)
        elif node.op not in (*ELEMENTWISE, *STRUCTURED):
            dtypes = ", ".join(graph.dtype(name) for name in node.inputs)
            raise ModelError(
                f"node {node.name!r}: {node.op} of {dtypes} is not supported; "
                "use float32 or quantised tensors"
            )
    graph.nodes = nodes
    prune(graph)


def _single(graph: Graph, members: list[Operation]) -> Operation | None:
    """The kernel for a quantisation or dequantisation that stands alone."""
    node = members[-1]
    if len(members) != 1 or node.op not in QUANTISED or node.attributes["axis"] is not None:
        return None
    integers = node.output if node.op == "QuantizeLinear" else node.inputs[0]
    if graph.dtype(integers) not in INTEGER_RANGE or node.inputs[0] in graph.constants:
        return None
    scheme = Scheme.of(node, graph.dtype(integers))
    if node.op == "QuantizeLinear":
        values = [scheme.scale, *scheme.bounds(Bounds()), scheme.zero_point]
        op = QUANTIZE
    else:
        values, op = [scheme.zero_point, scheme.scale], DEQUANTIZE
    attributes = {"scalars": np.array(values, np.float32)}
    return Operation(op, node.name, node.inputs, node.output, attributes, node.covers)


def _fusion(graph: Graph, members: list[Operation]) -> Operation:
    made = {member.output for member in members}
    names = dict.fromkeys(n for m in members for n in m.inputs if n not in made)
    inputs = [name for name in names if name not in graph.constants]
    constants = [graph.constants[name] for name in names if name in graph.constants]
    index = {name: i for i, name in enumerate([*inputs, *(n for n in names if n not in inputs)])}
    writer = PrimitiveWriter(len(inputs), constants)
    for member in members:
        index[member.output] = writer.write(graph, member, [index[n] for n in member.inputs])
    primitives, all_constants = writer.finish()
    covers = tuple(dict.fromkeys(name for member in members for name in member.covers))
    attributes = {"primitives": primitives, "constants": all_constants}
    root = members[-1]
    return Operation(FUSION, root.name, tuple(inputs), root.output, attributes, covers)
