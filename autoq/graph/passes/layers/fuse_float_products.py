"""Products of models of 16-bit floats, and of weights of integers, where a kernel takes them.

The graph computes such a model in float32. A kernel for float16 or bfloat16 reads activations that
are rounded to it, and weights as integers with their scales; a float32 model may have such too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.graph.constants import DEQUANTISATIONS
from autoq.graph.fused import WORKLOAD
from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.passes.layers.float_batches import float_batches
from autoq.graph.passes.layers.float_tails import FloatTail, float_tails
from autoq.graph.passes.layers.half_rounding import (
    Rounded,
    drop_roundings,
    place_roundings,
    rounded_tensor,
    widened_behind,
    write_narrow,
)
from autoq.graph.passes.layers.integer_operands import integer_operands
from autoq.graph.rewrite import Neighbourhood, prune, replace_nodes
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.storage import value_dtype
from autoq.templates.base import Template
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.registry import matching
from autoq.templates.target import Target

_SIGNED = {"uint4": ("int4", 8), "uint8": ("int8", 128)}


def fuse_float_products(
    graph: Graph, target: Target, templates: Sequence[Template], long: bool = False
) -> None:
    """Replace each product that a template computes of 16-bit floats, or of weights of integers.

    A Gemm of constant weights, with the activation and the addition behind it as far as a kernel
    computes them, or a MatMul of two activations. Products whose factors are both
    dequantised integers are left to `fuse_products` and `fuse_batched_products`. long: as in
    `computable`.
    """
    around = Neighbourhood(graph)
    rounded: Rounded = {}
    groups: list[tuple[Sequence[Node], Operation]] = []
    casts: list[tuple[Operation, Operation]] = []
    taken: set[int] = set()
    for node in graph.operations:
        if node.op != "Gemm" or not isinstance(integer_operands(graph, node, around), str):
            continue
        pairs = (_fused(around, node, dtype, taken) for dtype in _types(node))
        found = (pair for of_type in pairs for pair in of_type)
        tail, attributes = next(
            (pair for pair in found if matching(pair[1]["workload"], target, templates)),
            (None, None),
        )
        if tail is None or attributes is None:
            continue
        taken.update(id(member) for member in tail.members)
        covers = tuple(dict.fromkeys(name for member in tail.members for name in member.covers))
        x, dtype = node.inputs[0], attributes["workload"].in_dtype
        if dtype != "float32":
            x = rounded_tensor(graph, around, x, dtype, rounded)
        inputs = (x,) if tail.residual is None else (x, tail.residual)
        product = Operation(WORKLOAD, node.name, inputs, tail.output, attributes, covers)
        groups.append((tail.members, product))
        narrow = attributes["workload"].with_output(dtype)
        own = node.attributes.get("floats") == dtype != "float32"
        if own and tail.residual is not None and matching(narrow, target, templates):
            attributes["workload"] = narrow
            residual = rounded_tensor(graph, around, tail.residual, dtype, rounded)
            product.inputs = (x, residual)
            casts.append((product, widened_behind(graph, product, dtype)))
    groups += float_batches(graph, around, target, templates, rounded, long)
    replace_nodes(graph, groups)
    for product, cast in casts:
        graph.nodes.insert(graph.nodes.index(product) + 1, cast)
    place_roundings(graph, rounded)
    drop_roundings(graph)
    prune(graph)  # of transpositions that products take in, which would still be readers
    for _, product in groups:
        if product.attributes["workload"].in_dtype != "float32":
            write_narrow(graph, product, target, templates, long)
    prune(graph)


def _types(node: Operation) -> list[str]:
    """The types that a product's activations may be of: the model's, then what it allows."""
    dtype = node.attributes.get("floats", "float32")
    allowed = node.attributes.get("allowed_floats", dtype)
    return [dtype] if allowed == dtype or dtype != "float32" else [dtype, allowed]


def _fused(
    around: Neighbourhood, node: Operation, dtype: str, taken: set[int]
) -> list[tuple[FloatTail, dict[str, Any]]]:
    """Every tail of a product of a type, the longest first, and the attributes of its layer."""
    weight, bias = _weight(around, node, dtype), _bias(around, node)
    if weight is None or bias is False:
        return []
    constants = weight.constants if bias is None else {**weight.constants, "bias": bias}
    return [
        (tail, {"workload": _workload(around.graph, node, weight, bias, tail, dtype),
                "constants": constants})
        for tail in float_tails(around, node, dtype, taken)
    ]  # fmt: skip


def _workload(
    graph: Graph, node: Operation, weight: _Weight, bias: np.ndarray | None, tail: FloatTail,
    dtype: str,
) -> FloatGemm:  # fmt: skip
    """A product with what its kernel computes behind it; float32 comes out."""
    m, k = graph.shape(node.inputs[0])
    return FloatGemm(
        m, graph.shape(node.inputs[1])[0], k, dtype,
        weight.dtype, "float32", weight.group, "zero_point" in weight.constants, bias is not None,
        tail.activation, residual=tail.residual is not None,
    )  # fmt: skip


@dataclass(frozen=True)
class _Weight:
    """A constant [n, k] as a kernel takes it; group is 0 for a scale a row."""

    dtype: str
    group: int
    constants: dict[str, Any]


def _bias(around: Neighbourhood, node: Operation) -> Any:
    """float32 [n], None without a bias, False for one that is not constant."""
    if len(node.inputs) < 3:
        return None
    value = around.constant(node.inputs[2])
    if value is None:
        return False
    n = around.graph.shape(node.output)[1]
    return np.ascontiguousarray(np.broadcast_to(value.reshape(-1), (n,)), np.float32)


def _weight(around: Neighbourhood, node: Operation, dtype: str) -> _Weight | None:
    """The constant [n, k] beside x of a dtype, None for one that no kernel keeps narrow."""
    graph, name = around.graph, node.inputs[1]
    if name in graph.constants:
        if dtype == "float32":
            return None
        halves = graph.constants[name].astype(dtype)
        same = np.array_equal(halves.astype(np.float32), graph.constants[name])
        return _Weight(dtype, 0, {"weight": halves}) if same else None
    dequantise = around.producer(name, *DEQUANTISATIONS)
    integers = None if dequantise is None else graph.constants.get(dequantise.inputs[0])
    if dequantise is None or integers is None or str(integers.dtype) not in INTEGER_RANGE:
        return None
    a, (n, k) = dequantise.attributes, integers.shape
    group = 0
    if dequantise.op == "DequantizeBlocks":
        if a["axis"] != 1 or (a["block"] < k and k % a["block"]):
            return None
        group = a["block"] if a["block"] < k else 0
    elif a["axis"] not in (None, 0):
        return None
    rows = (n, k // group if group else 1)
    scale, zero_point = (
        np.broadcast_to(np.reshape(a[key], rows if np.size(a[key]) > 1 else (1, 1)), rows)
        for key in ("scale", "zero_point")
    )
    return _with_zero_points(integers, np.asarray(scale, np.float32), zero_point, group)


def _with_zero_points(
    integers: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, group: int
) -> _Weight:
    """Integers whose zero points are all that of the middle are signed ones without."""
    dtype, values = str(integers.dtype), integers.astype(np.int16)
    signed, middle = _SIGNED.get(dtype, (dtype, 0))
    if np.all(zero_point == middle):
        dtype, values, zero_point = signed, values - middle, np.zeros_like(zero_point)
    constants = {
        "weight": np.ascontiguousarray(values.astype(value_dtype(dtype))),
        "scale": np.ascontiguousarray(scale),
    }
    if np.any(zero_point):
        constants["zero_point"] = np.ascontiguousarray(zero_point.astype(value_dtype(dtype)))
    return _Weight(dtype, group, constants)
