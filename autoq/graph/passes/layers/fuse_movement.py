"""Fuse pools, additions and concatenations with the quantisation around them."""

from __future__ import annotations

import numpy as np

from autoq.graph.fused import ADD, CONCAT, POOL, Bounds, Scheme, scheme_of
from autoq.graph.ir import Graph, Operation
from autoq.graph.passes.fusions.regions import ELEMENTWISE
from autoq.graph.passes.layers.epilogue_match import CLAMPS
from autoq.graph.rewrite import Neighbourhood, prune, replace_nodes
from autoq.templates.arrays.element import INTEGER_RANGE


def fuse_movement(graph: Graph) -> None:
    """Replace MaxPool, AveragePool, equal-shape Add and channel Concat by fused operations."""
    around = Neighbourhood(graph)
    groups = []
    taken: set[int] = set()
    for node in graph.operations:
        if id(node) in taken:
            continue
        fuse = _FUSERS.get(node.op)
        result = None if fuse is None else fuse(graph, node, around)
        if result is not None:
            groups.append(result)
            taken.update(id(member) for member in result[0])
    replace_nodes(graph, groups)
    prune(graph)


Group = tuple[list[Operation], Operation]


def _tail(
    node: Operation, around: Neighbourhood, quantised: bool
) -> tuple[list[Operation], Bounds, Scheme | None]:
    """The node with the clamps behind it and, where asked for, the quantisation."""
    nodes, bounds = [node], Bounds()
    while (clamp := around.only_reader(nodes[-1].output, *CLAMPS)) is not None:
        bounds = bounds.then(clamp)
        nodes.append(clamp)
    quantise = around.only_reader(nodes[-1].output, "QuantizeLinear") if quantised else None
    scheme = None if quantise is None else scheme_of(around.graph, quantise)
    if quantise is not None and scheme is not None:
        nodes.append(quantise)
    return nodes, bounds, scheme


def _source(name: str, around: Neighbourhood) -> tuple[str, Scheme] | None:
    """(integers, scheme) that `name` is the dequantisation of, None where it is not one."""
    node = around.producer(name, "DequantizeLinear")
    scheme = None if node is None else scheme_of(around.graph, node)
    return None if node is None or scheme is None else (node.inputs[0], scheme)


def _computed(integers: str, around: Neighbourhood) -> bool:
    """Whether `integers`, read once, are what an elementwise fusion would write by itself."""
    quantise = around.producer(integers, "QuantizeLinear")
    if quantise is None or around.only_reader(integers) is None:
        return False
    node = around.producer(quantise.inputs[0], *ELEMENTWISE)
    if node is None or node.op in ("Add", *CLAMPS):
        return False  # an addition is a layer of its own
    return around.graph.shape(node.output) == around.graph.shape(integers)


def _fused(
    op: str, nodes: list[Operation], inputs: tuple[str, ...], attributes: dict[str, object]
) -> Group:
    covers = tuple(dict.fromkeys(name for member in nodes for name in member.covers))
    merged = {**nodes[0].attributes, **attributes}
    return nodes, Operation(op, nodes[0].name, inputs, nodes[-1].output, merged, covers)


def _pool(graph: Graph, node: Operation, around: Neighbourhood) -> Group | None:
    if node.attributes["dilations"] != (1, 1):
        return None  # no template skips pixels: a fusion does
    kind = "max" if node.op == "MaxPool" else "average"
    dtype = graph.dtype(node.inputs[0])
    if dtype in INTEGER_RANGE:
        return _integer_max(graph, node, around)
    if dtype != "float32":
        return None
    source = _source(node.inputs[0], around)
    if source is not None:
        nodes, bounds, scheme = _tail(node, around, quantised=True)
        if scheme is not None:
            x, x_scheme = source
            return _fused(POOL, nodes, (x,), _pool_scalars(kind, x_scheme, scheme, bounds))
    nodes, bounds, _ = _tail(node, around, quantised=False)
    scalars = np.array([0, 1, bounds.low, bounds.high, 0], np.float32)
    return _fused(POOL, nodes, node.inputs, {"kind": kind, "scalars": scalars, "requantize": False})


def _pool_scalars(kind: str, x: Scheme, y: Scheme, bounds: Bounds) -> dict[str, object]:
    scalars = np.array(
        [x.zero_point, x.scale / y.scale, *y.bounds(bounds), y.zero_point], np.float32
    )
    return {"kind": kind, "scalars": scalars, "requantize": True}


def _integer_max(graph: Graph, node: Operation, around: Neighbourhood) -> Group:
    """A maximum of integers; a change of scale behind it is absorbed."""
    dequantise = around.only_reader(node.output, "DequantizeLinear")
    x = None if dequantise is None else scheme_of(graph, dequantise)
    if dequantise is not None and x is not None:
        nodes, bounds, scheme = _tail(dequantise, around, quantised=True)
        if scheme is not None:
            attributes = _pool_scalars("max", x, scheme, bounds)
            return _fused(POOL, [node, *nodes], node.inputs, attributes)
    scalars = np.array([0, 1, -np.inf, np.inf, 0], np.float32)
    attributes = {"kind": "max", "scalars": scalars, "requantize": False}
    return _fused(POOL, [node], node.inputs, attributes)


def _add(graph: Graph, node: Operation, around: Neighbourhood) -> Group | None:
    shape = graph.shape(node.output)
    if any(graph.shape(n) != shape or n in graph.constants for n in node.inputs):
        return None
    if graph.dtype(node.output) != "float32":
        return None
    sources = [s for s in (_source(name, around) for name in node.inputs) if s is not None]
    if len(sources) == 2 and any(_computed(name, around) for name, _ in sources):
        return None  # an elementwise fusion computes what is added on the way
    if len(sources) == 2:
        nodes, bounds, scheme = _tail(node, around, quantised=True)
        if scheme is not None:
            (a, a_scheme), (b, b_scheme) = sources
            values = [
                a_scheme.zero_point, a_scheme.scale / scheme.scale,
                b_scheme.zero_point, b_scheme.scale / scheme.scale,
                *scheme.bounds(bounds), scheme.zero_point,
            ]  # fmt: skip
            return _fused(ADD, nodes, (a, b), {"scalars": np.array(values, np.float32)})
    elif sources:
        return None  # mixed operands: an elementwise fusion dequantises on the way
    nodes, bounds, _ = _tail(node, around, quantised=False)
    if any(around.producer(name, *ELEMENTWISE) for name in node.inputs):
        return None  # an elementwise fusion computes all of it in one pass
    if around.only_reader(nodes[-1].output, *ELEMENTWISE):
        return None
    scalars = np.array([0, 1, 0, 1, bounds.low, bounds.high, 0], np.float32)
    return _fused(ADD, nodes, node.inputs, {"scalars": scalars})


def _concat(graph: Graph, node: Operation, around: Neighbourhood) -> Group | None:
    rank = len(graph.shape(node.output))
    if rank < 2 or node.attributes["axis"] != (1 if rank == 4 else rank - 1):
        return None
    if any(name in graph.constants for name in node.inputs):
        return None
    dtype = graph.dtype(node.output)
    if dtype in INTEGER_RANGE:
        return _copied(node)
    if dtype != "float32":
        return None
    sources = [s for s in (_source(name, around) for name in node.inputs) if s is not None]
    nodes, bounds, scheme = _tail(node, around, quantised=True)
    if scheme is None or len(sources) < len(node.inputs):
        return _copied(node)
    low, high = scheme.bounds(bounds)
    rows, requantize = [], []
    for _, x in sources:
        same = bounds.free and (x.scale, x.dtype) == (scheme.scale, scheme.dtype)
        requantize.append(not (same and x.zero_point == scheme.zero_point))
        rows.append([x.zero_point, x.scale / scheme.scale, low, high, scheme.zero_point])
    inputs = tuple(name for name, _ in sources)
    attributes = {"scalars": np.array(rows, np.float32), "requantize": tuple(requantize)}
    return _fused(CONCAT, nodes, inputs, attributes)


def _copied(node: Operation) -> Group:
    rows = np.tile(np.array([0, 1, -np.inf, np.inf, 0], np.float32), (len(node.inputs), 1))
    attributes = {"scalars": rows, "requantize": (False,) * len(node.inputs)}
    return _fused(CONCAT, [node], node.inputs, attributes)


_FUSERS = {"MaxPool": _pool, "AveragePool": _pool, "Add": _add, "Concat": _concat}
