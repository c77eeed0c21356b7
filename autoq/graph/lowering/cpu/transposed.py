"""Fusions that hold one transposition, with it in front of what is element by element."""

from __future__ import annotations

import dataclasses

from autoq.graph.ir import Fusion, Primitive
from autoq.graph.lowering.cpu.expressions import is_expression
from autoq.templates.cpu.movement.rows import Turned


def transposed_first(node: Fusion) -> tuple[Turned, Fusion] | None:
    """The input that is transposed, and the fusion of what is left; None for other fusions.

    Before the transposition may lie element-wise primitives of the one input, which nothing else
    reads.
    """
    first = len(node.input_shapes) + len(node.constants)
    turns = [i for i, primitive in enumerate(node.primitives) if primitive.op == "Transpose"]
    if len(turns) != 1:
        return None
    (turn,) = turns
    place = node.primitives[turn].arguments[0]
    while place >= first:
        before = node.primitives[place - first]
        if len(before.arguments) != 1 or not is_expression(before) or _readers(node, place) != 1:
            return None
        place = before.arguments[0]
    if place >= len(node.input_shapes) or _readers(node, place) != 1:
        return None
    perm = node.primitives[turn]["perm"]
    shapes = list(node.input_shapes)
    turned = Turned(place, shapes[place], perm)
    shapes[place] = tuple(shapes[place][axis] for axis in perm)
    rest = dataclasses.replace(
        node, primitives=_without(node.primitives, turn, first), input_shapes=tuple(shapes)
    )
    return turned, rest


def _readers(node: Fusion, place: int) -> int:
    return sum(primitive.arguments.count(place) for primitive in node.primitives)


def _without(primitives: tuple[Primitive, ...], removed: int, first: int) -> tuple[Primitive, ...]:
    """All primitives but one, whose readers read its argument."""
    place, argument = first + removed, primitives[removed].arguments[0]

    def moved(index: int) -> int:
        index = argument if index == place else index
        return index - (index > place)

    kept = [primitive for i, primitive in enumerate(primitives) if i != removed]
    return tuple(
        dataclasses.replace(primitive, arguments=tuple(map(moved, primitive.arguments)))
        for primitive in kept
    )
