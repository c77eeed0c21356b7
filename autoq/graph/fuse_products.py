"""Fuse convolutions and matrix products with their epilogues into one kernel each."""

from __future__ import annotations

import numpy as np

from autoq.graph.constants import along_axis
from autoq.graph.epilogue_match import Tail, match_tail
from autoq.graph.fused import CONV, GEMM, Scheme
from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood, prune, replace_nodes
from autoq.templates.epilogue import INTEGER_RANGE, Epilogue, pack_scalars
from autoq.templates.storage import BYTE_DTYPES

_FUSED = {"Conv": CONV, "Gemm": GEMM}
_LARGEST_SUM = 2.0**30


def fuse_products(graph: Graph) -> None:
    """Replace every Conv and Gemm of constant weights by a fused operation.

    Integers where the input and the weights are dequantised integers of 8 or 4 bits, else float32.
    The arithmetic is that of `autoq.templates.epilogue`.
    """
    around = Neighbourhood(graph)
    taken: set[int] = set()
    groups = []
    for node in graph.operations:
        if node.op not in _FUSED:
            continue
        operands = _integer_operands(graph, node, around)
        tail = match_tail(node, around, not isinstance(operands, str), taken)
        if isinstance(operands, str):
            fused = _float_operation(graph, node, tail, around, operands)
        else:
            fused = _integer_operation(graph, node, tail, *operands)
        if fused is None:
            continue
        taken.update(id(member) for member in tail.nodes)
        groups.append((tail.nodes, fused))
    replace_nodes(graph, groups)
    prune(graph)


def _integer_operands(
    graph: Graph, node: Operation, around: Neighbourhood
) -> tuple[str, Scheme, np.ndarray, str, np.ndarray, np.ndarray] | str:
    """(x, its scheme, int8 weight, its dtype, float32 weight scales [k], int32 bias [k]).

    The dtype is int4 for weights that the model holds in 4 bits and that fit it.

    Where integers do not do, the reason, or "" for a node that is not quantised.
    """
    x = around.producer(node.inputs[0], "DequantizeLinear")
    weight = around.producer(node.inputs[1], "DequantizeLinear")
    if x is None or weight is None or weight.inputs[0] not in graph.constants:
        return ""
    x_dtype = graph.dtype(x.inputs[0])
    if x_dtype not in INTEGER_RANGE:
        return f"its input is {x_dtype}"
    if x.attributes["axis"] is not None:
        return "its input has a scale for each channel"
    if weight.attributes["axis"] not in (None, 0):
        return "its weights have no scale for each output channel"
    integers = graph.constants[weight.inputs[0]].astype(np.int32)
    integers = integers - along_axis(
        weight.attributes["zero_point"], weight.attributes["axis"], integers.ndim
    )
    if integers.min(initial=0) < -128 or integers.max(initial=0) > 127:
        return "its weights less their zero points need more than 8 bits"
    weight_dtype = _weight_dtype(graph.dtype(weight.inputs[0]), integers)
    scheme = Scheme.of(x, x_dtype)
    k = len(integers)
    scales = np.broadcast_to(np.asarray(weight.attributes["scale"], np.float32), (k,))
    bias = np.zeros(k, np.int32)
    if len(node.inputs) > 2:
        real = around.constant(node.inputs[2])
        if real is None:
            return "its bias is no constant"
        sums = np.rint(real.astype(np.float64).reshape(-1) / (scheme.scale * scales))
        if np.abs(sums).max(initial=0) > _LARGEST_SUM:
            return "its bias does not fit the 32-bit sums"
        bias = np.broadcast_to(sums, (k,)).astype(np.int32)
    return x.inputs[0], scheme, integers.astype(np.int8), weight_dtype, scales, bias


def _weight_dtype(declared: str, integers: np.ndarray) -> str:
    least, most = INTEGER_RANGE["int4"]
    fits = integers.min(initial=0) >= least and integers.max(initial=0) <= most
    return "int4" if declared in BYTE_DTYPES and fits else "int8"


def _integer_operation(
    graph: Graph, node: Operation, tail: Tail, x: str, scheme: Scheme, weight: np.ndarray,
    weight_dtype: str, weight_scale: np.ndarray, bias: np.ndarray,
) -> Operation | None:  # fmt: skip
    product = scheme.scale * weight_scale
    scalars: dict[str, float] = {}
    unit = np.float32(1) if tail.scheme is None else tail.scheme.scale
    if tail.sums and not np.all(product == 1.0):
        return None
    scale = None if tail.sums else product / unit
    if tail.inner is not None:
        inner, inner_bounds = tail.inner
        scale = product / inner.scale
        low, high = inner.bounds(inner_bounds)
        scalars.update(accumulator_low=low, accumulator_high=high)
        scalars["accumulator_scale"] = float(inner.scale / unit)
    residual_dtype = None
    if tail.residual is not None:
        residual_dtype = graph.dtype(tail.residual)
        other = tail.residual_scheme
        other_scale = np.float32(1) if other is None else other.scale
        scalars["residual_scale"] = float(other_scale / unit)
        scalars["residual_zero_point"] = 0 if other is None else other.zero_point
    if tail.scheme is not None:
        scalars["low"], scalars["high"] = tail.scheme.bounds(tail.bounds)
        scalars["zero_point"] = tail.scheme.zero_point
    else:
        scalars.update(low=tail.bounds.low, high=tail.bounds.high)
    epilogue = Epilogue(graph.dtype(tail.output), residual_dtype, tail.inner is not None)
    return _operation(node, tail, x, {
        "weight": weight, "weight_dtype": weight_dtype, "bias": bias, "scale": scale,
        "scalars": pack_scalars(**scalars), "x_zero_point": scheme.zero_point, "epilogue": epilogue,
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
