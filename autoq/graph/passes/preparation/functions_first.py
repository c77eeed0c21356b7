"""Functions of single quantised numbers are computed in front of what only moves these.

torch multiplies queries and keys by a number behind the transposition of each. In front of it the
function is a table of the product that writes them, and the transposition is left to what reads it.
"""

from __future__ import annotations

from dataclasses import replace

from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor
from autoq.graph.shapes import BROADCASTING, UNARY

_MOVES = ("Transpose", "Reshape")


def functions_first(graph: Graph) -> None:
    """Put each chain from DequantizeLinear to QuantizeLinear in front of moves that it alone reads.

    The chain holds operations of the one tensor and of numbers.
    """
    around = Neighbourhood(graph)
    for node in graph.operations:
        chain = _chain(around, node) if node.op == "QuantizeLinear" else None
        moves = [] if chain is None else _moves(around, chain[0].inputs[0])
        if chain is None or not any(move.op == "Transpose" for move in moves):
            continue
        source, shape = moves[0].inputs[0], graph.shape(moves[0].inputs[0])
        made: list[Operation] = []
        for item in chain:
            x = _tensor(around, item) if item is not chain[0] else item.inputs[0]
            inputs = tuple(source if given == x else given for given in item.inputs)
            source = add_tensor(graph, f"{item.output}/first", shape, graph.dtype(item.output))
            made.append(replace(item, inputs=inputs, output=source))
        moved = made[-1].output
        for move in moves:
            last = move is moves[-1]
            output = node.output
            if not last:
                output = add_tensor(
                    graph, f"{move.output}/behind", graph.shape(move.output), graph.dtype(moved)
                )
            made.append(replace(move, inputs=(moved,), output=output))
            moved = output
        at = graph.nodes.index(node)
        gone = {id(item) for item in (*chain, *moves)}
        graph.nodes = [
            item
            for place, old in enumerate(graph.nodes)
            for item in (made if place == at else () if id(old) in gone else (old,))
        ]


def _chain(around: Neighbourhood, quantise: Operation) -> list[Operation] | None:
    """DequantizeLinear, operations of one tensor, and the QuantizeLinear, of one scale each."""
    if quantise.attributes["axis"] is not None:
        return None
    graph, chain = around.graph, [quantise]
    while True:
        x = _tensor(around, chain[0])
        before = None if x is None else around.producer(x, "DequantizeLinear", *_FUNCTIONS)
        if before is None or x is None or around.only_reader(x) is not chain[0]:
            return None
        if graph.shape(before.output) != graph.shape(quantise.output):
            return None
        chain.insert(0, before)
        if before.op == "DequantizeLinear":
            scalar = before.attributes["axis"] is None and len(chain) > 2
            return chain if scalar and before.inputs[0] not in graph.constants else None


_FUNCTIONS = (*UNARY, *BROADCASTING)


def _tensor(around: Neighbourhood, node: Operation) -> str | None:
    """The only input that is no number, None where there are several."""
    found = []
    for name in node.inputs:
        value = around.constant(name)
        if value is None:
            found.append(name)
        elif value.size != 1 or value.ndim > 1:
            return None
    return found[0] if len(found) == 1 else None


def _moves(around: Neighbourhood, name: str) -> list[Operation]:
    """Moves in front of a tensor that nobody else reads, the first one first."""
    found: list[Operation] = []
    while True:
        move = around.producer(name, *_MOVES)
        if move is None or around.only_reader(name) is None:
            return found
        if move.inputs[0] in around.graph.constants:
            return found
        found.insert(0, move)
        name = move.inputs[0]
