"""A product whose columns are read apart becomes several, so that nothing takes its output apart.

torch's exporters write queries, keys and values as one product that is reshaped, turned and sliced.
As products of their own they lie as attention reads them, and share a launch where a target has a
kernel for that (`lowering/merging/products.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor, fresh_name, prune

_MOST_PARTS = 8


@dataclass(frozen=True)
class _Part:
    """A slice of a product's columns: where it is read, and the way there.

    steps: Reshape and Transpose operations from the product on; leaf: the Slice behind them. lead:
    axes of the first reshaped tensor that are rows; columns: those of the product that it takes.
    """

    steps: tuple[Operation, ...]
    leaf: Operation
    lead: int
    columns: np.ndarray


def split_products(graph: Graph) -> None:
    """Give each slice of a product's columns a product of its own, where there are only slices."""
    around = Neighbourhood(graph)
    replaced: dict[int, list[Node]] = {}
    for node in graph.operations:
        if node.op != "Gemm":
            continue
        quantise = around.only_reader(node.output, "QuantizeLinear")
        if quantise is not None and quantise.attributes["axis"] is not None:
            continue
        last = node if quantise is None else quantise
        parts = _parts(around, last.output, graph.shape(node.output))
        if parts is None:
            continue
        made = [_part_product(graph, around, node, quantise, part) for part in parts]
        if any(operations is None for operations in made):
            continue
        replaced[id(last)] = [item for operations in made for item in operations or ()]
        for part in parts:
            replaced[id(part.leaf)] = []
    if replaced:
        graph.nodes = [
            item for node in graph.nodes for item in replaced.get(id(node), [node])
        ]  # what is left of products that nothing reads any more goes with `prune`
        prune(graph)


def _parts(around: Neighbourhood, name: str, shape: tuple[int, ...]) -> list[_Part] | None:
    """All slices that read a product [m, n], None if something else does, or they overlap."""
    found: list[_Part] = []
    pending: list[tuple[str, tuple[Operation, ...]]] = [(name, ())]
    while pending:
        tensor, steps = pending.pop()
        readers = around.readers(tensor)
        if tensor in around.graph.outputs or not readers or len(found) + len(readers) > _MOST_PARTS:
            return None
        for reader in readers:
            if reader.op in ("Reshape", "Transpose"):
                pending.append((reader.output, (*steps, reader)))
                continue
            part = _part(around.graph, steps, reader, shape) if reader.op == "Slice" else None
            if part is None:
                return None
            found.append(part)
    whole = np.concatenate([part.columns for part in found])
    return found if len(found) > 1 and len(np.unique(whole)) == len(whole) else None


def _part(
    graph: Graph, steps: Sequence[Operation], leaf: Operation, shape: tuple[int, ...]
) -> _Part | None:
    """The columns that a slice takes behind some steps; None where rows are cut or mixed."""
    m, n = shape
    axes: list[int] | None = None  # of the tensor at hand, as axes of `apart`
    apart = shape
    for step in steps:
        if step.op == "Reshape" and axes is None:
            apart = graph.shape(step.output)
        elif step.op == "Transpose":
            axes = [(axes or list(range(len(apart))))[axis] for axis in step.attributes["perm"]]
        else:
            return None
    axes = axes or list(range(len(apart)))
    lead = next((i for i in range(len(apart)) if math.prod(apart[:i]) == m), None)
    if lead is None or math.prod(apart[lead:]) != n:
        return None
    a, given = leaf.attributes, graph.shape(leaf.inputs[0])
    bounds = list(zip(a["starts"], a["ends"], a["steps"], strict=True))
    cut = [i for i, size in enumerate(given) if bounds[i] != (0, size, 1)]
    if len(cut) != 1 or axes[cut[0]] < lead or bounds[cut[0]][2] < 1:
        return None
    places: list[slice] = [slice(None)] * (len(apart) - lead)
    places[axes[cut[0]] - lead] = slice(*bounds[cut[0]])
    columns = np.arange(n).reshape(apart[lead:])[tuple(places)].reshape(-1)
    return _Part(tuple(steps), leaf, lead, columns) if len(columns) else None


def _part_product(
    graph: Graph, around: Neighbourhood, node: Operation, quantise: Operation | None, part: _Part
) -> list[Operation] | None:
    """The product of a part's columns, with what lies between it and the slice that it replaces."""
    weight = _rows(graph, around, node.inputs[1], part.columns)
    if weight is None:
        return None
    made, name = weight
    inputs = [node.inputs[0], name]
    if len(node.inputs) > 2:
        bias = around.constant(node.inputs[2])
        if bias is None:
            return None
        row = np.broadcast_to(bias.reshape(-1), (graph.shape(node.output)[1],))
        inputs.append(fresh_name(graph, f"{node.inputs[2]}/part"))
        graph.constants[inputs[2]] = np.ascontiguousarray(row[part.columns])
    shape = (graph.shape(node.output)[0], len(part.columns))
    y = add_tensor(graph, f"{node.output}/part", shape, "float32")
    made.append(Operation("Gemm", node.name, tuple(inputs), y, dict(node.attributes), node.covers))
    if quantise is not None:
        integers = add_tensor(graph, f"{quantise.output}/part", shape, graph.dtype(quantise.output))
        made.append(replace_operation(quantise, (y,), integers))
        y = integers
    return [*made, *_way(graph, y, part)]


def _rows(
    graph: Graph, around: Neighbourhood, name: str, rows: np.ndarray
) -> tuple[list[Operation], str] | None:
    """Some rows of a weight [n, k], and the operation that dequantises them where it is so kept."""
    if name in graph.constants:
        part = fresh_name(graph, f"{name}/part")
        graph.constants[part] = np.ascontiguousarray(graph.constants[name][rows])
        return [], part
    dequantise = around.producer(name, "DequantizeLinear")
    integers = None if dequantise is None else graph.constants.get(dequantise.inputs[0])
    if dequantise is None or integers is None or dequantise.attributes["axis"] not in (None, 0):
        return None
    attributes = dict(dequantise.attributes)
    if attributes["axis"] == 0:
        for key in ("scale", "zero_point"):
            attributes[key] = np.ascontiguousarray(np.asarray(attributes[key])[rows])
    part = fresh_name(graph, f"{dequantise.inputs[0]}/part")
    graph.constants[part] = np.ascontiguousarray(integers[rows])
    wide = add_tensor(graph, f"{name}/part", (len(rows), integers.shape[1]), "float32")
    made = Operation("DequantizeLinear", dequantise.name, (part,), wide, attributes)
    return [made], wide


def _way(graph: Graph, y: str, part: _Part) -> list[Operation]:
    """The steps of a part over its own columns alone; the last of them writes what its slice did.

    They are one Reshape, to the extents that are left, and one Transpose if there were any.
    """
    made: list[Operation] = []
    wanted = graph.shape(part.leaf.output)
    perms = [step.attributes["perm"] for step in part.steps if step.op == "Transpose"]
    if not perms:
        return [_reshape(part, (y,), part.leaf.output, wanted)]
    order = list(range(len(wanted)))
    for perm in perms:
        order = [order[axis] for axis in perm]
    before = tuple(wanted[order.index(axis)] for axis in range(len(wanted)))
    apart = add_tensor(graph, f"{y}/apart", before, graph.dtype(y))
    made.append(_reshape(part, (y,), apart, before))
    covers = part.leaf.covers
    made.append(
        Operation(
            "Transpose", part.leaf.name, (apart,), part.leaf.output, {"perm": tuple(order)}, covers
        )
    )
    return made


def _reshape(
    part: _Part, inputs: tuple[str, ...], output: str, shape: tuple[int, ...]
) -> Operation:  # fmt: skip
    return Operation("Reshape", part.leaf.name, inputs, output, {"shape": shape}, part.leaf.covers)


def replace_operation(node: Operation, inputs: tuple[str, ...], output: str) -> Operation:
    """The operation over other tensors."""
    return replace(node, inputs=inputs, output=output, attributes=dict(node.attributes))
