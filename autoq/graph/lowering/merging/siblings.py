"""Element-wise fusions of one formula that follow each other become one kernel, side by side.

What scales the sums of queries, keys and values is such: each takes longer to start than to
compute.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoq.graph.ir import Fusion, Graph, Node, Siblings
from autoq.graph.lowering.fusions import kernel_family
from autoq.templates.target import Target

_MOST = 4
"""Fusions of one kernel."""


def merge_siblings(graph: Graph, target: Target) -> None:
    """Put one node in the place of up to four neighbours that compute the same, of other arrays."""
    if target.kind != "cuda":
        return
    nodes: list[Node] = []
    waiting: list[Fusion] = []
    for node in graph.nodes:
        if waiting and not _joins(waiting, node):
            nodes.append(_together(waiting))
            waiting = []
        if isinstance(node, Fusion) and kernel_family(node, target) == "elementwise":
            waiting.append(node)
        else:
            nodes.append(node)
    graph.nodes = [*nodes, *([_together(waiting)] if waiting else [])]


def _joins(waiting: Sequence[Fusion], node: Node) -> bool:
    """Whether a node is one more of those that wait, and reads nothing that they write."""
    written = {name for one in waiting for name in one.outputs}
    return (
        isinstance(node, Fusion)
        and len(waiting) < _MOST
        and node.key == waiting[0].key
        and not written & set(node.inputs)
    )


def _together(parts: Sequence[Fusion]) -> Node:
    return parts[0] if len(parts) == 1 else Siblings(tuple(parts))
