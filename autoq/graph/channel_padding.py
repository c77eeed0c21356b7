"""Pad channels between convolutions to what tensor-core kernels load.

A tensor that only convolutions read and one convolution writes gets filters of zeros up to a
multiple of 16 channels (32 of 4 bits); the readers' weights for them are zeros, so nothing changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autoq.graph.fused import CONV
from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood
from autoq.graph.stem import tensor_core_channels
from autoq.templates.epilogue import INTEGER_RANGE
from autoq.templates.target import Target

LARGEST_GROWTH = 1.5
"""Channels may grow by half at most: beyond, the products cost more than the loads save."""


def pad_hidden_channels(graph: Graph, target: Target) -> None:
    """Pad every tensor between integer convolutions that allows it; CUDA only."""
    if target.kind != "cuda":
        return
    around = Neighbourhood(graph)
    for node in graph.operations:
        if node.op != CONV or node.attributes["groups"] != 1:
            continue
        n, k, p, q = graph.shape(node.output)
        wanted = tensor_core_channels(graph.dtype(node.output))
        wide = -(-k // wanted) * wanted
        if k < wide <= LARGEST_GROWTH * k and _paddable(graph, node, around):
            _widen(node, around.readers(node.output), k, wide)
            tensor = graph.tensors[node.output]
            graph.tensors[node.output] = replace(tensor, shape=(n, wide, p, q))


def _paddable(graph: Graph, node: Operation, around: Neighbourhood) -> bool:
    """Whether the output is quantised, made without a residual, and read as convolutions' input."""
    readers = around.consumers.get(node.output, [])
    return (
        len(node.inputs) == 1
        and graph.dtype(node.output) in INTEGER_RANGE
        and node.output not in graph.outputs
        and bool(readers)
        and all(
            isinstance(reader, Operation)
            and reader.op == CONV
            and reader.attributes["groups"] == 1
            and reader.inputs[1:] != (node.output,)
            for reader in readers
        )
    )


def _widen(node: Operation, readers: list[Operation], k: int, wide: int) -> None:
    a = node.attributes
    extra = wide - k
    a["weight"] = np.pad(a["weight"], [(0, extra), (0, 0), (0, 0), (0, 0)])
    a["bias"] = np.pad(a["bias"], (0, extra))
    a["scale"] = np.pad(a["scale"], (0, extra), constant_values=1)
    for reader in {id(reader): reader for reader in readers}.values():
        weight = reader.attributes["weight"]
        reader.attributes["weight"] = np.pad(weight, [(0, 0), (0, extra), (0, 0), (0, 0)])
