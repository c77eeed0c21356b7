"""Where the channels of a tensor lie in the buffer that holds it: an order with holes.

A convolution takes channels in any order by an order of its weights, and skips what is not its
own by weights of zero; a pool, a table or a depthwise one keeps the order of its input. So slices,
shuffles and padding of channels between convolutions need no kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autoq.graph.fused import CONV, POOL, TABLE
from autoq.graph.ir import Graph, Operation
from autoq.templates.arrays.element import INTEGER_RANGE


@dataclass(frozen=True)
class ChannelLayout:
    """Channel i of a tensor is channel `slots[i]` of `buffer`, which has `width` channels."""

    buffer: str
    slots: np.ndarray
    width: int

    @property
    def free(self) -> np.ndarray:
        """Channels of the buffer that hold nothing of the tensor, in ascending order."""
        return np.setdiff1d(np.arange(self.width), self.slots)

    def chosen(self, channels: np.ndarray | slice) -> ChannelLayout:
        """The layout of a tensor made of some of the channels."""
        return replace(self, slots=self.slots[channels])


def keeps_channels(node: Operation, graph: Graph) -> bool:
    """Whether a pool, table or depthwise convolution of integers keeps channels apart."""
    a = node.attributes
    if node.op in (POOL, TABLE):
        return all(graph.dtype(name) in INTEGER_RANGE for name in (*node.inputs, node.output))
    if node.op != CONV or len(node.inputs) != 1 or a["scale"] is None:
        return False
    return a["groups"] > 1 and a["groups"] == a["weight"].shape[0] and a["weight"].shape[1] == 1


def takes_any_order(node: Operation, name: str) -> bool:
    """Whether a fused convolution over integers reads `name` as its input alone, all channels."""
    return (
        node.op == CONV
        and node.attributes["groups"] == 1
        and node.attributes["scale"] is not None
        and node.inputs[0] == name
        and name not in node.inputs[1:]
    )


def read_slots(node: Operation, layout: ChannelLayout) -> None:
    """Let a convolution read the buffer instead of the tensor."""
    weight = node.attributes["weight"]
    wide = np.zeros((len(weight), layout.width, *weight.shape[2:]), weight.dtype)
    wide[:, layout.slots] = weight
    node.attributes["weight"] = wide
    node.inputs = (layout.buffer, *node.inputs[1:])


def write_slots(
    graph: Graph, node: Operation, layout: ChannelLayout, hole_scale: float = 1.0
) -> None:
    """Let a convolution write its channels to their slots of a tensor of the buffer's width.

    Channels between them are what its epilogue makes of a sum of 0 and the scale `hole_scale`.
    """
    _widen_filters(node, layout, hole_scale)
    _widen_output(graph, node, layout.width)


def keep_slots(graph: Graph, node: Operation, layout: ChannelLayout) -> ChannelLayout:
    """Let such a node read the whole buffer; the layout of its output."""
    if node.op == CONV:
        _widen_filters(node, layout, hole_scale=1.0)
        node.attributes["groups"] = layout.width
    _widen_output(graph, node, layout.width)
    node.inputs = (layout.buffer,)
    return replace(layout, buffer=node.output)


def _widen_filters(node: Operation, layout: ChannelLayout, hole_scale: float) -> None:
    a = node.attributes
    fills = {"weight": 0, "bias": 0, "scale": hole_scale}
    for name, fill in fills.items():
        array = a[name] if name != "bias" else np.moveaxis(a[name], -1, 0)  # behind its borders
        wide = np.full((layout.width, *array.shape[1:]), fill, array.dtype)
        wide[layout.slots] = array
        a[name] = wide if name != "bias" else np.moveaxis(wide, 0, -1)


def _widen_output(graph: Graph, node: Operation, width: int) -> None:
    tensor = graph.tensors[node.output]
    n, _, h, w = tensor.shape
    graph.tensors[node.output] = replace(tensor, shape=(n, width, h, w))
