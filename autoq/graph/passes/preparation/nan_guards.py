"""Drop the choice of 0 for shares that are NaN where a softmax has none.

torch writes it behind the softmax of every attention, for queries that may see no key. Where scores
are products and what is added to them leaves each row a finite number, none is NaN, as long as the
products themselves are numbers.
"""

from __future__ import annotations

import numpy as np

from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood, prune, rename_inputs

_PRODUCTS = ("MatMul", "Gemm", "DequantizeLinear")
_SCALED = ("Mul", "Div", "Sub")


def drop_nan_guards(graph: Graph) -> None:
    """Let readers of `Where(IsNaN(shares), value, shares)` read the shares of such a softmax."""
    around = Neighbourhood(graph)
    renamed: dict[str, str] = {}
    for node in graph.operations:
        if node.op != "Where" or node.output in graph.outputs:
            continue
        condition, _, shares = node.inputs
        guard = around.producer(condition, "IsNaN")
        softmax = around.producer(shares, "Softmax")
        same = graph.shape(node.output) == graph.shape(shares)
        if guard is None or softmax is None or guard.inputs[0] != shares or not same:
            continue
        if _has_numbers(around, softmax):
            renamed[node.output] = shares
    if renamed:
        graph.nodes = [node for node in graph.nodes if node.output not in renamed]
        rename_inputs(graph, renamed)
        prune(graph)


def _has_numbers(around: Neighbourhood, softmax: Operation) -> bool:
    """Whether every row of what a softmax reads has a finite number and no NaN."""
    graph, x = around.graph, softmax.inputs[0]
    shape = graph.shape(x)
    if softmax.attributes["axis"] != len(shape) - 1:
        return False
    pending, masks = [(x, True)], 0
    while pending:
        name, added = pending.pop()
        constant = around.constant(name)
        if constant is not None:
            if np.all(np.isfinite(constant)):
                continue
            rows = constant.shape[-1:] == shape[-1:] and np.all(constant < np.inf)
            if not (added and rows and np.all(np.isfinite(constant).any(axis=-1))):
                return False
            masks += 1  # two might leave a row nothing together
            continue
        node = around.producer(name, "Add", "Identity", *_SCALED, *_PRODUCTS)
        if node is None:
            return False
        if node.op not in _PRODUCTS:
            pending += [(n, added and node.op not in _SCALED) for n in node.inputs]
    return masks <= 1
