"""Compute what follows from constants alone."""

from __future__ import annotations

import numpy as np

from autoq.graph.constants import dequantised
from autoq.graph.ir import Graph, Node, Operation, Operator
from autoq.graph.operator_numpy import evaluate_operator
from autoq.graph.rewrite import Neighbourhood, fresh_name, prune, rename_inputs
from autoq.graph.steps import StepWriter


def fold_operations(graph: Graph) -> None:
    """Compute operations over constants and over dequantised constants.

    A DequantizeLinear itself stays: kernels take quantised weights as integers. A graph output
    becomes the copy of a constant.
    """
    around = Neighbourhood(graph)
    renamed: dict[str, str] = {}
    nodes: list[Node] = []
    for node in graph.operations:
        node.inputs = tuple(renamed.get(name, name) for name in node.inputs)
        known = [around.constant(name) for name in node.inputs]
        values = [value for value in known if value is not None]
        if node.op in ("DequantizeLinear", "Identity") or len(values) < len(known):
            nodes.append(node)
            continue
        name = fresh_name(graph, f"{node.output}/value")
        graph.constants[name] = _evaluated(graph, node, values)
        renamed[node.output] = name
        if node.output in graph.outputs:
            nodes.append(Operation("Identity", node.name, (name,), node.output, {}, node.covers))
    graph.nodes = nodes
    prune(graph)


def _evaluated(graph: Graph, node: Operation, values: list[np.ndarray]) -> np.ndarray:
    shape = graph.shape(node.output)
    if node.op == "Reshape":
        return values[0].reshape(shape)
    writer = StepWriter(0, values)
    writer.write(graph, node, list(range(len(values))))
    steps, constants = writer.finish()
    return evaluate_operator(
        Operator(steps, (), (), (), constants, node.output, shape, node.covers), []
    )


def fold_dequantisations(graph: Graph) -> None:
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
