"""A product normalises the rows that it computes itself, instead of a kernel behind it.

Where transformers normalise behind a residual, the sum is read by the normalisation alone. Blocks
that hold all columns of a row in registers write normalised bytes: the sum never lies in memory.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from autoq.graph.ir import Fusion, Graph, Layer, Node
from autoq.graph.lowering.cuda.byte_normalisation import Normalised
from autoq.graph.lowering.cuda.expressions import output_bounds
from autoq.graph.lowering.cuda.rows import row_arrays
from autoq.templates.base import Template
from autoq.templates.operators.normalised_gemm import normalising
from autoq.templates.registry import matching
from autoq.templates.target import Target


def merge_normalised(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Let products of bytes do what a layer normalisation to bytes does behind them."""
    readers = Counter(name for node in graph.nodes for name in node.inputs) + Counter(graph.outputs)
    writers = {node.output: node for node in graph.nodes if isinstance(node, Layer)}
    merged: dict[int, Layer] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        if not isinstance(node, Fusion) or node.quantised:
            continue
        front = [writers.get(name) for name in node.inputs]
        if len(front) != 1 or front[0] is None or readers[node.inputs[0]] != 1:
            continue
        both = _normalised(front[0], node)
        if both is not None and matching(both.workload, target, templates):
            merged[id(node)] = both
            gone.add(id(front[0]))
    nodes: list[Node] = [merged.get(id(node), node) for node in graph.nodes if id(node) not in gone]
    graph.nodes = nodes


def _normalised(layer: Layer, node: Fusion) -> Layer | None:
    """The product with all that the fusion computes, None where it cannot have it."""
    arrays = row_arrays(node)
    found = Normalised.of(arrays, node.primitives) if arrays is not None else None
    last = node.primitives[-1]
    work = normalising(layer.workload, last.dtype)
    if arrays is None or found is None or work is None or layer.further_outputs or found.x:
        return None
    whole = math.prod(node.output_shape) == math.prod(node.input_shapes[0]) == work.m * work.n
    if not whole or arrays.row != work.n or node.input_dtypes[0] != work.epilogue.out_dtype:
        return None
    given = len(node.inputs)
    epsilon, factor, offset = (
        node.constants[place - given].reshape(-1)
        for place in (found.epsilon, found.factor, found.offset)
    )
    scale, step = found.steps
    in_steps = np.float32(1 / step)
    numbers = [epsilon[0] * np.float32(1 / scale**2), in_steps, *output_bounds(last)]
    constants = {
        **layer.constants,
        "norm_factor": np.broadcast_to(factor, (work.n,)),
        "norm_offset": np.broadcast_to(offset * in_steps, (work.n,)),
        "norm_numbers": np.array(numbers, np.float32),
    }
    covers = tuple(dict.fromkeys((*layer.covers, *node.covers)))
    return dataclasses.replace(
        layer, workload=work, constants=constants, output=node.output, covers=covers
    )
