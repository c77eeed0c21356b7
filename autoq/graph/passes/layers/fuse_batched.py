"""Fuse products of two quantised activations with what stands before and behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.graph.fused import BATCHED, Scheme, scheme_of
from autoq.graph.ir import Graph, Operation
from autoq.graph.passes.layers.batched_axes import Axes, common_axes, destinations, sources
from autoq.graph.passes.layers.epilogue_match import Tail, match_tail
from autoq.graph.passes.layers.tail_epilogue import epilogue_of
from autoq.graph.rewrite import Neighbourhood, prune, replace_nodes
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.operators.batched_gemm import LONGEST_SUM

_BYTES = ("int8", "uint8")


def fuse_batched_products(graph: Graph) -> None:
    """Replace every MatMul of two dequantised tensors of bytes by a fused operation.

    It reads what the tensors are transposed from and writes what its result is transposed to,
    where heads of a batch lie side by side.
    """
    around = Neighbourhood(graph)
    taken: set[int] = set()
    groups = []
    for node in graph.operations:
        if node.op != "MatMul":
            continue
        factors = byte_factors(around, node)
        if factors is None:
            continue
        product = np.float32(factors[0].scheme.scale) * np.float32(factors[1].scheme.scale)
        tail = match_tail(node, around, True, taken)
        dtypes = [graph.dtype(name) for name in (tail.output, tail.residual) if name]
        if any(map(is_four_bit, dtypes)) or (tail.sums and product != 1.0):
            continue
        fused = _operation(around, node, tail, factors, product, taken)
        taken.update(id(member) for member in tail.nodes)
        groups.append((tail.nodes, fused))
    replace_nodes(graph, groups)
    prune(graph)


@dataclass(frozen=True)
class Factor:
    """A dequantised factor: the integers, their scheme and their shape as the product sees it."""

    name: str
    scheme: Scheme
    shape: tuple[int, ...]


def byte_factors(around: Neighbourhood, node: Operation) -> tuple[Factor, Factor] | None:
    """Both factors, None where a kernel cannot multiply them."""
    graph, found = around.graph, []
    for name in node.inputs:
        dequantise = around.producer(name, "DequantizeLinear")
        scheme = None if dequantise is None else scheme_of(graph, dequantise)
        if dequantise is None or scheme is None or scheme.dtype not in _BYTES:
            return None
        if dequantise.inputs[0] in graph.constants:
            return None
        found.append(Factor(dequantise.inputs[0], scheme, graph.shape(name)))
    x, other = found
    rank = len(graph.shape(node.output))
    same_batch = x.shape[:-2] == other.shape[:-2] == graph.shape(node.output)[: rank - 2]
    return (x, other) if same_batch and x.shape[-1] <= LONGEST_SUM else None


def _operation(
    around: Neighbourhood, node: Operation, tail: Tail, factors: tuple[Factor, Factor],
    product: np.float32, taken: set[int],
) -> Operation:  # fmt: skip
    graph = around.graph
    x, other = factors
    axes = _axes(around, tail, factors, taken)
    behind = epilogue_of(graph, tail, product)
    if axes.names["y"] != tail.output:
        tail.nodes.append(around.only_reader(tail.output, "Transpose"))
    inputs = (axes.names["x"], axes.names["other"])
    if tail.residual is not None:
        inputs = (*inputs, tail.residual)
    covers = tuple(dict.fromkeys(name for member in tail.nodes for name in member.covers))
    return Operation(BATCHED, node.name, inputs, axes.names["y"], {
        "extents": (axes.batch, x.shape[-2], other.shape[-1], x.shape[-1], axes.heads),
        "orders": tuple(axes.orders[role] for role in ("x", "other", "y")),
        "zero_points": (x.scheme.zero_point, other.scheme.zero_point),
        "epilogue": behind.epilogue, "scale": behind.scale, "scalars": behind.scalars,
    }, covers)  # fmt: skip


def _axes(
    around: Neighbourhood, tail: Tail, factors: tuple[Factor, Factor], taken: set[int]
) -> Axes:
    x, other = factors
    rank = len(x.shape)
    results = destinations(around, tail.output, rank)
    if tail.residual is not None:  # whose axes lie as those of the result
        results = results[-1:]
    roles = {
        "x": sources(around, x.name, rank, taken),
        "other": sources(around, other.name, rank, taken),
        "y": results,
    }
    return common_axes(x.shape[:-2], roles)
