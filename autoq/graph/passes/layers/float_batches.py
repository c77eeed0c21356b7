"""Products of two activations of floats, where a kernel of the target takes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.graph.fused import WORKLOAD
from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.passes.layers.batched_axes import common_axes, destinations, sources
from autoq.graph.passes.layers.fuse_batched import byte_factors
from autoq.graph.passes.layers.half_rounding import Rounded, computable, rounded_tensor
from autoq.graph.rewrite import Neighbourhood
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target


def float_batches(
    graph: Graph, around: Neighbourhood, target: Target, templates: Sequence[Template],
    rounded: Rounded, long: bool,
) -> list[tuple[Sequence[Node], Operation]]:  # fmt: skip
    """For each MatMul of floats that a template computes, what its workload replaces.

    That is the MatMul, numbers that it and each of its factors are multiplied with or divided by,
    and a transposition behind. It reads what its factors are transposed from, rounded where a
    kernel multiplies the model's 16-bit floats.

    rounded: see `rounded_tensor`. long: as in `computable`.
    """
    groups: list[tuple[Sequence[Node], Operation]] = []
    taken: set[int] = set()
    for node in graph.operations:
        if node.op != "MatMul" or graph.dtype(node.output) != "float32":
            continue
        shapes = [graph.shape(name) for name in (*node.inputs, node.output)]
        constant = any(around.constant(name) is not None for name in node.inputs)
        if constant or len({shape[:-2] for shape in shapes}) > 1:
            continue
        if byte_factors(around, node) is not None:
            continue
        (x, before_x, of_x), (other, before_other, of_other) = (
            _scaled_before(around, name, taken) for name in node.inputs
        )
        behind, of_y = _scaled(around, node)
        with np.errstate(over="ignore", invalid="ignore"):
            scale = of_x * of_other * of_y
        if not np.isfinite(scale):
            continue
        members = [*before_x, *before_other, node, *behind]
        rank = len(shapes[0])
        axes = common_axes(shapes[0][:-2], {
            "x": sources(around, x, rank, taken),
            "other": sources(around, other, rank, taken),
            "y": destinations(around, members[-1].output, rank),
        })  # fmt: skip
        extents = (axes.batch, shapes[0][-2], shapes[1][-1], shapes[0][-1], axes.heads)
        orders = [axes.orders[role] for role in ("x", "other", "y")]
        own = node.attributes.get("floats", "float32")
        workloads = (
            BatchedGemm(*extents, dtype, dtype, *orders, Epilogue("float32"))
            for dtype in dict.fromkeys((own, "float32"))
        )
        workload = next((w for w in workloads if computable(w, target, templates, long)), None)
        if workload is None:
            continue
        if axes.names["y"] != members[-1].output:
            members.append(around.readers(members[-1].output)[0])
        taken.update(id(member) for member in members)
        inputs = tuple(axes.names[role] for role in ("x", "other"))
        if workload.in_dtype != "float32":
            inputs = tuple(rounded_tensor(graph, around, x, own, rounded) for x in inputs)
        covers = tuple(dict.fromkeys(name for member in members for name in member.covers))
        constants = {"scale": np.array([scale], np.float32), "scalars": pack_scalars()}
        attributes = {"workload": workload, "constants": constants}
        product = Operation(WORKLOAD, node.name, inputs, axes.names["y"], attributes, covers)
        groups.append((members, product))
    return groups


def _scaled(around: Neighbourhood, node: Operation) -> tuple[list[Operation], np.float32]:
    """The multiplication or division by one number that alone reads a product, and the factor.

    No operation and 1 without one of a finite factor.
    """
    reader = around.only_reader(node.output, "Mul", "Div")
    factor = None if reader is None else _factor(around, reader, node.output)
    return ([], np.float32(1)) if reader is None or factor is None else ([reader], factor)


def _scaled_before(
    around: Neighbourhood, name: str, taken: set[int]
) -> tuple[str, list[Operation], np.float32]:
    """What a product's factor is a number times, the operation that scales it, and the number.

    The factor itself, none and 1 where the product is not all that reads it, the number no finite
    one, or the operation among those taken, by the product whose output it scales.
    """
    scaling = around.producer(name, "Mul", "Div")
    free = scaling is not None and id(scaling) not in taken
    if free and around.only_reader(name) is not None:
        for source in scaling.inputs:
            factor = _factor(around, scaling, source)
            if factor is not None:
                return source, [scaling], factor
    return name, [], np.float32(1)


def _factor(around: Neighbourhood, scaling: Operation, of: str) -> np.float32 | None:
    """The finite number that a Mul or Div scales its operand `of` by, None where it does not."""
    place = scaling.inputs.index(of)
    number = around.constant(scaling.inputs[1 - place])
    same = around.graph.shape(scaling.output) == around.graph.shape(of)
    if number is None or number.size != 1 or not same or (scaling.op == "Div" and place == 1):
        return None
    value = np.float32(number.reshape(-1)[0])
    with np.errstate(divide="ignore"):
        factor = value if scaling.op == "Mul" else np.float32(1) / value
    return factor if np.isfinite(factor) else None
