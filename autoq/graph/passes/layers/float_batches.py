"""Products of two activations of a float16 model, where a kernel of the target takes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.graph.fused import WORKLOAD
from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.passes.layers.batched_axes import common_axes, destinations, sources
from autoq.graph.passes.layers.fuse_batched import byte_factors
from autoq.graph.passes.layers.half_rounding import rounded_tensor
from autoq.graph.rewrite import Neighbourhood
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.registry import matching
from autoq.templates.target import Target


def float_batches(
    graph: Graph, around: Neighbourhood, target: Target, templates: Sequence[Template],
    rounded: dict[str, Operation],
) -> list[tuple[Sequence[Node], Operation]]:  # fmt: skip
    """For each float16 MatMul that a template computes, what its workload takes the place of.

    That is the MatMul, a number that it is multiplied with or divided by, and a transposition
    behind. It reads what its factors are transposed from, rounded to float16; rounded: see
    `rounded_tensor`.
    """
    groups: list[tuple[Sequence[Node], Operation]] = []
    taken: set[int] = set()
    for node in graph.operations:
        if node.op != "MatMul" or node.attributes.get("floats") != "float16":
            continue
        shapes = [graph.shape(name) for name in (*node.inputs, node.output)]
        constant = any(around.constant(name) is not None for name in node.inputs)
        if constant or len({shape[:-2] for shape in shapes}) > 1:
            continue
        if byte_factors(around, node) is not None:
            continue
        members, scale = _scaled(around, node)
        rank = len(shapes[0])
        axes = common_axes(shapes[0][:-2], {
            "x": sources(around, node.inputs[0], rank, taken),
            "other": sources(around, node.inputs[1], rank, taken),
            "y": destinations(around, members[-1].output, rank),
        })  # fmt: skip
        extents = (axes.batch, shapes[0][-2], shapes[1][-1], shapes[0][-1], axes.heads)
        orders = (axes.orders[role] for role in ("x", "other", "y"))
        workload = BatchedGemm(*extents, "float16", "float16", *orders, Epilogue("float32"))
        if not matching(workload, target, templates):
            continue
        if axes.names["y"] != members[-1].output:
            members.append(around.readers(members[-1].output)[0])
        taken.update(id(member) for member in members)
        inputs = (
            rounded_tensor(graph, around, axes.names[role], rounded) for role in ("x", "other")
        )
        covers = tuple(dict.fromkeys(name for member in members for name in member.covers))
        constants = {"scale": np.array([scale], np.float32), "scalars": pack_scalars()}
        attributes = {"workload": workload, "constants": constants}
        product = Operation(WORKLOAD, node.name, tuple(inputs), axes.names["y"], attributes, covers)
        groups.append((members, product))
    return groups


def _scaled(around: Neighbourhood, node: Operation) -> tuple[list[Operation], np.float32]:
    """A product with the multiplication or division by one number that alone reads it.

    And the factor, a finite one; 1 without such an operation.
    """
    reader = around.only_reader(node.output, "Mul", "Div")
    if reader is None:
        return [node], np.float32(1)
    place = reader.inputs.index(node.output)
    number = around.constant(reader.inputs[1 - place])
    same = around.graph.shape(reader.output) == around.graph.shape(node.output)
    if number is None or number.size != 1 or not same or (reader.op == "Div" and place == 1):
        return [node], np.float32(1)
    value = np.float32(number.reshape(-1)[0])
    with np.errstate(divide="ignore"):
        factor = value if reader.op == "Mul" else np.float32(1) / value
    if not np.isfinite(factor):
        return [node], np.float32(1)
    return [node, reader], factor
