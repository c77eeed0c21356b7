"""Pad channels between convolutions to what tensor-core kernels load.

A tensor that only convolutions read and one convolution writes gets filters of zeros up to a
multiple of 16 channels (32 of 4 bits); the readers' weights for them are zeros, so nothing changes.
Pools, depthwise convolutions and tables on the way compute the padding too, and what is added to
such a tensor is padded like it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autoq.graph.fused import CONV
from autoq.graph.ir import Graph, Operation
from autoq.graph.passes.channels.channel_layout import (
    ChannelLayout,
    keep_slots,
    keeps_channels,
    read_slots,
    takes_any_order,
    write_slots,
)
from autoq.graph.passes.channels.stem import tensor_core_channels
from autoq.graph.rewrite import Neighbourhood
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.target import Target

LARGEST_GROWTH = 1.5
"""Channels may grow by half at most: beyond, the products cost more than the loads save."""


def pad_hidden_channels(graph: Graph, target: Target) -> None:
    """Pad every tensor between integer convolutions that allows it; CUDA only."""
    if target.kind != "cuda":
        return
    around = Neighbourhood(graph)
    padded: set[str] = set()
    for node in graph.operations:
        if not _is_widened(node) or node.output in padded:
            continue
        k = graph.shape(node.output)[1]
        wanted = tensor_core_channels(graph.dtype(node.output))
        wide = -(-k // wanted) * wanted
        if not k < wide <= LARGEST_GROWTH * k:
            continue
        names = _alike(node.output, around)
        for name in names:
            _widen(graph, around, ChannelLayout(name, np.arange(k), wide))
        padded.update(names)


def _is_widened(node: Operation) -> bool:
    """Whether a convolution of integers can get more filters."""
    return (
        node.op == CONV and node.attributes["groups"] == 1 and node.attributes["scale"] is not None
    )


def _alike(name: str, around: Neighbourhood) -> list[str]:
    """Tensors that are padded together with `name`, itself among them; none if one cannot be.

    A residual has the channels of the sum, an element-wise operation those of its input.
    """
    graph = around.graph
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = None
        node = around.producers.get(name)
        readers = around.consumers.get(name, [])
        hidden = graph.dtype(name) in INTEGER_RANGE and name not in graph.outputs and readers
        if not hidden or not isinstance(node, Operation):
            return []
        if _is_widened(node):
            waiting += node.inputs[1:]
        elif keeps_channels(node, graph):
            waiting += node.inputs
        else:
            return []
        for reader in readers:
            if not isinstance(reader, Operation):
                return []
            adds = _is_widened(reader) and name in reader.inputs[1:] and name != reader.inputs[0]
            if keeps_channels(reader, graph) or adds:
                waiting.append(reader.output)
            elif not takes_any_order(reader, name):
                return []
    return list(found)


def _widen(graph: Graph, around: Neighbourhood, layout: ChannelLayout) -> None:
    """Pad one of the tensors that are padded together: what writes it, and convolutions of it."""
    node = around.producers[layout.buffer]
    if node.op == CONV and node.attributes["groups"] == 1:
        write_slots(graph, node, layout)
    else:
        keep_slots(graph, node, replace(layout, buffer=node.inputs[0]))
    for reader in {id(reader): reader for reader in around.readers(layout.buffer)}.values():
        if takes_any_order(reader, layout.buffer):
            read_slots(reader, layout)
