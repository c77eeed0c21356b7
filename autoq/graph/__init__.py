"""The graph of a model and the passes that turn it into layers."""

from __future__ import annotations

from autoq.graph.dump import dump
from autoq.graph.evaluate import evaluate
from autoq.graph.ir import Fusion, Graph, Layer, Node, Operation, Primitive, Siblings, Tensor
from autoq.graph.optimise import optimise, workloads

__all__ = [
    "Fusion",
    "Graph",
    "Layer",
    "Node",
    "Operation",
    "Primitive",
    "Siblings",
    "Tensor",
    "dump",
    "evaluate",
    "optimise",
    "workloads",
]
