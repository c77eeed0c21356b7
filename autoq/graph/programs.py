"""Gather what no template computes into programs: one kernel for each region of the graph.

Elementwise operations join into one region as long as nobody else reads what lies between them;
operations that look at several elements (softmax, transposes, ...) take the dequantisation in
front of them and the quantisation behind them along.
"""

from __future__ import annotations

import numpy as np

from autoq.errors import ModelError
from autoq.graph.fused import DEQUANTIZE, FUSED, PROGRAM, QUANTIZE, Bounds, Scheme
from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood, prune
from autoq.graph.shapes import BINARY, UNARY
from autoq.graph.steps import StepWriter
from autoq.templates.epilogue import INTEGER_RANGE

_QUANTISED = ("QuantizeLinear", "DequantizeLinear")
ELEMENTWISE = (*UNARY, *BINARY, *_QUANTISED)
STRUCTURED = (
    "Softmax", "LRN", "Pad", "Slice", "Transpose", "Concat", "ReduceMean", "MatMul", "Conv",
    "Gemm", "ChannelShuffle", "MaxPool", "AveragePool",
)  # fmt: skip


def gather_programs(graph: Graph) -> None:
    """Replace every operation that is neither fused nor a Reshape by programs.

    Raises ModelError for an operation over a dtype that it has no kernel for.
    """
    around = Neighbourhood(graph)
    claimed: set[int] = set()
    replacement: dict[int, Operation] = {}
    for node in reversed(graph.operations):
        if node.op not in (*ELEMENTWISE, *STRUCTURED) or id(node) in claimed:
            continue
        if node.op == "DequantizeLinear" and not _is_read(node, around, claimed):
            continue
        members = _region(node, around)
        claimed.update(id(m) for m in members if m.op != "DequantizeLinear" or m is node)
        replacement[id(node)] = _single(graph, members) or _program(graph, members)
        claimed.update(_exclusive(members, around, claimed))
    graph.nodes = [
        replacement.get(id(node), node)
        for node in graph.nodes
        if id(node) in replacement or id(node) not in claimed
    ]
    prune(graph)
    for node in graph.operations:
        if node.op not in FUSED and node.op != "Reshape":
            dtypes = ", ".join(graph.dtype(name) for name in node.inputs)
            raise ModelError(
                f"node {node.name!r}: {node.op} of {dtypes} is not supported; "
                "use float32 or quantised tensors"
            )


def _is_read(node: Operation, around: Neighbourhood, claimed: set[int]) -> bool:
    """Whether a dequantisation is still read by something that did not take it along."""
    if node.output in around.graph.outputs:
        return True
    return any(id(reader) not in claimed for reader in around.consumers.get(node.output, []))


def _exclusive(members: list[Operation], around: Neighbourhood, claimed: set[int]) -> set[int]:
    """Dequantisations whose every reader is claimed now."""
    return {id(m) for m in members[:-1] if m.op == "DequantizeLinear"
            and not _is_read(m, around, claimed)}  # fmt: skip


def _region(root: Operation, around: Neighbourhood) -> list[Operation]:
    """Members in running order, the root last."""
    members = {id(root): root}
    if root.op not in STRUCTURED:
        _grow(members, around)
        core = _structured_input(root, members, around)
        if core is None:
            return _ordered(members, around)
        members[id(core)] = core
    else:
        core = root
    for name in core.inputs:  # what a structured operation reads is only dequantised on the way
        node = around.producer(name, "DequantizeLinear")
        if node is not None:
            members[id(node)] = node
    return _ordered(members, around)


def _ordered(members: dict[int, Operation], around: Neighbourhood) -> list[Operation]:
    return sorted(members.values(), key=lambda node: around.position[id(node)])


def _grow(members: dict[int, Operation], around: Neighbourhood) -> None:
    """Add elementwise producers that only members read, and any dequantisation."""
    grown = True
    while grown:
        grown = False
        for name in _read_names(members):
            node = around.producer(name, *ELEMENTWISE)
            if node is None or id(node) in members:
                continue
            if node.op == "DequantizeLinear" or _owned(name, members, around):
                members[id(node)] = node
                grown = True


def _read_names(members: dict[int, Operation]) -> list[str]:
    """What the members read, each name once, in a fixed order."""
    return list(dict.fromkeys(name for member in members.values() for name in member.inputs))


def _owned(name: str, members: dict[int, Operation], around: Neighbourhood) -> bool:
    readers = around.consumers.get(name, [])
    return name not in around.graph.outputs and all(id(reader) in members for reader in readers)


def _structured_input(
    root: Operation, members: dict[int, Operation], around: Neighbourhood
) -> Operation | None:
    """The one structured operation of the root's shape that only the members read."""
    shape = around.graph.shape(root.output)
    for name in _read_names(members):
        node = around.producer(name, *STRUCTURED)
        if node is not None and _owned(name, members, around) and around.graph.shape(name) == shape:
            return node
    return None


def _single(graph: Graph, members: list[Operation]) -> Operation | None:
    """The kernel for a quantisation or dequantisation that stands alone."""
    node = members[-1]
    if len(members) != 1 or node.op not in _QUANTISED or node.attributes["axis"] is not None:
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


def _program(graph: Graph, members: list[Operation]) -> Operation:
    made = {member.output for member in members}
    names = dict.fromkeys(n for m in members for n in m.inputs if n not in made)
    inputs = [name for name in names if name not in graph.constants]
    constants = [graph.constants[name] for name in names if name in graph.constants]
    index = {name: i for i, name in enumerate([*inputs, *(n for n in names if n not in inputs)])}
    writer = StepWriter(len(inputs), constants)
    for member in members:
        index[member.output] = writer.write(graph, member, [index[n] for n in member.inputs])
    steps, all_constants = writer.finish()
    covers = tuple(dict.fromkeys(name for member in members for name in member.covers))
    attributes = {"steps": steps, "constants": all_constants}
    root = members[-1]
    return Operation(PROGRAM, root.name, tuple(inputs), root.output, attributes, covers)
