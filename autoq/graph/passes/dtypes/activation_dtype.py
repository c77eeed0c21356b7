"""Choose signed or unsigned integers inside the network: the same numbers, half a range apart.

A zero point of 0 makes padding exact without a bias for every kind of border: int8 with -128 is
uint8 with 0, int4 with -8 is uint4 with 0. CPUs multiply unsigned activations with signed weights
(VNNI), so they get unsigned ones. What only products of two activations read, as the queries, keys
and values of attention, is not padded and stays of its siblings' type, with which it shares a
launch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.passes.preparation.dequantise_late import MOVES
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.target import Target


def choose_activation_dtypes(graph: Graph, target: Target) -> None:
    """Rewrite zero points and dtypes of tensors that only quantisation operators look into."""
    parents = _groups(graph)
    groups: dict[str, set[str]] = {}
    touching: dict[str, list[Operation]] = {}
    for name in parents:
        groups.setdefault(_root(parents, name), set()).add(name)
    for node in graph.operations:
        names = {_root(parents, name) for name in (*node.inputs, *node.outputs) if name in parents}
        for root in names:
            touching.setdefault(root, []).append(node)
    ends = {*graph.inputs, *graph.outputs}
    consumers = graph.consumers()
    for root, names in groups.items():
        if names.isdisjoint(ends):
            nodes = touching.get(root, [])
            change = _change(graph, names, nodes, target)
            if change is not None and (change[1] > 0 or not _are_multiplied(nodes, consumers)):
                _apply(graph, names, nodes, *change)


def _are_multiplied(nodes: list[Operation], consumers: dict[str, list[Node]]) -> bool:
    """Whether products of two activations alone read what some operations dequantise."""
    read = [node.output for node in nodes if node.op == "DequantizeLinear"]
    readers = [reader for name in read for reader in consumers.get(name, [])]
    return all(isinstance(reader, Operation) and reader.op == "MatMul" for reader in readers)


def _groups(graph: Graph) -> dict[str, str]:
    """Union-find over quantised tensors: movement joins what it reads and writes."""
    parents = {n: n for n, t in graph.tensors.items() if t.dtype in INTEGER_RANGE}
    for node in graph.operations:
        if node.op in MOVES:
            for name in node.inputs:
                if name in parents and node.output in parents:
                    parents[_root(parents, name)] = _root(parents, node.output)
    return parents


def _root(parents: dict[str, str], name: str) -> str:
    while parents[name] != name:
        parents[name] = parents[parents[name]]  # halves the path for the next search
        name = parents[name]
    return name


def _change(
    graph: Graph, names: set[str], nodes: list[Operation], target: Target
) -> tuple[str, int] | None:
    """(dtype, shift) for a group of tensors that `nodes` touch, None to leave it."""
    dtypes = {graph.dtype(name) for name in names}
    zero_points: set[int] = set()
    for node in nodes:
        if node.op in ("QuantizeLinear", "DequantizeLinear"):
            if node.attributes["axis"] is not None:
                return None
            zero_points.add(int(node.attributes["zero_point"]))
        elif node.op not in MOVES or any(name in graph.constants for name in node.inputs):
            return None
    if len(dtypes) != 1 or len(zero_points) != 1:
        return None
    (dtype,), (zero_point,) = dtypes, zero_points
    signed = not dtype.startswith("u")
    half = (INTEGER_RANGE[dtype][1] + 1) // (1 if signed else 2)
    if signed and (zero_point == -half or target.kind == "cpu"):
        return f"u{dtype}", half
    if not signed and zero_point == half and target.kind == "cuda":
        return dtype.removeprefix("u"), -half
    return None


def _apply(graph: Graph, names: set[str], nodes: list[Operation], dtype: str, shift: int) -> None:
    for name in names:
        graph.tensors[name] = replace(graph.tensors[name], dtype=dtype)
    for node in nodes:
        if node.op in ("QuantizeLinear", "DequantizeLinear"):
            node.attributes["zero_point"] = np.asarray(node.attributes["zero_point"] + shift)
        elif node.op == "Pad":
            node.attributes["value"] += shift
