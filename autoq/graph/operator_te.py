"""What the steps of an operator compute, as TE expressions; `operator_numpy.py` says the same.

A Value is a function from indices to an expression: elementwise steps compose such functions,
and nothing is stored until `output`, or a reduction that reads its input more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from autoq.graph.ir import Step
from autoq.graph.shapes import broadcast, infer_shape

Index = Sequence[Any]


@dataclass(frozen=True)
class Value:
    """An array that is computed where it is read."""

    shape: tuple[int, ...]
    dtype: str
    at: Callable[[Index], Any]

    @classmethod
    def of(cls, tensor: te.Tensor) -> Value:
        """A stored array."""
        shape = tuple(int(size) for size in tensor.shape)
        return cls(
            shape, str(tensor.dtype), lambda index: tensor[tuple(index)] if shape else tensor()
        )

    def broadcast_at(self, index: Index) -> Any:
        """The element that numpy's broadcasting puts at `index` of a larger array."""
        tail = list(index)[len(index) - len(self.shape) :]
        return self.at([0 if size == 1 else i for size, i in zip(self.shape, tail, strict=True)])


def output(value: Value, shape: tuple[int, ...], dtype: str) -> te.Tensor:
    """The stored result of an operator."""
    if value.shape != shape:
        raise ValueError(f"the last step gives {value.shape}, the operator {shape}")
    return te.compute(shape, lambda *index: value.at(index).astype(dtype), name="y")


def _stored(value: Value, name: str) -> Value:
    return Value.of(te.compute(value.shape, lambda *index: value.at(index), name=name))


def _constant(value: float, dtype: str = "float32") -> Any:
    return tirx.const(value, dtype)


def _clip(x: Any, low: float, high: float) -> Any:
    if low > -float("inf"):
        x = tirx.max(x, _constant(low))
    return tirx.min(x, _constant(high)) if high < float("inf") else x


def _unary(function: Callable[[Step, Any], Any]) -> Callable[..., Value]:
    def step_value(step: Step, x: Value) -> Value:
        return Value(
            x.shape, step.dtype, lambda index: function(step, x.at(index)).astype(step.dtype)
        )

    return step_value


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    def step_value(step: Step, a: Value, b: Value) -> Value:
        shape = broadcast([a.shape, b.shape])

        def at(index: Index) -> Any:
            return function(a.broadcast_at(index), b.broadcast_at(index)).astype(step.dtype)

        return Value(shape, step.dtype, at)

    return step_value


def _moved(where: Callable[[Step, Value, Index], Index]) -> Callable[..., Value]:
    """A step that reads its input elsewhere."""

    def step_value(step: Step, x: Value) -> Value:
        if step.op == "ChannelShuffle":
            shape = x.shape
        else:
            shape = infer_shape(step.op, [x.shape], dict(step.attributes))
        return Value(shape, x.dtype, lambda index: x.at(where(step, x, index)))

    return step_value


def _quantize(step: Step, x: Any) -> Any:
    rounded = tirx.nearbyint(x / _constant(step["scale"]))
    clamped = _clip(rounded, step["low"], step["high"])
    return (clamped + _constant(float(step["zero_point"]))).astype("int32")


def _dequantize(step: Step, x: Any) -> Any:
    centred = (x.astype("int32") - step["zero_point"]).astype("float32")
    return centred * _constant(step["scale"])


def _transposed(step: Step, x: Value, index: Index) -> Index:
    source = [None] * len(index)
    for position, axis in enumerate(step["perm"]):
        source[axis] = index[position]
    return source


def _sliced(step: Step, x: Value, index: Index) -> Index:
    return [
        start + i * stride
        for start, i, stride in zip(step["starts"], index, step["steps"], strict=True)
    ]


def _shuffled(step: Step, x: Value, index: Index) -> Index:
    axis, groups = step["axis"], step["groups"]
    source = list(index)
    each = x.shape[axis] // groups
    channel = index[axis]
    source[axis] = tirx.floormod(channel, groups) * each + tirx.floordiv(channel, groups)
    return source


def _pad(step: Step, x: Value) -> Value:
    shape = infer_shape("Pad", [x.shape], dict(step.attributes))

    def at(index: Index) -> Any:
        inside, source = [], []
        for i, before, size, whole in zip(index, step["before"], x.shape, shape, strict=True):
            source.append(i - before)
            if whole != size:
                inside += [i >= before, i < before + size]
        if not inside:
            return x.at(source)
        outside = _constant(step["value"], x.dtype)
        return tirx.if_then_else(tirx.all(*inside), x.at(source), outside)

    return Value(shape, x.dtype, at)


def _concat(step: Step, *parts: Value) -> Value:
    axis = step["axis"]
    shape = infer_shape("Concat", [part.shape for part in parts], dict(step.attributes))

    def at(index: Index) -> Any:
        starts = [sum(part.shape[axis] for part in parts[:i]) for i in range(len(parts))]
        result = None
        for part, start in reversed(list(zip(parts, starts, strict=True))):
            source = list(index)
            source[axis] = index[axis] - start
            element = part.at(source)
            reach = start + part.shape[axis]
            result = (
                element
                if result is None
                else tirx.if_then_else(index[axis] < reach, element, result)
            )
        return result

    return Value(shape, parts[0].dtype, at)


def _softmax(step: Step, x: Value) -> Value:
    axis = step["axis"]
    rest = tuple(size for i, size in enumerate(x.shape) if i != axis)

    def whole(outer: Index, inner: Any) -> list[Any]:
        return [*outer[:axis], inner, *outer[axis:]]

    k = te.reduce_axis((0, x.shape[axis]), "k")
    largest = te.compute(rest, lambda *i: te.max(x.at(whole(i, k)), axis=k), name="softmax_maximum")
    powers = te.compute(
        x.shape,
        lambda *i: te.exp(x.at(i) - largest[(*i[:axis], *i[axis + 1 :])]),
        name="softmax_power",
    )
    k = te.reduce_axis((0, x.shape[axis]), "k")
    total = te.compute(
        rest, lambda *i: te.sum(powers[tuple(whole(i, k))], axis=k), name="softmax_total"
    )

    def at(index: Index) -> Any:
        return powers[tuple(index)] / total[(*index[:axis], *index[axis + 1 :])]

    return Value(x.shape, "float32", at)


def _lrn(step: Step, x: Value) -> Value:
    axis, size = step["axis"], step["size"]
    before = (size - 1) // 2

    def at(index: Index) -> Any:
        total = _constant(0.0)
        for shift in range(-before, size - before):
            channel = index[axis] + shift
            source = [*index[:axis], channel, *index[axis + 1 :]]
            element = x.at(source)
            inside = tirx.all(channel >= 0, channel < x.shape[axis])
            total = total + tirx.if_then_else(inside, element * element, _constant(0.0))
        divisor = _constant(step["bias"]) + _constant(step["alpha"] / size) * total
        return x.at(index) / tirx.pow(divisor, _constant(step["beta"]))

    return Value(x.shape, "float32", at)


def _mean(step: Step, x: Value) -> Value:
    axes = step["axes"]
    shape = infer_shape("ReduceMean", [x.shape], dict(step.attributes))
    reduced = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in axes}
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    total = te.compute(
        shape,
        lambda *i: te.sum(
            x.at([reduced.get(axis, position) for axis, position in enumerate(i)]),
            axis=list(reduced.values()),
        ),
        name="mean_total",
    )
    return Value(shape, "float32", lambda index: total[tuple(index)] / _constant(float(count)))


def _matmul(step: Step, a: Value, b: Value) -> Value:
    shape = infer_shape("MatMul", [a.shape, b.shape], {})
    k = te.reduce_axis((0, a.shape[-1]), "k")

    def element(*index: Any) -> Any:
        *batch, row, column = index
        left = a.broadcast_at([*batch, row, k])
        return te.sum(left * b.broadcast_at([*batch, k, column]), axis=k)

    return Value.of(te.compute(shape, element, name="matmul"))


def _gemm(step: Step, x: Value, weight: Value, *bias: Value) -> Value:
    k = te.reduce_axis((0, x.shape[1]), "k")
    products = te.compute(
        (x.shape[0], weight.shape[0]),
        lambda i, j: te.sum(x.at([i, k]) * weight.at([j, k]), axis=k),
        name="gemm",
    )
    if not bias:
        return Value.of(products)
    return _binary(lambda a, b: a + b)(step, Value.of(products), bias[0])


def _conv(step: Step, x: Value, weight: Value, *bias: Value) -> Value:
    """Convolution whose weights are activations: no template packs those."""
    shape = infer_shape("Conv", [x.shape, weight.shape], dict(step.attributes))
    top, left, bottom, right = step["pads"]
    edges = Step("Pad", (0,), x.dtype, (
        ("after", (0, 0, bottom, right)), ("before", (0, 0, top, left)), ("value", 0.0),
    ))  # fmt: skip
    padded = _stored(_pad(edges, x), "padded")
    _, group_c, r, s = weight.shape
    group_k = weight.shape[0] // step["groups"]
    c, dr, ds = (te.reduce_axis((0, n), name) for n, name in ((group_c, "c"), (r, "r"), (s, "s")))
    (stride_h, stride_w), (dilation_h, dilation_w) = step["strides"], step["dilations"]

    def element(n: Any, k: Any, i: Any, j: Any) -> Any:
        channel = tirx.floordiv(k, group_k) * group_c + c
        pixel = padded.at([n, channel, i * stride_h + dr * dilation_h,
                           j * stride_w + ds * dilation_w])  # fmt: skip
        return te.sum(pixel * weight.at([k, c, dr, ds]), axis=[c, dr, ds])

    y = Value.of(te.compute(shape, element, name="conv"))
    if not bias:
        return y
    return Value(shape, "float32", lambda index: y.at(index) + bias[0].at([index[1]]))


STEPS: dict[str, Callable[..., Value]] = {
    "quantize": _unary(_quantize),
    "dequantize": _unary(_dequantize),
    "Softmax": _softmax,
    "LRN": _lrn,
    "Pad": _pad,
    "Slice": _moved(_sliced),
    "Transpose": _moved(_transposed),
    "ChannelShuffle": _moved(_shuffled),
    "Concat": _concat,
    "ReduceMean": _mean,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "Identity": _unary(lambda step, x: x),
    "Cast": _unary(lambda step, x: x),
    "Relu": _unary(lambda step, x: tirx.max(x, tirx.const(0, step.dtype))),
    "Clip": _unary(lambda step, x: _clip(x, step["low"], step["high"])),
    "Sigmoid": _unary(lambda step, x: _constant(1.0) / (_constant(1.0) + tirx.exp(-x))),
    "HardSigmoid": _unary(
        lambda step, x: _clip(x * _constant(step["alpha"]) + _constant(step["beta"]), 0.0, 1.0)
    ),
    "HardSwish": _unary(lambda step, x: x * _clip(x / _constant(6.0) + _constant(0.5), 0.0, 1.0)),
    "LeakyRelu": _unary(
        lambda step, x: tirx.Select(x < _constant(0.0), x * _constant(step["alpha"]), x)
    ),
    "Elu": _unary(
        lambda step, x: tirx.Select(
            x < _constant(0.0),
            _constant(step["alpha"]) * (tirx.exp(tirx.min(x, _constant(0.0))) - _constant(1.0)),
            x,
        )
    ),
    "Tanh": _unary(lambda step, x: tirx.tanh(x)),
    "Exp": _unary(lambda step, x: tirx.exp(x)),
    "Log": _unary(lambda step, x: tirx.log(x)),
    "Sqrt": _unary(lambda step, x: tirx.sqrt(x)),
    "Neg": _unary(lambda step, x: -x),
    "Abs": _unary(lambda step, x: tirx.max(x, -x)),
    "Reciprocal": _unary(lambda step, x: _constant(1.0) / x),
    "Erf": _unary(lambda step, x: tirx.erf(x)),
    "Floor": _unary(lambda step, x: tirx.floor(x)),
    "Ceil": _unary(lambda step, x: tirx.ceil(x)),
    "Softplus": _unary(
        lambda step, x: (
            tirx.max(x, _constant(0.0)) + tirx.log(_constant(1.0) + tirx.exp(-tirx.max(x, -x)))
        )
    ),
    "Add": _binary(lambda a, b: a + b),
    "Sub": _binary(lambda a, b: a - b),
    "Mul": _binary(lambda a, b: a * b),
    "Div": _binary(lambda a, b: a / b),
    "Pow": _binary(lambda a, b: tirx.pow(a, b)),
    "Min": _binary(lambda a, b: tirx.min(a, b)),
    "Max": _binary(lambda a, b: tirx.max(a, b)),
}
