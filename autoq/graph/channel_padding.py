"""Pad channels between convolutions to what tensor-core kernels load.

A tensor that only convolutions read and one convolution writes gets filters of zeros up to a
multiple of 16 channels (32 of 4 bits); the readers' weights for them are zeros, so nothing changes.
Pools and depthwise convolutions on the way compute the padding too.
"""

from __future__ import annotations

import numpy as np

from autoq.graph.channel_layout import (
    ChannelLayout,
    keep_slots,
    keeps_channels,
    read_slots,
    takes_any_order,
    write_slots,
)
from autoq.graph.fused import CONV
from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood
from autoq.graph.stem import tensor_core_channels
from autoq.templates.epilogue import INTEGER_RANGE
from autoq.templates.target import Target

LARGEST_GROWTH = 1.5
"""Channels may grow by half at most: beyond, the products cost more than the loads save."""


def pad_hidden_channels(graph: Graph, target: Target) -> None:
    """Pad every tensor between integer convolutions that allows it; CUDA only."""
    if target.kind != "cuda":
        return
    around = Neighbourhood(graph)
    for node in graph.operations:
        if node.op != CONV or node.attributes["groups"] != 1:
            continue
        k = graph.shape(node.output)[1]
        wanted = tensor_core_channels(graph.dtype(node.output))
        wide = -(-k // wanted) * wanted
        if k < wide <= LARGEST_GROWTH * k and _paddable(graph, node, around):
            _widen(graph, node, around, ChannelLayout(node.output, np.arange(k), wide))


def _paddable(graph: Graph, node: Operation, around: Neighbourhood) -> bool:
    """Whether the output is quantised, made without a residual, and read by convolutions.

    Pools and depthwise convolutions may lie between.
    """
    if len(node.inputs) != 1 or node.attributes["scale"] is None:
        return False
    names = [node.output]
    while names:
        name = names.pop()
        readers = around.consumers.get(name, [])
        hidden = graph.dtype(name) in INTEGER_RANGE and name not in graph.outputs and readers
        if not hidden:
            return False
        for reader in readers:
            if not isinstance(reader, Operation):
                return False
            if keeps_channels(reader, graph):
                names.append(reader.output)
            elif not takes_any_order(reader, name):
                return False
    return True


def _widen(graph: Graph, node: Operation, around: Neighbourhood, layout: ChannelLayout) -> None:
    write_slots(graph, node, layout)
    layouts = [layout]
    while layouts:
        layout = layouts.pop()
        for reader in {id(reader): reader for reader in around.readers(layout.buffer)}.values():
            if keeps_channels(reader, graph):
                layouts.append(keep_slots(graph, reader, layout))
            else:
                read_slots(reader, layout)
