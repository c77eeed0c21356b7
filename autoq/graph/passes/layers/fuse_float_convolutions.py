"""Convolutions of models of 16-bit floats, where a kernel takes them.

The graph computes such a model in float32. A kernel reads images and filters of float16 or bfloat16
and writes images of that type, as the model says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autoq.graph.fused import WORKLOAD
from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.passes.layers.float_tails import FloatTail, float_tails
from autoq.graph.passes.layers.half_rounding import (
    HALVES,
    Rounded,
    drop_roundings,
    place_roundings,
    rounded_tensor,
    widened_behind,
)
from autoq.graph.rewrite import Neighbourhood, add_tensor, prune, replace_nodes
from autoq.templates.base import Template
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.registry import matching
from autoq.templates.target import Target

_LAYOUT = "NHWC"
_WHOLE = 8
"""Channels of 16 bits that kernels address: 16 bytes."""


def fuse_float_convolutions(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Replace each dense Conv that a template computes of 16-bit floats, with what follows it.

    Channels that fill no 16 bytes are padded with zeros: those of x by an operation in front, the
    filters' own number by filters of zeros, whose channels an operation behind takes off.
    """
    around = Neighbourhood(graph)
    rounded: Rounded = {}
    groups: list[tuple[Sequence[Node], Operation]] = []
    behind: list[tuple[Operation, list[Operation]]] = []
    wide: dict[tuple[str, str], Operation] = {}
    taken: set[int] = set()
    for node in graph.operations:
        dtype = node.attributes.get("floats")
        if node.op != "Conv" or dtype not in HALVES or node.attributes["groups"] != 1:
            continue
        constants = _constants(around, node, dtype)
        if constants is None:
            continue
        tail, workload = _fused(around, node, dtype, constants, taken)
        if not matching(workload, target, templates):
            continue
        taken.update(id(member) for member in tail.members)
        x = rounded_tensor(graph, around, node.inputs[0], dtype, rounded)
        x = _padded(graph, x, workload.c, wide)
        inputs = (x,)
        if tail.residual is not None:
            inputs = (x, rounded_tensor(graph, around, tail.residual, dtype, rounded))
        covers = tuple(dict.fromkeys(name for member in tail.members for name in member.covers))
        attributes = {"workload": workload, "constants": constants, "layout": _LAYOUT}
        product = Operation(WORKLOAD, node.name, inputs, tail.output, attributes, covers)
        groups.append((tail.members, product))
        behind.append((product, _narrowed(graph, product, workload, dtype)))
    replace_nodes(graph, groups)
    for product, more in behind:
        at = graph.nodes.index(product) + 1
        graph.nodes[at:at] = more
    place_roundings(graph, rounded)
    _place_behind(graph, list(wide.values()))
    drop_roundings(graph)
    prune(graph)


def _constants(around: Neighbourhood, node: Operation, dtype: str) -> dict[str, Any] | None:
    """Filters [k, r, s, c] and the bias of whole channels; None for what has no such form."""
    weight = around.constant(node.inputs[1])
    if weight is None or weight.ndim != 4:
        return None
    halves = weight.astype(dtype)
    if not np.array_equal(halves.astype(np.float32), weight):
        return None
    k, c = -len(weight) % _WHOLE, -weight.shape[1] % _WHOLE
    filters = np.pad(halves.transpose(0, 2, 3, 1), [(0, k), (0, 0), (0, 0), (0, c)])
    constants = {"weight": np.ascontiguousarray(filters)}
    if len(node.inputs) > 2:
        bias = around.constant(node.inputs[2])
        if bias is None:
            return None
        whole = np.broadcast_to(bias.reshape(-1), (len(weight),)).astype(np.float32)
        constants["bias"] = np.pad(whole, (0, k))
    return constants


def _fused(
    around: Neighbourhood, node: Operation, dtype: str, constants: dict[str, Any], taken: set[int]
) -> tuple[FloatTail, FloatConv2d]:
    """The longest tail of a convolution, and its workload."""
    graph, a = around.graph, node.attributes
    n, _, h, w = graph.shape(node.inputs[0])
    k, r, s, c = constants["weight"].shape
    tails = float_tails(around, node, dtype, taken)
    if k != graph.shape(node.output)[1]:  # of whole channels only a convolution's own are known
        tails = [tail for tail in tails if tail.residual is None]
    tail = tails[0]
    first = tail.residual is not None and tail.activation == "none"
    relu = around.only_reader(tail.output, "Relu") if first else None
    if relu is not None:
        tail = FloatTail((*tail.members, relu), "relu", tail.residual)
    return tail, FloatConv2d(
        n, h, w, c, k, r, s, tuple(a["strides"]), tuple(a["pads"]), tuple(a["dilations"]), dtype,
        dtype, "bias" in constants, tail.activation, tail.residual is not None, relu is not None,
    )  # fmt: skip


def _padded(graph: Graph, x: str, channels: int, wide: dict[tuple[str, str], Operation]) -> str:
    """An image of so many channels, zeros behind those that it has."""
    n, c, h, w = graph.shape(x)
    if c == channels:
        return x
    if (x, str(channels)) not in wide:
        output = add_tensor(graph, f"{x}/channels", (n, channels, h, w), graph.dtype(x))
        attributes = {
            "before": (0, 0, 0, 0), "after": (0, channels - c, 0, 0), "value": 0.0,
        }  # fmt: skip
        wide[x, str(channels)] = Operation("Pad", output, (x,), output, attributes)
    return wide[x, str(channels)].output


def _narrowed(
    graph: Graph, product: Operation, workload: FloatConv2d, dtype: str
) -> list[Operation]:
    """Let the layer write 16-bit floats; what makes of them what the model reads."""
    result = product.output
    n, k, p, q = graph.shape(result)
    if workload.k == k:
        return [widened_behind(graph, product, dtype)]
    product.output = add_tensor(graph, f"{result}/filters", (n, workload.k, p, q), dtype)
    all_channels = add_tensor(graph, f"{result}/widened", (n, workload.k, p, q), "float32")
    bounds = {"starts": (0, 0, 0, 0), "ends": (n, k, p, q), "steps": (1, 1, 1, 1)}
    return [
        Operation("Cast", product.name, (product.output,), all_channels),
        Operation("Slice", product.name, (all_channels,), result, bounds),
    ]


def _place_behind(graph: Graph, operations: Sequence[Operation]) -> None:
    """Put each operation behind what makes its input."""
    nodes: list[Node] = [made for made in operations if made.inputs[0] in graph.inputs]
    for node in graph.nodes:
        nodes.append(node)
        nodes += [made for made in operations if made.inputs[0] in node.outputs]
    graph.nodes = nodes
