"""How the axes of a batched product's tensors lie in memory, transpositions in front included."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoq.graph.ir import Graph
from autoq.graph.rewrite import Neighbourhood

Label = int | str
"""An axis: the number of a batch axis, or "row" or "column" of the matrices."""

_ORDERS = {"x": ("bhmk", "bmhk"), "other": ("bhnk", "bhkn", "bnhk", "bkhn"), "y": ("bhmn", "bmhn")}
_COLUMN_OF = {"x": "k", "other": "n", "y": "n"}


@dataclass(frozen=True)
class Source:
    """A tensor and what its axes of more than one element are, in their order in memory."""

    name: str
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class Axes:
    """Where a batched product reads and writes: sources by role and the orders of their axes."""

    batch: int
    heads: int
    names: dict[str, str]
    orders: dict[str, str]


def sources(around: Neighbourhood, name: str, rank: int, taken: set[int]) -> list[Source]:
    """A tensor of matrices of `rank` axes, and what it is transposed from, that first.

    A transposition in `taken` already belongs to the kernel that writes the tensor.
    """
    graph = around.graph
    labels = _labels(rank)
    found = [_source(graph, name, labels)]
    transpose = around.producer(name, "Transpose")
    free = transpose is not None and id(transpose) not in taken
    if transpose is not None and free and transpose.inputs[0] not in graph.constants:
        perm = transpose.attributes["perm"]
        moved = [labels[perm.index(axis)] for axis in range(rank)]
        found.insert(0, _source(graph, transpose.inputs[0], moved))
    return found


def destinations(around: Neighbourhood, name: str, rank: int) -> list[Source]:
    """A tensor of matrices, and what alone reads it to transpose it, that first."""
    graph = around.graph
    labels = _labels(rank)
    found = [_source(graph, name, labels)]
    transpose = around.only_reader(name, "Transpose")
    if transpose is not None:
        moved = [labels[axis] for axis in transpose.attributes["perm"]]
        found.insert(0, _source(graph, transpose.output, moved))
    return found


def common_axes(batch: tuple[int, ...], roles: dict[str, Sequence[Source]]) -> Axes:
    """The choice of sources, and of batch axes that count as heads, with the most transpositions.

    batch: extents of the batch axes. roles: for each of x, other and y its sources, those with
    axes in their usual order last.
    """
    for chosen in sorted(itertools.product(*map(enumerate, roles.values())), key=_places):
        for split in range(len(batch), -1, -1):
            orders = {
                role: _order(role, source.labels, batch, split)
                for role, (_, source) in zip(roles, chosen, strict=True)
            }
            if all(orders.values()):
                names = {role: s.name for role, (_, s) in zip(roles, chosen, strict=True)}
                heads = math.prod(batch[split:])
                return Axes(math.prod(batch[:split]), heads, names, orders)
    raise ValueError("a tensor whose axes are in their usual order is missing")


def _places(chosen: Sequence[tuple[int, Source]]) -> int:
    """How many transpositions a choice leaves."""
    return sum(place for place, _ in chosen)


def _labels(rank: int) -> list[Label]:
    return [*range(rank - 2), "row", "column"]


def _source(graph: Graph, name: str, labels: Sequence[Label]) -> Source:
    shape = graph.shape(name)
    kept = (label for label, size in zip(labels, shape, strict=True) if size > 1)
    return Source(name, tuple(kept))


def _order(role: str, labels: tuple[Label, ...], batch: tuple[int, ...], split: int) -> str:
    """The order of a role's axes that has these labels, "" where there is none."""
    axes = [axis for axis in range(len(batch)) if batch[axis] > 1]
    parts: dict[str, list[Label]] = {
        "b": [axis for axis in axes if axis < split],
        "h": [axis for axis in axes if axis >= split],
    }
    for order in _ORDERS[role]:
        expected: list[Label] = []
        for letter in order:
            matrix = ["column" if letter == _COLUMN_OF[role] else "row"]
            expected += parts.get(letter, matrix)
        if tuple(label for label in expected if label in labels) == labels:
            return order
    return ""
