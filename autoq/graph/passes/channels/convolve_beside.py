"""Concatenate two halves of channels in the convolution that writes one of them.

Its kernel takes the other half as a residual and stores both, in the slots where that half already
lies; splits and shuffles of the result are then orders of slots, which the convolutions that read
them absorb (ShuffleNet V2, Ma et al. 2018). A unit of it needs no kernel but its convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.graph.fused import CONCAT, CONV, POOL, TABLE
from autoq.graph.ir import Graph, Operation
from autoq.graph.passes.channels.channel_layout import (
    ChannelLayout,
    keep_slots,
    keeps_channels,
    read_slots,
    takes_any_order,
    write_slots,
)
from autoq.graph.passes.channels.stem import TENSOR_CORE_BYTES
from autoq.graph.rewrite import Neighbourhood, prune
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue, pack_scalars
from autoq.templates.target import Target

_BYTES = ("int8", "uint8")
_MOVES = ("ChannelShuffle", "Slice")
_LARGEST_GROWTH = 2.5
"""Products may grow that much by channels that are skipped: 1x1 filters wait for memory."""


@dataclass(frozen=True)
class _Pair:
    """A concatenation: the convolution that shall do it, and the tensor it shall take along."""

    node: Operation
    conv: Operation
    other: str

    @property
    def row(self) -> int:
        """Which input of the concatenation the convolution writes."""
        return self.node.inputs.index(self.conv.output)


def convolve_beside(graph: Graph, target: Target) -> None:
    """Rewrite every concatenation that allows it; where wgmma multiplies, since others wait less.

    Pairs of 8-bit tensors along channels, one of them from a 1x1 convolution, the other from
    another one or a part of an earlier such pair, all read by convolutions.
    """
    if not target.has_wgmma:
        return
    around = Neighbourhood(graph)
    pairs: dict[str, _Pair] = {}
    for node in graph.operations:
        pair = _pair(node, around) if node.op == CONCAT else None
        if pair is not None:
            pairs[node.output] = pair
    widths = _widths(pairs, around)
    while kept := {
        name: pair
        for name, pair in pairs.items()
        if name in widths and _absorbed(name, widths[name], pairs, around)
    }:
        if len(kept) == len(pairs):
            _rewrite(graph, pairs, widths, around)
            prune(graph)
            return
        pairs = kept
        widths = _widths(pairs, around)


def _pair(node: Operation, around: Neighbourhood) -> _Pair | None:
    """The two sides of a concatenation whose later one comes from a convolution that can do it."""
    graph = around.graph
    names = node.inputs
    is_image = len(graph.shape(node.output)) == 4 and node.attributes["axis"] == 1
    if len(set(names)) != 2 or len(names) != 2 or not is_image:
        return None
    if any(graph.dtype(name) not in _BYTES for name in (*names, node.output)):
        return None
    convs = [conv for conv in (around.producer(name, CONV) for name in names) if conv is not None]
    conv = max(convs, key=lambda conv: around.position[id(conv)], default=None)
    if conv is None or not _is_pointwise(conv, node, around):
        return None
    if conv.attributes["epilogue"] != Epilogue(graph.dtype(conv.output)):
        return None
    pair = _Pair(node, conv, names[1 - names.index(conv.output)])
    return pair if _centred_alike(pair) else None


def _is_pointwise(conv: Operation, reader: Operation, around: Neighbourhood) -> bool:
    """Whether a 1x1 convolution without a residual is read by `reader` alone, its scales not 0."""
    a = conv.attributes
    return (
        around.only_reader(conv.output) is reader
        and len(conv.inputs) == 1
        and a["groups"] == 1
        and a["weight"].shape[2:] == (1, 1)
        and a["scale"] is not None
        and bool(np.all(a["scale"] != 0))
    )


def _centred_alike(pair: _Pair) -> bool:
    """Whether the concatenation takes the zero point off that the convolution has added."""
    zero_point = pair.conv.attributes["scalars"][SCALAR_NAMES.index("zero_point")]
    rows, requantize = pair.node.attributes["scalars"], pair.node.attributes["requantize"]
    if requantize[pair.row]:
        return bool(rows[pair.row][0] == zero_point)
    return bool(not requantize[1 - pair.row] or rows[1 - pair.row][4] == zero_point)


def _widths(pairs: dict[str, _Pair], around: Neighbourhood) -> dict[str, int]:
    """Channels of the buffer of each pair; a pair without room for both its halves has none."""
    graph = around.graph
    widths: dict[str, int] = {}
    for name, pair in pairs.items():
        origin = _origin(pair.other, around)
        both = graph.shape(name)[1]
        if origin in widths:
            first = pairs[origin].conv
            if widths[origin] < both:
                continue
            width = widths[origin]
        else:
            first = around.producer(pair.other, CONV)
            if first is None or not _is_pointwise(first, pair.node, around):
                continue
            width = -(-both // TENSOR_CORE_BYTES) * TENSOR_CORE_BYTES
        if around.position[id(first)] < around.position[id(pair.conv)]:
            widths[name] = width
    return widths


def _origin(name: str, around: Neighbourhood) -> str:
    """The tensor whose channels `name` selects or orders."""
    node = around.producer(name, *_MOVES)
    while node is not None and _moves_channels(node, around.graph):
        name = node.inputs[0]
        node = around.producer(name, *_MOVES)
    return name


def _moves_channels(node: Operation, graph: Graph) -> bool:
    """Whether a node is a ChannelShuffle or Slice of channels and of no other axis."""
    shape, a = graph.shape(node.inputs[0]), node.attributes
    if node.op == "ChannelShuffle":
        return a["axis"] == 1
    if node.op != "Slice" or len(shape) != 4:
        return False
    bounds = zip(a["starts"], a["ends"], a["steps"], shape, strict=True)
    whole = [(start, step) == (0, 1) and end >= size for start, end, step, size in bounds]
    return whole[0] and whole[2] and whole[3]


def _absorbed(name: str, width: int, pairs: dict[str, _Pair], around: Neighbourhood) -> bool:
    """Whether all that reads a pair, or channels of it, can follow the order of its slots."""
    graph = around.graph
    names = [name]
    while names:
        name = names.pop()
        growth = width / graph.shape(name)[1]
        if name in graph.outputs or growth > _LARGEST_GROWTH:
            return False
        for reader in around.consumers.get(name, []):
            if not isinstance(reader, Operation):
                return False
            if takes_any_order(reader, name):
                if reader.attributes["weight"][0, 0].size > 1 and growth > _LARGEST_GROWTH / 2:
                    return False
            elif keeps_channels(reader, graph) or _moves_channels(reader, graph):
                names.append(reader.output)
            elif reader.output not in pairs or pairs[reader.output].other != name:
                return False
    return True


def _rewrite(
    graph: Graph, pairs: dict[str, _Pair], widths: dict[str, int], around: Neighbourhood
) -> None:
    """Give every convolution its slots, in running order; shuffles and slices are left unread."""
    beside = {id(pair.conv): pair for pair in pairs.values()}
    firsts = {
        pair.other: widths[name]
        for name, pair in pairs.items()
        if _origin(pair.other, around) not in pairs
    }
    layouts: dict[str, ChannelLayout] = {}
    for node in graph.operations:
        if node.op in (CONV, POOL, TABLE) and _origin(node.inputs[0], around) in layouts:
            layout = _layout(node.inputs[0], layouts, around)
            if keeps_channels(node, graph):
                layouts[node.output] = keep_slots(graph, node, layout)
            else:
                read_slots(node, layout)
        if node.output in firsts:
            slots = np.arange(len(node.attributes["weight"]))
            layout = ChannelLayout(node.output, slots, firsts[node.output])
            write_slots(graph, node, layout)
            layouts[node.output] = layout
        if id(node) in beside:
            pair = beside[id(node)]
            other = _layout(pair.other, layouts, around)
            layouts[pair.node.output] = _join(graph, pair, other)
    graph.nodes = [node for node in graph.nodes if node.output not in pairs or node.op == CONV]


def _layout(name: str, layouts: dict[str, ChannelLayout], around: Neighbourhood) -> ChannelLayout:
    """The layout of a tensor, by that of its origin."""
    moves: list[Operation] = []
    while name not in layouts:
        moves.append(around.producers[name])
        name = moves[-1].inputs[0]
    layout = layouts[name]
    for node in reversed(moves):
        layout = layout.chosen(_order(node, len(layout.slots)))
    return layout


def _order(node: Operation, channels: int) -> np.ndarray:
    """Input channels of a ChannelShuffle or Slice in the order of its output."""
    order = np.arange(channels)
    a = node.attributes
    if node.op == "ChannelShuffle":
        return order.reshape(a["groups"], -1).T.reshape(-1)
    return np.array(range(a["starts"][1], a["ends"][1], a["steps"][1]))


def _join(graph: Graph, pair: _Pair, other: ChannelLayout) -> ChannelLayout:
    """Let the convolution write both halves; the layout of the concatenation."""
    node, conv, row = pair.node, pair.conv, pair.row
    a, rows = conv.attributes, node.attributes["scalars"]
    own = dict(zip(SCALAR_NAMES, map(float, a["scalars"]), strict=True))
    requantize = node.attributes["requantize"]
    least, most = INTEGER_RANGE[graph.dtype(node.output)]
    zero_point = own["zero_point"]
    low, high = least - zero_point, most - zero_point
    if any(requantize):
        low, high, zero_point = map(float, rows[row if requantize[row] else 1 - row][2:5])
    theirs = rows[1 - row][:2] if requantize[1 - row] else (zero_point, 1.0)
    a["scalars"] = pack_scalars(
        accumulator_low=own["low"],
        accumulator_high=own["high"],
        accumulator_scale=float(rows[row][1]) if requantize[row] else 1.0,
        residual_zero_point=float(theirs[0]),
        residual_scale=float(theirs[1]),
        low=low,
        high=high,
        zero_point=zero_point,
    )
    residual = graph.dtype(other.buffer)
    a["epilogue"] = Epilogue(graph.dtype(node.output), residual, True, concatenates=True)
    slots = other.free[: len(a["weight"])]
    conv.inputs, conv.output = (conv.inputs[0], other.buffer), node.output
    conv.covers = tuple(dict.fromkeys((*conv.covers, *node.covers)))
    write_slots(graph, conv, ChannelLayout(node.output, slots, other.width), hole_scale=0.0)
    halves = (slots, other.slots) if row == 0 else (other.slots, slots)
    return ChannelLayout(node.output, np.concatenate(halves), other.width)
