"""Transpositions of axes of one element that a Reshape drops behind them lose these axes in front.

`[b, l, 1, h, d]`, turned to `[1, b, h, l, d]` and reshaped to `[b, h, l, d]`, is `[b, l, h, d]`
turned to `[b, h, l, d]`: the form that products and attention read as it lies.
"""

from __future__ import annotations

import itertools

from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor, prune


def drop_unit_axes(graph: Graph) -> None:
    """Reshape in front of such transpositions instead of behind them."""
    around = Neighbourhood(graph)
    for node in graph.operations:
        behind = around.only_reader(node.output, "Reshape") if node.op == "Transpose" else None
        if behind is None or node.inputs[0] in graph.constants:
            continue
        perm, shape = node.attributes["perm"], graph.shape(node.inputs[0])
        kept = _kept(shape, perm, graph.shape(behind.output))
        if kept is None:
            continue
        axes = sorted(kept)
        fewer = add_tensor(
            graph, f"{node.inputs[0]}/axes", tuple(shape[axis] for axis in axes),
            graph.dtype(node.output),
        )  # fmt: skip
        first = Operation(
            "Reshape", behind.name, node.inputs, fewer, {"shape": graph.shape(fewer)}, behind.covers
        )
        last = Operation(
            "Transpose", node.name, (fewer,), behind.output,
            {"perm": tuple(axes.index(axis) for axis in kept)}, node.covers,
        )  # fmt: skip
        at = graph.nodes.index(behind)
        graph.nodes[at : at + 1] = [first, last]
    prune(graph)


def _kept(
    shape: tuple[int, ...], perm: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The axes of the input, in the order of the output, that make up a shape of fewer axes.

    All longer ones are among them; of several choices that which turns the first axes least.
    """
    count = len(perm) - len(wanted)
    units = [axis for axis in perm if shape[axis] == 1]
    if count < 1 or count > len(units):
        return None
    choices = []
    for dropped in itertools.combinations(units, count):
        kept = tuple(axis for axis in perm if axis not in dropped)
        if tuple(shape[axis] for axis in kept) == wanted:
            order = sorted(kept)
            choices.append((tuple(order.index(axis) for axis in kept), kept))
    return min(choices)[1] if choices else None
