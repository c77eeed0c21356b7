"""Fusions in front of one that reduces rows join it, where all is one kernel over the rows.

Regions of the graph have one operation that looks at several elements, and nothing in front of it:
whatever TVM schedules would compute that once for each of them. A kernel over rows holds a row in
registers, so that a mask in front of a softmax and all of a normalisation cost no pass over memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from autoq.graph.ir import Fusion, Graph, Node, Primitive
from autoq.graph.lowering.cpu.expressions import EXPRESSIONS
from autoq.graph.lowering.fusions import kernel_family
from autoq.graph.shapes import broadcast
from autoq.templates.target import Target

_WRITTEN = ("elementwise", "rows")
_MOVING = ("Transpose", "Concat")
"""Operations of such kernels whose results lie elsewhere than what they are computed of."""


def merge_rows(graph: Graph, target: Target) -> None:
    """Let each fusion of float32 rows take in those that only it reads, as far as rows allow."""
    producers = graph.producers()
    readings = Counter(name for node in graph.nodes for name in node.inputs)
    readings.update(graph.outputs)
    gone: set[int] = set()
    for index in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[index]
        while isinstance(node, Fusion) and id(node) not in gone:
            alone = [at for at, name in enumerate(node.inputs) if readings[name] == 1]
            found = _larger(node, {at: producers.get(node.inputs[at]) for at in alone}, target)
            if found is None:
                break
            front, both = found
            gone.add(id(front))
            readings.subtract((*front.inputs, *node.inputs))
            readings.update(both.inputs)
            node = graph.nodes[index] = producers[node.output] = both
    graph.nodes = [node for node in graph.nodes if id(node) not in gone]


def _larger(
    node: Fusion, fronts: Mapping[int, Node | None], target: Target
) -> tuple[Fusion, Fusion] | None:
    """One of what writes an input for `node` alone, by the input's place, and both as one.

    None where none of them makes a kernel over rows with it.
    """
    if kernel_family(node, target) not in _WRITTEN:
        return None
    for place, behind in fronts.items():
        front = _viewed(behind, node.input_shapes[place])
        joins = (
            front is not None
            and node.input_dtypes[place] == front.primitives[-1].dtype == "float32"
            and front.output_shape == node.input_shapes[place]
            and kernel_family(front, target) in _WRITTEN
            and _whole(front) == _whole(node) is not None
        )
        if joins and front is not None and isinstance(behind, Fusion):
            both = merged(front, node, place)
            if kernel_family(both, target) == "rows":
                return behind, both
    return None


def _viewed(node: Node | None, shape: tuple[int, ...]) -> Fusion | None:
    """A fusion as one that writes a shape: one of elements whose arrays have its output's shape.

    Others are of a single element, or of last axes that both shapes have.
    """
    if not isinstance(node, Fusion) or node.output_shape == shape:
        return node if isinstance(node, Fusion) else None
    if not all(_of_elements(primitive) for primitive in node.primitives):
        return None
    inputs = [_viewed_shape(given, node.output_shape, shape) for given in node.input_shapes]
    sizes = [_viewed_shape(array.shape, node.output_shape, shape) for array in node.constants]
    if None in inputs or None in sizes:
        return None
    constants = tuple(
        array.reshape(size) for array, size in zip(node.constants, sizes, strict=True)
    )
    shapes = tuple(given for given in inputs if given is not None)
    return replace(node, input_shapes=shapes, constants=constants, output_shape=shape)


def _viewed_shape(
    given: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The shape of an array of a fusion whose results of a shape are seen as another one."""
    if given == before:
        return after
    if math.prod(given) == 1:
        return ()
    last = len(given)
    return given if given == before[-last:] == after[-last:] else None


def _of_elements(primitive: Primitive) -> bool:
    """Whether a primitive computes element by element, wherever these lie."""
    return primitive.op in EXPRESSIONS and dict(primitive.attributes).get("axis") is None


def _whole(node: Fusion) -> tuple[int, ...] | None:
    """The shape over which a fusion of rows or elements computes; None where it moves an input."""
    if any(primitive.op in _MOVING for primitive in node.primitives):
        return None
    return broadcast([*node.input_shapes, *(array.shape for array in node.constants)])


def merged(front: Fusion, node: Fusion, place: int) -> Fusion:
    """Both fusions as one; `place` is the input of `node` that `front` writes."""
    of_node = list(zip(node.inputs, node.input_shapes, node.input_dtypes, strict=True))
    of_front = list(zip(front.inputs, front.input_shapes, front.input_dtypes, strict=True))
    between = of_node.pop(place)
    operands = list(dict.fromkeys((*of_node, *of_front)))
    of_node.insert(place, between)
    constants = (*front.constants, *node.constants)
    values = len(operands) + len(constants)
    places = {operand: at for at, operand in enumerate(operands)}
    places[between] = values + len(front.primitives) - 1
    primitives: list[Primitive] = []
    for part, inputs, first in (
        (front, of_front, len(operands)),
        (node, of_node, len(operands) + len(front.constants)),
    ):
        numbers = [places[operand] for operand in inputs]
        numbers += range(first, first + len(part.constants))
        done = values + len(primitives)
        numbers += range(done, done + len(part.primitives))
        primitives += (
            replace(item, arguments=tuple(numbers[at] for at in item.arguments))
            for item in part.primitives
        )
    names, shapes, dtypes = (tuple(column) for column in zip(*operands, strict=True))
    covers = tuple(dict.fromkeys((*front.covers, *node.covers)))
    return Fusion(
        tuple(primitives), names, shapes, dtypes, constants, node.output, node.output_shape, covers
    )
