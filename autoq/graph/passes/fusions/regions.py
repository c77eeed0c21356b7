"""Partition the operations that no template computes into regions, one kernel each.

A region has one result, that of its root. Operations join the region that alone reads them, so
that nothing is absorbed which somebody else reads; only dequantisations, which are cheap, may be
computed in several regions. Going backwards through the graph, the readers of an operation have
their regions before it gets its own: one pass, whatever the model's size.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood
from autoq.graph.shapes import BROADCASTING, LARGEST_INPUTS, UNARY

QUANTISED = ("QuantizeLinear", "DequantizeLinear")
ELEMENTWISE = (*UNARY, *BROADCASTING, *QUANTISED)
STRUCTURED = (
    "Softmax", "LRN", "Pad", "Slice", "Transpose", "Concat", "ReduceMean", "MatMul", "Conv",
    "Gemm", "ChannelShuffle", "MaxPool", "AveragePool", "ReduceMax",
    "Windows",
    "ReduceSum", "Expand", "Gather", "Take", "Interpolate",
)  # fmt: skip

LARGEST_EXPRESSION = 96
"""Operations of a region's expression, a shared one counted as often as the expression holds it.

TVM's passes walk expressions as trees, by recursion: `x = x + x` 40 times would be 2**40 nodes.
"""
READINGS = {
    "Clip": 3, "Elu": 3, "HardSigmoid": 3, "HardSwish": 4, "LeakyRelu": 3, "Max": 4, "Min": 4,
    "Relu": 2, "Sign": 3, "Softplus": 3, "Tanh": 5,
}  # fmt: skip
"""How often the lowered expression of an operation holds its argument, where more than once."""


@dataclass(eq=False)
class Region:
    """Operations of one kernel.

    counts says how often the root's expression holds each member's result. core is the one member
    that looks at several elements; what it reads is at most dequantised on the way (`front`).
    """

    root: Operation
    core: Operation | None = None
    members: list[Operation] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    front: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    size: int = 0

    @classmethod
    def of(cls, root: Operation) -> Region:
        """The region of one operation."""
        region = cls(root, root if root.op in STRUCTURED else None)
        region.add(root, 1)
        return region

    @property
    def in_order(self) -> list[Operation]:
        """The members in running order, the root last."""
        return self.members[::-1]

    def add(self, node: Operation, count: int) -> None:
        """Let `node`, whose result is held `count` times, be a member."""
        self.members.append(node)
        self.counts[node.output] = count
        self.reads.discard(node.output)
        self.reads.update(name for name in node.inputs if name not in self.counts)
        self.size += count

    def count(self, node: Operation, readers: Collection[Operation]) -> int:
        """How often the root's expression holds what `node` computes for `readers`."""
        return sum(
            self.counts[reader.output] * READINGS.get(reader.op, 1)
            for reader in readers
            if reader.output in self.counts
        )

    def has_room(self, node: Operation, count: int) -> bool:
        """Whether `node` as a member would leave the region within its limits."""
        reads = (self.reads - {node.output}) | set(node.inputs)
        few = len(reads) <= max(LARGEST_INPUTS, len(self.reads))
        return few and self.size + count <= LARGEST_EXPRESSION


class Partition:
    """The regions of a graph; `by_root` maps the id of each root to its region."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._around = Neighbourhood(graph)
        self._outputs = set(graph.outputs)
        self._homes: dict[str, list[Region]] = {}
        self.by_root: dict[int, Region] = {}
        for node in reversed(graph.operations):
            if node.op in ELEMENTWISE or node.op in STRUCTURED:
                self._place(node)

    def _place(self, node: Operation) -> None:
        readers = self._around.readers(node.output)
        regions = list(dict.fromkeys(r for n in readers for r in self._homes.get(n.output, ())))
        outside = node.output in self._outputs or any(n.output not in self._homes for n in readers)
        if node.op == "DequantizeLinear":
            takers = [region for region in regions if self._taken_along(node, region, readers)]
            outside = outside or len(takers) < len(regions)
        else:
            alone = len(regions) == 1 and not outside
            takers = [r for r in regions if alone and self._joins(node, r, readers)]
            outside = not takers
        for region in takers:
            region.add(node, region.count(node, readers))
        if outside:
            self.by_root[id(node)] = Region.of(node)
            takers.append(self.by_root[id(node)])
        self._homes[node.output] = takers

    def _taken_along(self, node: Operation, region: Region, readers: list[Operation]) -> bool:
        if not region.has_room(node, region.count(node, readers)):
            return False
        if any(reader is region.core or reader.output in region.front for reader in readers):
            region.front.add(node.output)
        return True

    def _joins(self, node: Operation, region: Region, readers: list[Operation]) -> bool:
        """Whether `region`, the only one that reads `node`, may compute it."""
        if any(reader is region.core or reader.output in region.front for reader in readers):
            return False
        if not region.has_room(node, region.count(node, readers)):
            return False
        if node.op in ELEMENTWISE:
            return True
        shape = self._graph.shape
        if region.core is not None or shape(node.output) != shape(region.root.output):
            return False
        region.core = node
        return True
