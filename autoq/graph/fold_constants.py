"""Compute dequantisations of constants that no kernel takes as integers."""

from __future__ import annotations

from autoq.graph.constants import dequantised
from autoq.graph.ir import Graph
from autoq.graph.rewrite import fresh_name, prune, rename_inputs


def fold_constants(graph: Graph) -> None:
    """Replace what is left of `DequantizeLinear(constant)` by float32 constants.

    Runs after weights and biases have gone into kernels.
    """
    renamed: dict[str, str] = {}
    for node in graph.operations:
        constant = graph.constants.get(node.inputs[0]) if node.inputs else None
        if node.op != "DequantizeLinear" or constant is None or node.output in graph.outputs:
            continue
        name = fresh_name(graph, f"{node.output}/value")
        graph.constants[name] = dequantised(constant, node)
        renamed[node.output] = name
    graph.nodes = [node for node in graph.nodes if node.output not in renamed]
    rename_inputs(graph, renamed)
    prune(graph)
