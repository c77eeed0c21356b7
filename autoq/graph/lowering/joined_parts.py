"""Concatenations inside element-wise fusions: which operands have a part of an axis, and where."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoq.graph.ir import Fusion
from autoq.graph.shapes import broadcast
from autoq.templates.cuda.movement.elementwise import Parts

_LANES = 16


@dataclass(frozen=True)
class Joined:
    """Operands of a fusion as parts of rows; ends: of each concatenation, where its parts end."""

    parts: Parts
    ends: Mapping[int, tuple[int, ...]]


def joined_parts(node: Fusion) -> Joined | None:
    """Where the fusion's operands begin along the axis that all its concatenations join.

    `Parts.of_none` without concatenations. None where the fusion is no formula of one element: axes
    differ, an operand is read at two places, shapes do not meet in the output's, or the axis is not
    one that kernels walk along.
    """
    operands = [*node.input_shapes, *(array.shape for array in node.constants)]
    rank = len(node.output_shape)
    shapes = [(1,) * (rank - len(shape)) + tuple(shape) for shape in operands]
    axes = {p["axis"] % rank for p in node.primitives if p.op == "Concat"}
    if any(len(shape) > rank for shape in operands) or len(axes) > 1:
        return None
    axis = axes.pop() if axes else -1
    begins: dict[int, int] = {}
    ends: dict[int, tuple[int, ...]] = {}
    for number, primitive in enumerate(node.primitives):
        own = [shapes[at] for at in primitive.arguments]
        if primitive.op != "Concat":
            met = _met(own)
            if met is None:
                return None
            shapes.append(met)
            continue
        ends[number] = tuple(itertools.accumulate(shape[axis] for shape in own))
        for at, begin in zip(primitive.arguments, (0, *ends[number]), strict=False):
            if not _placed(node, shapes, axis, at, begin, begins):
                return None
        rest = _met([(*shape[:axis], 1, *shape[axis + 1 :]) for shape in own])
        if rest is None:
            return None
        shapes.append((*rest[:axis], ends[number][-1], *rest[axis + 1 :]))
    if shapes[-1] != tuple(node.output_shape):
        return None
    if axis < 0:
        return Joined(Parts.of_none(len(operands)), ends)
    extents = tuple(shapes[at][axis] for at in range(len(operands)))
    firsts = tuple(begins.get(at, 0) for at in range(len(operands)))
    whole = node.output_shape[axis]
    parts = Parts(firsts, extents, whole, axis)
    walk = parts.walk(node.output_shape, operands, _LANES)
    row = math.prod(node.output_shape[axis + 1 :])
    return Joined(parts, ends) if (walk.rows, walk.row) == (whole, row) else None


def _met(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """What shapes broadcast to, None where they do not."""
    for sizes in zip(*shapes, strict=True):
        if len({*sizes} - {1}) > 1:
            return None
    return tuple(broadcast(shapes))


def _placed(
    node: Fusion, shapes: Sequence[tuple[int, ...]], axis: int, at: int, begin: int,
    begins: dict[int, int],
) -> bool:  # fmt: skip
    """Whether a part's operands all begin there alone; they are entered."""
    given = len(node.inputs) + len(node.constants)
    if at < given:
        return shapes[at][axis] == 1 or begins.setdefault(at, begin) == begin
    primitive = node.primitives[at - given]
    return primitive.op != "Concat" and all(
        _placed(node, shapes, axis, each, begin, begins) for each in primitive.arguments
    )
