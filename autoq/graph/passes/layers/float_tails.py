"""What follows a product of floats that its kernel's epilogue can compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autoq.graph.ir import Operation
from autoq.graph.rewrite import Neighbourhood
from autoq.templates.epilogue import activated

_LONGEST = 16
"""Operations of an activation."""
_FAR = np.geomspace(12.5, 65504, 60)
_POINTS = np.concatenate([-_FAR[::-1], np.linspace(-12, 12, 193), _FAR]).astype(np.float32)
"""Dense where activations bend, and as far as float16 goes: what is small here may grow there."""
_ROUNDING = {"float16": 2.0**-12, "bfloat16": 2.0**-9, "float32": 2.0**-20}
"""What an activation may be off by, as a share of its argument: the model's own constants are
rounded to its type, and so is in onnxruntime the factor that multiplies the argument."""


@dataclass(frozen=True)
class FloatTail:
    """The product and what is fused behind it, in running order: an activation, an addition.

    residual names the tensor that is added, None without.
    """

    members: tuple[Operation, ...]
    activation: str = "none"
    residual: str | None = None

    @property
    def output(self) -> str:
        """What the last of them writes."""
        return self.members[-1].output


def float_tails(
    around: Neighbourhood, product: Operation, dtype: str, taken: set[int]
) -> list[FloatTail]:
    """Every tail of a product of floats of a dtype, the longest first, the product alone last.

    Additions whose ids are in `taken` belong to another product.
    """
    bare = FloatTail((product,))
    active = activation_behind(around, product, dtype)
    found = [bare] if active is None else [active, bare]
    added = residual_behind(around, found[0], taken)
    return found if added is None else [added, *found]


def residual_behind(around: Neighbourhood, tail: FloatTail, taken: set[int]) -> FloatTail | None:
    """The tail with the addition behind it of a tensor of its shape."""
    graph = around.graph
    add = around.only_reader(tail.output, "Add")
    if add is None or id(add) in taken:
        return None
    other = add.inputs[1 - add.inputs.index(tail.output)]
    shape = graph.shape(tail.output)
    constant = around.constant(other) is not None
    if constant or graph.dtype(other) != "float32" or graph.shape(other) != shape:
        return None
    return FloatTail((*tail.members, add), tail.activation, other)


def activation_behind(around: Neighbourhood, product: Operation, dtype: str) -> FloatTail | None:
    """The product with the activation that alone reads it, however a model writes that.

    Operations of the product and of numbers are one where their function of it is, at all _POINTS.
    """
    relu = around.only_reader(product.output, "Relu")
    if relu is not None:
        return FloatTail((product, relu), "relu")
    members = _functions_of(around, product.output)
    values = _values_at_points(around, product.output, members)
    for last in reversed(members):
        own = _expression(members, last)
        if not _is_closed(around, product.output, own):
            continue
        with np.errstate(over="ignore"):  # of exponentials, whose limits are right
            errors = {
                name: np.abs(activated(_POINTS, name) - values[last.output])
                for name in ("gelu", "gelu_tanh", "silu")
            }
        nearest = min(errors, key=lambda name: float(errors[name].max()))
        if np.all(errors[nearest] <= _ROUNDING[dtype] * np.abs(_POINTS)):
            return FloatTail((product, *own), nearest)
    return None


def _functions_of(around: Neighbourhood, x: str) -> list[Operation]:
    """Operations that compute with `x` and numbers alone, in running order, the first few."""
    graph, made = around.graph, {x}
    members: list[Operation] = []
    pending = around.readers(x)
    while pending and len(members) < _LONGEST:
        node = min(pending, key=lambda reader: around.position[id(reader)])
        pending = [reader for reader in pending if reader is not node]
        plain = node.op in _ANALYTIC and graph.shape(node.output) == graph.shape(x)
        if plain and all(name in made or _number(around, name) is not None for name in node.inputs):
            members.append(node)
            made.add(node.output)
            pending += around.readers(node.output)
    return members


def _number(around: Neighbourhood, name: str) -> float | None:
    """The value of a constant of one element."""
    value = around.constant(name)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def _values_at_points(
    around: Neighbourhood, x: str, members: list[Operation]
) -> dict[str, np.ndarray]:
    """float64 values of every member's result where `x` is at the points."""
    values = {x: _POINTS.astype(np.float64)}
    with np.errstate(all="ignore"):
        for node in members:
            arguments = [
                values[name] if name in values else np.float64(_number(around, name))
                for name in node.inputs
            ]
            values[node.output] = _ANALYTIC[node.op](*arguments)
    return values


def _expression(members: list[Operation], last: Operation) -> tuple[Operation, ...]:
    """The members that `last` depends on, and itself, in running order."""
    wanted = {last.output}
    for node in reversed(members):
        if node.output in wanted:
            wanted.update(node.inputs)
    return tuple(node for node in members if node.output in wanted)


def _is_closed(around: Neighbourhood, x: str, own: tuple[Operation, ...]) -> bool:
    """Whether nobody else reads `x` or what lies between it and the last of these operations."""
    inside = {id(node) for node in own}
    between = [x, *(node.output for node in own[:-1])]
    return all(
        name not in around.graph.outputs
        and all(id(reader) in inside for reader in around.consumers.get(name, ()))
        for name in between
    )


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


_ANALYTIC: dict[str, Callable[..., np.ndarray]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Neg": np.negative,
    "Reciprocal": np.reciprocal,
    "Exp": np.exp,
    "Tanh": np.tanh,
    "Erf": _erf,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Identity": np.asarray,
}
