"""Convolutions of models of 16-bit floats, where a kernel takes them.

The graph computes such a model in float32. A kernel reads images and filters of float16 or bfloat16
and writes images of that type, as the model says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.graph.fused import WORKLOAD
from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.passes.channels.stem import in_blocks
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
_STEP = 64
"""Channels of 16 bits of a step of a product's reduction: 128 bytes."""
_WHOLE = 8
"""Channels of 16 bits that kernels address: 16 bytes."""


def fuse_float_convolutions(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Replace each Conv that a template computes of 16-bit floats, with what follows it.

    Channels of dense ones that fill no 16 bytes are padded with zeros: those of x by an operation
    in front, the filters' own number by filters of zeros, whose channels an operation behind takes
    off.
    """
    around = Neighbourhood(graph)
    rounded: Rounded = {}
    groups: list[tuple[Sequence[Node], Operation]] = []
    behind: list[tuple[Operation, list[Operation]]] = []
    wide: dict[tuple[str, str], Operation] = {}
    taken: set[int] = set()
    for node in graph.operations:
        dtype = node.attributes.get("floats")
        if node.op != "Conv" or dtype not in HALVES:
            continue
        filters = _filters(around, node, dtype)
        constants = None if filters is None else _constants(around, node, filters)
        if filters is None or constants is None:
            continue
        tail, workload = _fused(around, node, dtype, filters, constants, taken)
        if not matching(workload, target, templates):
            continue
        taken.update(id(member) for member in tail.members)
        x = rounded_tensor(graph, around, node.inputs[0], dtype, rounded)
        if filters.block > 1:
            x = _in_blocks(graph, x, filters.block, wide)
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
    _write_for_pools(graph, [product for _, product in groups], target, templates)


def _write_for_pools(
    graph: Graph, products: Sequence[Operation], target: Target, templates: Sequence[Template]
) -> None:
    """Let a convolution that only largest values are taken of write the float32 that these are of.

    The largest of rounded numbers is the rounded largest, which what follows reads rounded.
    """
    around = Neighbourhood(graph)
    widened: set[int] = set()
    for node in products:
        workload = node.attributes["workload"]
        if workload.residual:
            continue
        cast = around.only_reader(node.output, "Cast")
        readers = [] if cast is None else around.readers(cast.output)
        wide = workload.with_output("float32")
        pools = bool(readers) and all(reader.op == "MaxPool" for reader in readers)
        if cast is None or not pools or cast.output in graph.outputs:
            continue
        if graph.dtype(cast.output) == "float32" and matching(wide, target, templates):
            node.attributes["workload"], node.output = wide, cast.output
            widened.add(id(cast))
    graph.nodes = [node for node in graph.nodes if id(node) not in widened]
    prune(graph)


@dataclass(frozen=True)
class _Filters:
    """Filters [k, c, r, s] of 16-bit floats over an image, or over its blocks of pixels.

    block: pixels along each side of a block, whose channels stand beside each other.
    """

    values: np.ndarray
    block: int
    strides: tuple[int, ...]
    pads: tuple[int, ...]


def _filters(around: Neighbourhood, node: Operation, dtype: str) -> _Filters | None:
    """Those of a Conv, over blocks where these take fewer steps; None for what has no such form."""
    weight, a = around.constant(node.inputs[1]), node.attributes
    if weight is None or weight.ndim != 4:
        return None
    halves = weight.astype(dtype)
    if not np.array_equal(halves.astype(np.float32), weight):
        return None
    plain = _Filters(halves, 1, tuple(a["strides"]), tuple(a["pads"]))
    block, graph = a["strides"][0], around.graph
    image, output = (graph.shape(name)[2:] for name in (node.inputs[0], node.output))
    square = tuple(a["strides"]) == (block, block) and tuple(a["dilations"]) == (1, 1)
    whole = all(extent % block == 0 for extent in image) and a["groups"] == 1
    if block == 1 or not square or not whole or weight.shape[1] % _WHOLE == 0:
        return plain
    found = in_blocks(halves, block, plain.pads, image, output)
    if found is None or _steps(found[0]) >= _steps(halves):
        return plain
    return _Filters(found[0], block, (1, 1), found[1])


def _steps(filters: np.ndarray) -> int:
    """Steps of a reduction: each tap's channels fill whole ones."""
    return filters.shape[2] * filters.shape[3] * -(-filters.shape[1] // _STEP)


def _constants(around: Neighbourhood, node: Operation, filters: _Filters) -> dict[str, Any] | None:
    """Filters [k, r, s, c] and the bias, of whole channels unless there are several groups.

    None where the bias is no constant.
    """
    dense = node.attributes["groups"] == 1
    k, c = (-count % _WHOLE if dense else 0 for count in filters.values.shape[:2])
    whole = np.pad(filters.values.transpose(0, 2, 3, 1), [(0, k), (0, 0), (0, 0), (0, c)])
    constants = {"weight": np.ascontiguousarray(whole)}
    if len(node.inputs) > 2:
        bias = around.constant(node.inputs[2])
        if bias is None:
            return None
        values = np.broadcast_to(bias.reshape(-1), (len(filters.values),)).astype(np.float32)
        constants["bias"] = np.pad(values, (0, k))
    return constants


def _fused(
    around: Neighbourhood, node: Operation, dtype: str, filters: _Filters,
    constants: dict[str, Any], taken: set[int],
) -> tuple[FloatTail, FloatConv2d]:  # fmt: skip
    """The longest tail of a convolution, and its workload."""
    graph = around.graph
    n, _, h, w = graph.shape(node.inputs[0])
    h, w = h // filters.block, w // filters.block
    groups = node.attributes["groups"]
    k, r, s, of_group = constants["weight"].shape
    tails = float_tails(around, node, dtype, taken)
    if k != graph.shape(node.output)[1]:  # of whole channels only a convolution's own are known
        tails = [tail for tail in tails if tail.residual is None]
    tail = tails[0]
    first = tail.residual is not None and tail.activation == "none"
    relu = around.only_reader(tail.output, "Relu") if first else None
    if relu is not None:
        tail = FloatTail((*tail.members, relu), "relu", tail.residual)
    return tail, FloatConv2d(
        n, h, w, of_group * groups, k, r, s, filters.strides, filters.pads,
        tuple(node.attributes["dilations"]), dtype, dtype, "bias" in constants, tail.activation,
        tail.residual is not None, relu is not None, groups,
    )  # fmt: skip


def _in_blocks(graph: Graph, x: str, block: int, wide: dict[tuple[str, str], Operation]) -> str:
    """An image whose pixels are blocks of another one's, in the channels' order of `in_blocks`.

    It is written channels last: the last transposition is another name for it.
    """
    n, c, h, w = graph.shape(x)
    shapes = [
        ("Reshape", (n, c, h // block, block, w // block, block), {}),
        ("Transpose", (n, h // block, w // block, block, block, c), {"perm": (0, 2, 4, 3, 5, 1)}),
        ("Reshape", (n, h // block, w // block, block * block * c), {}),
        ("Transpose", (n, block * block * c, h // block, w // block), {"perm": (0, 3, 1, 2)}),
    ]
    for number, (op, shape, attributes) in enumerate(shapes):
        key = (x, f"blocks of {block}, step {number}")
        if key not in wide:
            output = add_tensor(graph, f"{x}/blocks", shape, graph.dtype(x))
            given = attributes or {"shape": shape}
            wide[key] = Operation(op, output, (x,), output, given)
        x = wide[key].output
    return x


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
    """Put each operation behind what makes its input, those of a chain one behind the other."""
    readers: dict[str, list[Operation]] = {}
    for made in operations:
        readers.setdefault(made.inputs[0], []).append(made)
    nodes: list[Node] = []

    def place(name: str) -> None:
        for made in readers.get(name, ()):
            nodes.append(made)
            place(made.output)

    for name in graph.inputs:
        place(name)
    for node in graph.nodes:
        nodes.append(node)
        for name in node.outputs:
            place(name)
    graph.nodes = nodes
