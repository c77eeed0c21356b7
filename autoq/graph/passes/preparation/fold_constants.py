"""Compute what follows from constants alone."""

from __future__ import annotations

import math

import numpy as np

from autoq.errors import ModelError
from autoq.graph.constants import DEQUANTISATIONS, dequantised
from autoq.graph.folding_budget import BudgetError, FoldingBudget
from autoq.graph.ir import Fusion, Graph, Node, Operation
from autoq.graph.passes.fusions.primitives import PrimitiveWriter
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.graph.rewrite import Neighbourhood, fresh_name, prune, rename_inputs


def fold_operations(graph: Graph, budget: FoldingBudget | None = None) -> None:
    """Compute operations over constants and over dequantised constants.

    A DequantizeLinear itself stays: kernels take quantised weights as integers. A graph output
    becomes the copy of a constant. Raises ModelError for a constant that costs more than `budget`
    (by default that of a model with the graph's constants) has left.
    """
    around = Neighbourhood(graph)
    budget = budget or FoldingBudget.for_constants(graph.constants.values())
    renamed: dict[str, str] = {}
    nodes: list[Node] = []
    for node in graph.operations:
        node.inputs = tuple(renamed.get(name, name) for name in node.inputs)
        known = [around.constant(name) for name in node.inputs]
        values = [value for value in known if value is not None]
        if node.op in (*DEQUANTISATIONS, "Identity") or len(values) < len(known):
            nodes.append(node)
            continue
        try:
            budget.charge(*_cost(graph, node, values))
        except BudgetError as error:
            raise ModelError(f"node {node.name!r} ({node.op}): {error}") from error
        name = fresh_name(graph, f"{node.output}/value")
        graph.constants[name] = _evaluated(graph, node, values)
        renamed[node.output] = name
        if node.output in graph.outputs:
            nodes.append(Operation("Identity", node.name, (name,), node.output, {}, node.covers))
    graph.nodes = nodes
    prune(graph)


def _cost(graph: Graph, node: Operation, values: list[np.ndarray]) -> tuple[float, float]:
    """(bytes, operations) that computing `node` takes."""
    size = float(math.prod(graph.shape(node.output)))
    each = 1.0
    if node.op == "Conv":
        each = math.prod(values[1].shape[1:])
    elif node.op in ("Gemm", "MatMul"):
        each = values[0].shape[-1]
    elif node.op in ("MaxPool", "AveragePool"):
        each = math.prod(node.attributes["window"])
        size = size * each  # the reference holds what every tap of a window reads
    return 8 * size, size * each


def _evaluated(graph: Graph, node: Operation, values: list[np.ndarray]) -> np.ndarray:
    shape = graph.shape(node.output)
    if node.op == "Reshape":
        return values[0].reshape(shape)
    writer = PrimitiveWriter(0, values)
    writer.write(graph, node, list(range(len(values))))
    primitives, constants = writer.finish()
    return evaluate_fusion(
        Fusion(primitives, (), (), (), constants, node.output, shape, node.covers), []
    )


def fold_dequantisations(graph: Graph) -> None:
    """Replace what is left of dequantised constants by float32 ones.

    Runs after weights and biases have gone into kernels.
    """
    renamed: dict[str, str] = {}
    for node in graph.operations:
        constant = graph.constants.get(node.inputs[0]) if node.inputs else None
        if node.op not in DEQUANTISATIONS or constant is None or node.output in graph.outputs:
            continue
        name = fresh_name(graph, f"{node.output}/value")
        graph.constants[name] = dequantised(constant, node)
        renamed[node.output] = name
    graph.nodes = [node for node in graph.nodes if node.output not in renamed]
    rename_inputs(graph, renamed)
    prune(graph)
