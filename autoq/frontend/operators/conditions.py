"""Comparisons, logic and the choice by a condition: bools are the float32 numbers 0 and 1."""

from __future__ import annotations

import math

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.registry import OnnxNode, importer

_COMPARED = {
    "Equal": ("Equal", False),
    "Greater": ("Greater", False),
    "GreaterOrEqual": ("GreaterOrEqual", False),
    "Less": ("Greater", True),
    "LessOrEqual": ("GreaterOrEqual", True),
}
"""The graph's comparison for each, and whether its operands are exchanged."""


@importer(*_COMPARED)
def compare(node: OnnxNode, b: GraphBuilder) -> str:
    """A comparison of two tensors of one type; with NaN nothing is equal, larger or smaller."""
    names = [node.required(0, b), node.required(1, b)]
    if b.dtype(names[0]) != b.dtype(names[1]):
        raise b.error(f"inputs of {b.dtype(names[0])} and {b.dtype(names[1])}; cast one of them")
    op, exchanged = _COMPARED[node.op]
    if names[0] == names[1] and op != "Greater" and b.dtype(names[0]) == "float32":
        return negated(b, b.emit("IsNaN", names[:1]))
    return b.emit(op, names[::-1] if exchanged else names, "float32")


@importer("And", "Or", "Xor")
def logic(node: OnnxNode, b: GraphBuilder) -> str:
    """A condition of two others."""
    names = [node.required(0, b), node.required(1, b)]
    if node.op == "Xor":
        return negated(b, b.emit("Equal", names, "float32"))
    return b.emit({"And": "Mul", "Or": "Max"}[node.op], names)


@importer("Not")
def negation(node: OnnxNode, b: GraphBuilder) -> str:
    """The opposite of a condition."""
    return negated(b, node.required(0, b))


@importer("IsNaN")
def is_nan(node: OnnxNode, b: GraphBuilder) -> str:
    """Whether a float is NaN."""
    return b.emit("IsNaN", [node.required(0, b)])


@importer("IsInf")
def is_inf(node: OnnxNode, b: GraphBuilder) -> str:
    """Whether a float is one of the infinities that are asked for."""
    x = node.required(0, b)
    infinity = b.add_constant(np.float32(math.inf))
    if not node.flag("detect_negative", b, True):
        return b.emit("Equal", [x, infinity], "float32")
    sought = b.emit("Neg" if not node.flag("detect_positive", b, True) else "Abs", [x])
    return b.emit("Equal", [sought, infinity], "float32")


@importer("Where")
def where(node: OnnxNode, b: GraphBuilder) -> str:
    """The one value or the other, all three broadcast."""
    condition, x, other = (node.required(index, b) for index in range(3))
    if b.dtype(x) != b.dtype(other):
        raise b.error(f"values of {b.dtype(x)} and {b.dtype(other)}; cast one of them")
    return b.emit("Where", [condition, x, other], b.dtype(x))


def negated(b: GraphBuilder, condition: str) -> str:
    """The opposite of a condition."""
    return b.emit("Sub", [b.add_constant(np.float32(1)), condition])


def is_not_zero(b: GraphBuilder, x: str) -> str:
    """The condition that a number is not 0, as NaN is not."""
    zero = b.add_constant(np.zeros((), b.dtype(x)))
    return negated(b, b.emit("Equal", [x, zero], "float32"))
