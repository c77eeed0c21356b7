"""Tensors of a model of 16-bit floats that its products read rounded to them, and write so.

The graph computes such a model in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor, rename_inputs
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload

HALVES = ("float16", "bfloat16")

Rounded = dict[tuple[str, str], Operation]
"""Operations that make tensors of 16-bit floats, by what they round and to which type."""


def rounded_tensor(
    graph: Graph, around: Neighbourhood, x: str, dtype: str, rounded: Rounded
) -> str:
    """The tensor of a type that a product reads: what its input was widened from, or its rounding.

    The operation that makes it may be added to `rounded`.
    """
    if (x, dtype) in rounded:
        return rounded[x, dtype].output
    shape, reshape = graph.shape(x), around.producer(x, "Reshape")
    half = add_tensor(graph, f"{x}/{dtype}", shape, dtype)
    widened = around.producer(x, "Cast")
    if reshape is not None:
        source = rounded_tensor(graph, around, reshape.inputs[0], dtype, rounded)
        made = Operation("Reshape", half, (source,), half, {"shape": shape})
    elif widened is not None and graph.dtype(widened.inputs[0]) == dtype:
        made = Operation("Reshape", half, widened.inputs, half, {"shape": shape})
    else:
        made = Operation("Cast", half, (x,), half)
    rounded[x, dtype] = made
    return half


def widened_behind(graph: Graph, product: Operation, dtype: str) -> Operation:
    """Let a product write 16-bit floats; the Cast that widens them for all that reads it."""
    result = product.output
    product.output = add_tensor(graph, f"{result}/{dtype}", graph.shape(result), dtype)
    return Operation("Cast", product.name, (product.output,), result)


def drop_roundings(graph: Graph) -> None:
    """Read 16-bit floats themselves where they are widened and rounded again."""
    around = Neighbourhood(graph)
    for node in graph.operations:
        widened = around.producer(node.inputs[0], "Cast") if node.op == "Cast" else None
        if widened is None or graph.dtype(widened.inputs[0]) != graph.dtype(node.output):
            continue
        if graph.dtype(node.output) not in HALVES or graph.dtype(node.inputs[0]) != "float32":
            continue
        node.op, node.inputs = "Reshape", widened.inputs
        node.attributes = {"shape": graph.shape(node.output)}


def place_roundings(graph: Graph, rounded: Rounded) -> None:
    """Put each tensor's roundings behind what makes the tensor."""
    nodes: list[Node] = [made for (x, _), made in rounded.items() if x in graph.inputs]
    for node in graph.operations:
        nodes.append(node)
        nodes += [made for (x, _), made in rounded.items() if x in node.outputs]
    graph.nodes = nodes


def computable(
    workload: Workload, target: Target, templates: Sequence[Template], long: bool
) -> bool:
    """Whether a template computes a product.

    long: of two activations also where one computes a head of a batch by itself, but no array of
    all of them is addressed: attention in one kernel has none of its scores.
    """
    return bool(matching(workload.of_one_pair if long else workload, target, templates))


def write_narrow(
    graph: Graph, product: Operation, target: Target, templates: Sequence[Template], long: bool
) -> None:
    """Let a product write floats of its factors' type where all that reads it rounds it to that.

    One that adds a float32 tensor writes float32: kernels add what is of their output's type.
    """
    around = Neighbourhood(graph)
    dtype = product.attributes["workload"].in_dtype
    narrow = product.attributes["workload"].with_output(dtype)
    if any(s.dtype != graph.dtype(n) for s, n in zip(narrow.inputs, product.inputs, strict=True)):
        return
    pending, reshaped, casts = [product.output], [product.output], []
    while pending:
        name = pending.pop()
        readers = around.readers(name)
        if name in graph.outputs or not readers:
            return
        for reader in readers:
            if reader.op == "Cast" and graph.dtype(reader.output) == dtype:
                casts.append(reader)
            elif reader.op == "Reshape":
                pending.append(reader.output)
                reshaped.append(reader.output)
            else:
                return
    if any(cast.output in graph.outputs for cast in casts) and len(casts) > 1:
        return
    if not computable(narrow, target, templates, long):
        return
    product.attributes["workload"] = narrow
    for name in reshaped:
        graph.tensors[name] = replace(graph.tensors[name], dtype=dtype)
    if len(casts) == 1 and casts[0].output in graph.outputs:
        (writer,) = (n for n in graph.nodes if casts[0].inputs[0] in n.outputs)
        writer.output = casts[0].output
    removed = {id(cast) for cast in casts}
    rename_inputs(graph, {c.output: c.inputs[0] for c in casts if c.output not in graph.outputs})
    graph.nodes = [node for node in graph.nodes if id(node) not in removed]
