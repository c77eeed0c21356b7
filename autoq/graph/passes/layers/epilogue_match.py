"""Find what follows a convolution or matrix product that its kernel's epilogue can compute."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autoq.graph.fused import Bounds, Scheme, same_scheme, scheme_of
from autoq.graph.ir import Graph, Operation
from autoq.graph.passes.layers.border_addition import border_addition
from autoq.graph.rewrite import Neighbourhood

CLAMPS = ("Relu", "Clip")


@dataclass
class Tail:
    """Operations behind an anchor: a bias of borders, clamp, quantise, add, clamp, quantise.

    They come in this order, each of them optional.

    inner: scheme and clamp before the addition. residual names a tensor as the kernel reads it
    (integers with `residual_scheme`, else float32). bounds and scheme are of the result `output`,
    float32 without a scheme, int32 sums with `sums`. border: what is added to the sums, a real
    number for every kind of border, float64 [row classes, column classes, k].
    """

    output: str
    nodes: list[Operation]
    bounds: Bounds = field(default_factory=Bounds)
    scheme: Scheme | None = None
    inner: tuple[Scheme, Bounds] | None = None
    residual: str | None = None
    residual_scheme: Scheme | None = None
    sums: bool = False
    border: np.ndarray | None = None


def match_tail(
    anchor: Operation, around: Neighbourhood, integer: bool, taken: set[int], borders: bool = False
) -> Tail:
    """The longest tail of `anchor`; `integer` says that its operands are quantised.

    Float32 anchors take no quantisation. Nodes in `taken` already belong to another kernel.
    borders: whether the anchor takes a bias for every kind of border.
    """
    graph = around.graph
    tail = Tail(anchor.output, [anchor])
    if integer:
        cast = around.only_reader(anchor.output, "Cast")
        if cast is not None and graph.dtype(cast.output) == "int32":
            return Tail(cast.output, [anchor, cast], sums=True)
        border = border_addition(anchor, around) if borders else None
        if border is not None:
            added, tail.border = border
            _extend(tail, added)
    _clamp(tail, around)
    if integer:
        _quantise(tail, around)
    _add(tail, around, anchor, integer, taken)
    return tail


def _extend(tail: Tail, node: Operation) -> None:
    tail.nodes.append(node)
    tail.output = node.output


def _clamp(tail: Tail, around: Neighbourhood) -> None:
    node = around.only_reader(tail.output, *CLAMPS)
    while node is not None:
        tail.bounds = tail.bounds.then(node)
        _extend(tail, node)
        node = around.only_reader(tail.output, *CLAMPS)


def _quantise(tail: Tail, around: Neighbourhood) -> None:
    node = around.only_reader(tail.output, "QuantizeLinear")
    scheme = None if node is None else scheme_of(around.graph, node)
    if node is None or scheme is None:
        return
    _extend(tail, node)
    tail.scheme = scheme
    _clamp_quantised(tail, around)


def _undone(tail: Tail, around: Neighbourhood) -> Operation | None:
    """The DequantizeLinear that alone reads the tail's integers, by the scheme they are in."""
    node = around.only_reader(tail.output, "DequantizeLinear")
    quantise = tail.nodes[-1]
    undoes = node is not None and same_scheme(around.graph, node, quantise)
    return node if undoes else None


def _clamp_quantised(tail: Tail, around: Neighbourhood) -> None:
    """DequantizeLinear, Relu or Clip, QuantizeLinear of equal scale is a clamp of integers."""
    while tail.scheme is not None:
        dequantise = _undone(tail, around)
        clamp = None if dequantise is None else around.only_reader(dequantise.output, *CLAMPS)
        quantise = None if clamp is None else around.only_reader(clamp.output, "QuantizeLinear")
        if dequantise is None or clamp is None or quantise is None:
            return
        scheme = scheme_of(around.graph, quantise)
        if scheme is None or scheme.scale != tail.scheme.scale:
            return
        bounds = tail.bounds.then(clamp)
        if not _same_range(tail.scheme, scheme, bounds):
            return
        tail.scheme, tail.bounds = scheme, bounds
        for node in (dequantise, clamp, quantise):
            _extend(tail, node)


def _same_range(first: Scheme, second: Scheme, bounds: Bounds) -> bool:
    """Whether the first scheme's range cuts nothing that the second one holds."""
    low, high = first.bounds(Bounds())
    inner_low, inner_high = second.bounds(bounds)
    return low <= inner_low and inner_high <= high


def _add(
    tail: Tail, around: Neighbourhood, anchor: Operation, integer: bool, taken: set[int]
) -> None:
    """Absorb a residual addition, the clamp and the quantisation behind it."""
    graph = around.graph
    inner = None
    dequantise = None
    name = tail.output
    if tail.scheme is not None:
        dequantise = _undone(tail, around)
        if dequantise is None:
            return
        inner = (tail.scheme, tail.bounds)
        name = dequantise.output
    elif not tail.bounds.free:
        return
    add = around.only_reader(name, "Add")
    if add is None or id(add) in taken:
        return
    other = add.inputs[1 - add.inputs.index(name)]
    shape = graph.shape(add.output)
    if graph.shape(other) != shape or graph.shape(name) != shape:
        return
    if around.constant(other) is not None:
        return  # kernels take constants of a channel each: an elementwise fusion adds it
    if _later_anchor(other, around, anchor, integer):
        return
    source = around.producer(other, "DequantizeLinear")
    scheme = None if source is None else scheme_of(graph, source)
    if integer and source is not None and scheme is not None:
        tail.residual, tail.residual_scheme = source.inputs[0], scheme
    else:
        tail.residual = other
    if dequantise is not None:
        tail.nodes.append(dequantise)
    tail.inner, tail.scheme, tail.bounds = inner, None, Bounds()
    _extend(tail, add)
    _clamp(tail, around)
    if integer:
        _quantise(tail, around)


def _later_anchor(name: str, around: Neighbourhood, anchor: Operation, integer: bool) -> bool:
    """Whether `name` comes from an anchor later than `anchor` that can absorb the addition."""
    graph: Graph = around.graph
    quantised = False
    while around.only_reader(name) is not None:
        node = around.producer(name, "Conv", "Gemm", "QuantizeLinear", "DequantizeLinear", *CLAMPS)
        if node is None:
            return False
        if node.op in ("Conv", "Gemm"):
            later = around.position[id(node)] > around.position[id(anchor)]
            return later and graph.shape(node.output) == graph.shape(anchor.output)
        if node.op in CLAMPS and not quantised:
            return False
        quantised = quantised or node.op == "QuantizeLinear"
        name = node.inputs[0]
    return False
