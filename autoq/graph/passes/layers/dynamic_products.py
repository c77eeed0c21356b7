"""Products of activations that are quantised as they come, with what follows from their scale.

The model takes the zero point's share off the sums, multiplies them by the scales of both factors,
and adds a bias: each by a number of the run. A kernel that is given the two numbers does all of it
where the sums are in registers, and the activation or the addition behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autoq.graph.fused import GEMM, WORKLOAD
from autoq.graph.ir import Operation
from autoq.graph.passes.layers.float_tails import (
    FloatTail,
    activation_behind,
    residual_behind,
)
from autoq.graph.passes.layers.integer_operands import IntegerOperands
from autoq.graph.rewrite import Neighbourhood
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import Target


@dataclass(frozen=True)
class _Scaled:
    """Members in running order, the numbers of the run by name, and constants float32 [n]."""

    members: tuple[Operation, ...]
    x_scale: str
    x_zero_point: str
    scale: np.ndarray
    bias: np.ndarray | None = None
    activation: str = "none"
    residual: str | None = None

    def with_tail(self, tail: FloatTail | None) -> list[_Scaled]:
        """The same with an activation or an addition that begins with the last member, if any."""
        if tail is None:
            return []
        members = (*self.members, *tail.members[1:])
        return [replace(self, members=members, activation=tail.activation, residual=tail.residual)]


def dynamic_product(
    around: Neighbourhood,
    node: Operation,
    operands: IntegerOperands,
    taken: set[int],
    target: Target,
    templates: Sequence[Template],
) -> tuple[tuple[Operation, ...], Operation] | None:
    """The Gemm `node` with all that follows from the numbers of a run, and what they become.

    None where the model does something else with its sums, or no template computes it. Operations
    whose ids are in `taken` belong to another kernel.
    """
    if node.op != "Gemm":
        return None
    scaled = _scaled(around, node, operands)
    if scaled is None:
        return None
    last = FloatTail(scaled.members[-1:])
    tails = [
        *scaled.with_tail(activation_behind(around, last.members[0], "float32")),
        *scaled.with_tail(residual_behind(around, last, taken)),
        scaled,
    ]
    for tail in tails:
        fused = _operation(around, node, operands, tail)
        if matching(_workload(around, fused), target, templates):
            return tail.members, fused
    return None


def _scaled(around: Neighbourhood, node: Operation, operands: IntegerOperands) -> _Scaled | None:
    """What lies behind sums of integers as they are, of a step of 1, up to an addition."""
    plain = np.all(operands.product == 1) and not operands.bias.any()
    if not plain or operands.scheme.zero_point or np.any(operands.bias_error):
        return None
    n = around.graph.shape(node.output)[1]
    members = [node, *_casts(around, node.output)]
    less = around.only_reader(members[-1].output, "Sub")
    if less is None or less.inputs[0] != members[-1].output:
        return None
    zero_point = _zero_point(around, less.inputs[1], operands.weight)
    members += [less, *_casts(around, less.output)]
    times = around.only_reader(members[-1].output, "Mul")
    if zero_point is None or times is None:
        return None
    scales = _scales(around, _other(times, members[-1].output), n)
    if scales is None:
        return None
    members.append(times)
    add = around.only_reader(times.output, "Add")
    bias = None if add is None else _row(around, _other(add, times.output), n)
    if add is not None and bias is not None:
        members.append(add)
    return _Scaled(tuple(members), scales[0], zero_point, scales[1], bias)


def _casts(around: Neighbourhood, name: str) -> list[Operation]:
    """The conversion between float32 and int32 that alone reads a tensor of whole numbers."""
    cast = around.only_reader(name, "Cast")
    known = cast is not None and around.graph.dtype(cast.output) in ("int32", "float32")
    return [cast] if cast is not None and known else []


def _other(node: Operation, name: str) -> str:
    """The other operand of two."""
    first, second = node.inputs
    return second if first == name else first


def _scales(around: Neighbourhood, name: str, n: int) -> tuple[str, np.ndarray] | None:
    """The scale of the run and that of the weights, float32 [n], which are multiplied."""
    times = around.producer(_source(around, name), "Mul")
    for x_scale in times.inputs if times is not None else ():
        weights = _row(around, _other(times, x_scale), n)
        if _is_number(around, x_scale) and weights is not None:
            return x_scale, weights
    return (name, np.ones(n, np.float32)) if _is_number(around, name) else None


def _is_number(around: Neighbourhood, name: str) -> bool:
    """Whether a tensor is one float32 number of the run."""
    graph = around.graph
    one = name in graph.tensors and graph.tensors[name].size == 1
    return one and around.constant(name) is None and graph.dtype(name) == "float32"


def _row(around: Neighbourhood, name: str, n: int) -> np.ndarray | None:
    """A constant with a number for each of n columns, or one for all, float32 [n]."""
    value = around.constant(name)
    if value is None or value.dtype != np.float32 or value.size not in (1, n):
        return None
    if value.size == n > 1 and value.shape[-1] != n:
        return None
    return np.ascontiguousarray(np.broadcast_to(value.reshape(-1), (n,)))


def _source(around: Neighbourhood, name: str) -> str:
    """Where a tensor's elements come from through reshapes."""
    reshape = around.producer(name, "Reshape")
    while reshape is not None:
        name = reshape.inputs[0]
        reshape = around.producer(name, "Reshape")
    return name


def _zero_point(around: Neighbourhood, name: str, weight: np.ndarray) -> str | None:
    """The zero point of a run, a float32 number, of which `name` is the product with column sums.

    Only one that a dynamic quantisation gives is known to be a whole number of a byte.
    """
    times = around.producer(name, "Mul")
    if times is None:
        return None
    sums = weight.reshape(len(weight), -1).sum(axis=1, dtype=np.int64)
    for number in times.inputs:
        columns = around.constant(_other(times, number))
        same = columns is not None and np.array_equal(columns.reshape(-1), sums)
        if same and (found := _quantised_zero(around, number)) is not None:
            return found
    return None


def _quantised_zero(around: Neighbourhood, name: str) -> str | None:
    """The zero point of a dynamic quantisation that `name` is, as a float or an integer."""
    name = _source(around, name)
    node = around.producer(name, "Cast", "QuantizeLinear")
    while node is not None:
        a = node.attributes
        if node.op == "QuantizeLinear" and not (
            np.all(a["scale"] == 1) and not np.any(a["zero_point"])
        ):
            return None
        name = _source(around, node.inputs[0])
        node = around.producer(name, "Cast", "QuantizeLinear")
    maker = around.producer(name, WORKLOAD)
    given = maker is not None and maker.attributes["workload"].quantises_by_range
    return name if given and maker is not None and name == maker.outputs[2] else None


def _operation(
    around: Neighbourhood, node: Operation, operands: IntegerOperands, tail: _Scaled
) -> Operation:
    epilogue = Epilogue(
        "float32", None if tail.residual is None else "float32", dynamic=True,
        float_bias=tail.bias is not None, activation=tail.activation,
    )  # fmt: skip
    attributes = {
        **node.attributes, "weight": operands.weight, "weight_dtype": operands.weight_dtype,
        "bias": operands.bias, "scale": tail.scale, "scalars": pack_scalars(),
        "x_zero_point": None, "epilogue": epilogue, "float_bias": tail.bias,
    }  # fmt: skip
    covers = tuple(dict.fromkeys(name for member in tail.members for name in member.covers))
    residual = () if tail.residual is None else (tail.residual,)
    inputs = (operands.x, *residual, tail.x_scale, tail.x_zero_point)
    output = tail.members[-1].output
    return Operation(GEMM, node.name, inputs, output, attributes, covers)


def _workload(around: Neighbourhood, fused: Operation) -> Gemm:
    m, k = around.graph.shape(fused.inputs[0])
    a = fused.attributes
    dtype = around.graph.dtype(fused.inputs[0])
    return Gemm(m, len(a["weight"]), k, dtype, a["weight_dtype"], a["epilogue"])
