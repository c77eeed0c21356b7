"""Einsum: sums and products over labelled axes as transpositions, products of matrices and sums."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.linear import emit_matmul
from autoq.frontend.registry import OnnxNode, importer

Labelled = tuple[str, str]
"""A tensor and a letter for each of its axes."""

_OF_ELLIPSIS = "0123456789"
"""Labels of the axes that an ellipsis stands for, of the last one first."""


@importer("Einsum")
def einsum(node: OnnxNode, b: GraphBuilder) -> str:
    """Any number of operands, one after the other; no label twice in one of them."""
    equation = node.attributes["equation"].replace(" ", "")
    if not re.fullmatch(r"[A-Za-z.,]+(->[A-Za-z.]*)?", equation):
        raise b.error(f"equation {equation!r}; letters, commas, '...' and '->' are supported")
    left, arrow, result = equation.partition("->")
    names = [node.required(index, b) for index in range(len(node.inputs))]
    terms = left.split(",")
    if len(terms) != len(names):
        raise b.error(f"equation {equation!r} of {len(names)} operands")
    pairs = zip(names, terms, strict=True)
    operands = [(name, _labels(b, equation, name, term)) for name, term in pairs]
    widest = max((len(set(_OF_ELLIPSIS) & set(labels)) for _, labels in operands), default=0)
    outer = _OF_ELLIPSIS[:widest][::-1]
    if arrow:
        wanted = result.replace("...", outer)
    else:
        every = "".join(labels for _, labels in operands)
        once = sorted(c for c in set(every) if every.count(c) == 1 and c.isalpha())
        wanted = outer + "".join(once)
    known = {label for _, labels in operands for label in labels}
    if not set(wanted) <= known or len(set(wanted)) < len(wanted):
        raise b.error(f"equation {equation!r}: labels of the result {result!r}")
    first = operands[0]
    for index, other in enumerate(operands[1:], 2):
        later = set(wanted).union(*(labels for _, labels in operands[index:]))
        first = _product(b, first, other, later)
    return _ordered(b, _summed(b, first, set(wanted)), wanted)


def _labels(b: GraphBuilder, equation: str, name: str, term: str) -> str:
    """A letter for each axis, the ellipsis written out."""
    hidden = len(b.shape(name)) - len(term.replace("...", ""))
    if hidden < 0 or (hidden and "..." not in term) or term.count(".") not in (0, 3):
        raise b.error(f"equation {equation!r}: {term!r} for an operand {list(b.shape(name))}")
    labels = term.replace("...", _OF_ELLIPSIS[:hidden][::-1])
    if len(set(labels)) < len(labels) or hidden > len(_OF_ELLIPSIS):
        raise b.error(f"equation {equation!r}: a label twice in {term!r}; take the diagonal before")
    return labels


def _summed(b: GraphBuilder, operand: Labelled, kept: set[str]) -> Labelled:
    """An operand without the axes that nothing else has."""
    name, labels = operand
    axes = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    if not axes:
        return operand
    sums = b.emit("ReduceSum", [name], axes=axes)
    shape = tuple(size for axis, size in enumerate(b.shape(name)) if axis not in axes)
    left = "".join(label for label in labels if label in kept)
    return b.emit("Reshape", [sums], shape=shape), left


def _ordered(b: GraphBuilder, operand: Labelled, wanted: Sequence[str]) -> str:
    """An operand with its axes in an order."""
    name, labels = operand
    perm = tuple(labels.index(label) for label in wanted)
    return name if perm == tuple(range(len(perm))) else b.emit("Transpose", [name], perm=perm)


def _product(b: GraphBuilder, x: Labelled, other: Labelled, later: set[str]) -> Labelled:
    """The product of two operands, summed over what nothing later has."""
    x, other = _summed(b, x, later | set(other[1])), _summed(b, other, later | set(x[1]))
    sizes = dict(zip(other[1], b.shape(other[0]), strict=True))
    for label, size in zip(x[1], b.shape(x[0]), strict=True):
        if sizes.setdefault(label, size) == 1:
            sizes[label] = size
    common = [label for label in x[1] if label in other[1]]
    inner = [label for label in common if label not in later]
    batch = [label for label in common if label in later]
    rows = [label for label in x[1] if label not in other[1]]
    columns = [label for label in other[1] if label not in x[1]]
    if not inner:
        return _elementwise(b, x, other, [*batch, *rows, *columns])
    left = _matrices(b, x, batch, rows, inner, sizes)
    right = _matrices(b, other, batch, inner, columns, sizes)
    y = emit_matmul(b, left, right)
    order = [*batch, *rows, *columns]
    shape = tuple(sizes[label] for label in order)
    if b.shape(y) != shape:
        y = b.emit("Reshape", [y], shape=shape)
    return y, "".join(order)


def _elementwise(b: GraphBuilder, x: Labelled, other: Labelled, order: list[str]) -> Labelled:
    """A product in which nothing is summed: each operand broadcasts."""
    spread = []
    for name, labels in (x, other):
        kept = [label for label in order if label in labels]
        turned = _ordered(b, (name, labels), kept)
        extents = dict(zip(kept, b.shape(turned), strict=True))
        shape = tuple(extents.get(label, 1) for label in order)
        same = shape == b.shape(turned)
        spread.append(turned if same else b.emit("Reshape", [turned], shape=shape))
    return b.emit("Mul", spread), "".join(order)


def _matrices(
    b: GraphBuilder, operand: Labelled, batch: list[str], rows: list[str], columns: list[str],
    sizes: dict[str, int],
) -> str:  # fmt: skip
    """An operand as matrices whose rows and columns may be several axes each."""
    name, labels = operand
    extents = dict(zip(labels, b.shape(name), strict=True))
    turned = _ordered(b, operand, [*batch, *rows, *columns])
    for label in (*rows, *columns):
        if extents[label] != sizes[label]:
            raise b.error(f"axes of {extents[label]} and {sizes[label]} under one label {label!r}")
    shape = [extents[label] for label in batch]
    for axes in (rows, columns):
        shape.append(1)
        for label in axes:
            shape[-1] *= extents[label]
    same = tuple(shape) == b.shape(turned)
    return turned if same else b.emit("Reshape", [turned], shape=tuple(shape))
