"""A product scales its quantised channels and adds the residual itself, instead of a kernel behind.

Blocks of ConvNeXt multiply what they compute by a number of each channel before they add it to what
they read; in a quantised model each of these steps rounds to bytes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.graph.ir import Fusion, Graph, Layer, Node, Primitive
from autoq.templates.base import Template
from autoq.templates.epilogue import SCALAR_NAMES, pack_scalars
from autoq.templates.operators.gemm import factored
from autoq.templates.registry import matching
from autoq.templates.target import Target

_OPERATIONS = ("Add", "Mul", *("dequantize",) * 3, *("quantize",) * 2)
_BYTES = ("int8", "uint8")
_NEIGHBOURS = 4
"""Float32 numbers on either side of a channel's factor that are tried."""


def merge_factor(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Let products of bytes do what a fusion of factor, residual and roundings does behind them."""
    readers = Counter(name for node in graph.nodes for name in node.inputs) + Counter(graph.outputs)
    writers = {node.output: node for node in graph.nodes if isinstance(node, Layer)}
    merged: dict[int, Layer] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        tail = _tail(node) if isinstance(node, Fusion) else None
        layer = writers.get(tail.x) if tail is not None else None
        if tail is None or layer is None or readers[tail.x] != 1:
            continue
        scaled = _scaled(layer, tail)
        if scaled is not None and matching(scaled.workload, target, templates):
            merged[id(node)] = scaled
            gone.add(id(layer))
    nodes: list[Node] = [merged.get(id(node), node) for node in graph.nodes if id(node) not in gone]
    graph.nodes = nodes


@dataclass(frozen=True)
class _Tail:
    """`quantise(dequantise(quantise(dequantise(x) * factor)) + dequantise(residual))` of bytes.

    x and residual: the tensors; first, second, other: the dequantisations of x, of what is rounded
    behind the factor, and of the residual; middle and last: the quantisations.
    """

    node: Fusion
    x: str
    residual: str
    residual_dtype: str
    factor: np.ndarray
    first: Primitive
    middle: Primitive
    second: Primitive
    other: Primitive
    last: Primitive


def _tail(node: Fusion) -> _Tail | None:
    """What a fusion computes, None where it is anything else."""
    ops = tuple(sorted(primitive.op for primitive in node.primitives))
    if ops != _OPERATIONS or len(node.inputs) != 2 or len(node.constants) != 1:
        return None
    if node.input_shapes != (node.output_shape,) * 2 or not {*node.input_dtypes} <= {*_BYTES}:
        return None
    (factor,) = node.constants
    given, (channels,) = len(node.inputs) + 1, node.output_shape[-1:]
    if factor.size != channels or factor.shape[-1:] != (channels,) or factor.dtype != np.float32:
        return None

    def behind(primitive: Primitive, op: str) -> list[Primitive]:
        """The primitives of an op among the arguments of another one."""
        own = [node.primitives[at - given] for at in primitive.arguments if at >= given]
        return [one for one in own if one.op == op]

    last = node.primitives[-1]
    terms = [term for add in behind(last, "Add") for term in behind(add, "dequantize")]
    inner = [term for term in terms if behind(term, "quantize")]
    outer = [term for term in terms if term.arguments[0] < len(node.inputs)]
    if last.op != "quantize" or len(inner) != 1 or len(outer) != 1:
        return None
    (second,), (other,) = inner, outer
    (middle,) = behind(second, "quantize")
    products = behind(middle, "Mul")
    first = [one for product in products for one in behind(product, "dequantize")]
    if len(first) != 1 or given - 1 not in products[0].arguments:
        return None
    x, residual = first[0].arguments[0], other.arguments[0]
    if {x, residual} != {0, 1} or last.dtype not in _BYTES:
        return None
    return _Tail(node, node.inputs[x], node.inputs[residual], node.input_dtypes[residual],
                 factor.reshape(-1), first[0], middle, second, other, last)  # fmt: skip


def _scaled(layer: Layer, tail: _Tail) -> Layer | None:
    """The product with all that the tail computes, None where it cannot have it."""
    work = factored(layer.workload, tail.last.dtype, tail.residual_dtype)
    if work is None or layer.further_outputs or tail.node.output_shape != work.y_shape:
        return None
    named = dict(zip(SCALAR_NAMES, map(float, layer.constants["scalars"]), strict=True))
    if named["zero_point"] != tail.first["zero_point"]:
        return None
    low, high = named["low"], named["high"]
    factor = _exact_factor(tail, low, high)
    if factor is None:
        return None
    unit = np.float32(tail.last["scale"])
    constants: dict[str, Any] = {
        **layer.constants,
        "factor": factor,
        "factor_bounds": np.array([tail.middle["low"], tail.middle["high"]], np.float32),
        "scalars": pack_scalars(
            accumulator_low=low,
            accumulator_high=high,
            accumulator_scale=float(np.float32(tail.second["scale"]) / unit),
            residual_scale=float(np.float32(tail.other["scale"]) / unit),
            residual_zero_point=float(tail.other["zero_point"]),
            low=tail.last["low"],
            high=tail.last["high"],
            zero_point=float(tail.last["zero_point"]),
        ),
    }
    covers = tuple(dict.fromkeys((*layer.covers, *tail.node.covers)))
    return dataclasses.replace(
        layer, workload=work, constants=constants, inputs=(*layer.inputs, tail.residual),
        output=tail.node.output, covers=covers,
    )  # fmt: skip


def _exact_factor(tail: _Tail, low: float, high: float) -> np.ndarray | None:
    """A number for each channel whose products round as the model's do, for each byte there is.

    None where a channel has none, or where the second quantisation's zero points differ.
    """
    if tail.middle["zero_point"] != tail.second["zero_point"]:
        return None
    numbers = np.arange(low, high + 1, dtype=np.float32)[:, None]
    step = np.float32(tail.middle["scale"])
    bounds = tail.middle["low"], tail.middle["high"]

    def rounded(quotient: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(quotient), *bounds)

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        wanted = rounded(numbers * np.float32(tail.first["scale"]) * tail.factor / step)
        found = np.float32(tail.first["scale"]) * tail.factor / step
        above = below = found
        exact = (rounded(numbers * found) == wanted).all(axis=0)
        for _ in range(_NEIGHBOURS):
            above = np.nextafter(above, np.float32(np.inf))
            below = np.nextafter(below, np.float32(-np.inf))
            for near in (above, below):
                suits = (rounded(numbers * near) == wanted).all(axis=0) & np.isfinite(near)
                found = np.where(suits & ~exact, near, found)
                exact |= suits
    return found.astype(np.float32) if bool(exact.all() & np.isfinite(found).all()) else None
