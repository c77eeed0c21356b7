"""Recognise a channel shuffle, so that it stays one pass over channels-last images.

Reshape `[n, g * k, h, w] -> [n, g, k, h, w]`, swap of g and k, Reshape back (ShuffleNet, Zhang et
al. 2017).
"""

from __future__ import annotations

from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood, prune, replace_nodes


def find_channel_shuffles(graph: Graph) -> None:
    """Replace every such triple by one ChannelShuffle operation."""
    around = Neighbourhood(graph)
    groups = []
    for node in graph.operations:
        if node.op != "Transpose":
            continue
        before = around.producer(node.inputs[0], "Reshape")
        after = around.only_reader(node.output, "Reshape")
        if before is None or after is None or around.only_reader(before.output) is not node:
            continue
        shape, split = graph.shape(before.inputs[0]), graph.shape(before.output)
        if len(shape) != 4 or len(split) != 5 or graph.shape(after.output) != shape:
            continue
        regroups = split[0] == shape[0] and split[3:] == shape[2:]
        if not regroups or node.attributes["perm"] != (0, 2, 1, 3, 4):
            continue
        covers = (*before.covers, *node.covers, *after.covers)
        shuffle = Operation(
            "ChannelShuffle", node.name, before.inputs, after.output,
            {"axis": 1, "groups": split[1]}, covers,
        )  # fmt: skip
        groups.append(((before, node, after), shuffle))
    replace_nodes(graph, groups)
    prune(graph)
