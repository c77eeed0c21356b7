"""Fuse convolutions and matrix products with their epilogues into one kernel each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.graph.fused import CONV, GEMM
from autoq.graph.ir import Graph, Operation
from autoq.graph.passes.layers.dynamic_products import dynamic_product
from autoq.graph.passes.layers.epilogue_match import Tail, match_tail
from autoq.graph.passes.layers.integer_operands import (
    IntegerOperands,
    integer_operands,
    out_of_range,
    with_border,
)
from autoq.graph.passes.layers.tail_epilogue import epilogue_of
from autoq.graph.rewrite import Neighbourhood, prune, replace_nodes
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.target import Target

_FUSED = {"Conv": CONV, "Gemm": GEMM}


def fuse_products(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Replace every Conv and Gemm of constant weights by a fused operation.

    What is quantised as it comes has its scale and zero point of the run in the product itself
    where a template takes them there. Integers where the input and the weights are dequantised
    integers of 8 or 4 bits, else float32. The arithmetic is that of `autoq.templates.epilogue`.
    """
    around = Neighbourhood(graph)
    taken: set[int] = set()
    groups: list[tuple[Sequence[Operation], Operation]] = []
    for node in graph.operations:
        if node.op not in _FUSED:
            continue
        operands = integer_operands(graph, node, around)
        if not isinstance(operands, str):
            dynamic = dynamic_product(around, node, operands, taken, target, templates)
            if dynamic is not None:
                taken.update(id(member) for member in dynamic[0])
                groups.append(dynamic)
                continue
            tail, operands = _bordered(node, around, operands, taken)
            reason = out_of_range(operands, tail)
            fused = None if reason else _integer_operation(graph, node, tail, operands)
            operands = reason or operands
        if isinstance(operands, str):
            tail = match_tail(node, around, False, taken)
            fused = _float_operation(graph, node, tail, around, operands)
        if fused is None:
            continue
        taken.update(id(member) for member in tail.nodes)
        groups.append((tail.nodes, fused))
    replace_nodes(graph, groups)
    prune(graph)


def _bordered(
    node: Operation, around: Neighbourhood, operands: IntegerOperands, taken: set[int]
) -> tuple[Tail, IntegerOperands]:
    """What follows integers, and these with what the kinds of a border add to them."""
    tail = match_tail(node, around, True, taken, borders=True)
    if tail.border is not None:
        found = with_border(operands, tail.border)
        if not isinstance(found, str) and not out_of_range(found, tail):
            return tail, found
        tail = match_tail(node, around, True, taken)
    return tail, operands


def _integer_operation(
    graph: Graph, node: Operation, tail: Tail, operands: IntegerOperands
) -> Operation:
    behind = epilogue_of(graph, tail, operands.product)
    return _operation(node, tail, operands.x, {
        "weight": operands.weight, "weight_dtype": operands.weight_dtype, "bias": operands.bias,
        "scale": behind.scale, "scalars": behind.scalars,
        "x_zero_point": operands.scheme.zero_point, "epilogue": behind.epilogue,
    })  # fmt: skip


def _float_operation(
    graph: Graph, node: Operation, tail: Tail, around: Neighbourhood, reason: str
) -> Operation | None:
    weight = around.constant(node.inputs[1])
    bias = around.constant(node.inputs[2]) if len(node.inputs) > 2 else np.float32(0)
    if weight is None or bias is None:
        return None
    k = graph.shape(node.inputs[1])[0]
    residual_dtype = None if tail.residual is None else "float32"
    return _operation(node, tail, node.inputs[0], {
        "weight": weight.astype(np.float32),
        "weight_dtype": "float32",
        "bias": np.ascontiguousarray(np.broadcast_to(bias.reshape(-1), (k,)), np.float32),
        "scale": None,
        "scalars": pack_scalars(low=tail.bounds.low, high=tail.bounds.high),
        "x_zero_point": 0,
        "epilogue": Epilogue("float32", residual_dtype),
        "float_reason": reason,
    })  # fmt: skip


def _operation(node: Operation, tail: Tail, x: str, attributes: dict[str, object]) -> Operation:
    covers = tuple(dict.fromkeys(name for member in tail.nodes for name in member.covers))
    inputs = (x,) if tail.residual is None else (x, tail.residual)
    merged = {**node.attributes, **attributes}
    return Operation(_FUSED[node.op], node.name, inputs, tail.output, merged, covers)
