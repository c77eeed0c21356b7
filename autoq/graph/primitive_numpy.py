"""What the primitives of a fusion compute, in numpy: the oracle of `lowering/fusions.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from autoq.graph.ir import Fusion, Primitive
from autoq.graph.shapes import infer_shape
from autoq.templates.epilogue import clamp_numbers


def evaluate_fusion(node: Fusion, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """The fusion's output `output_shape` for inputs of `input_shapes`.

    What no number is the result of is infinite or NaN, without a warning, as it is of kernels.
    """
    values: list[np.ndarray] = [
        array.reshape(shape) for array, shape in zip(inputs, node.input_shapes, strict=True)
    ]
    values += node.constants
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for primitive in node.primitives:
            arguments = [values[index] for index in primitive.arguments]
            result = PRIMITIVES[primitive.op](primitive, *arguments)
            values.append(np.asarray(result).astype(primitive.dtype))
    return np.ascontiguousarray(values[-1]).reshape(node.output_shape)


def _quantize(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    rounded = np.rint(x / np.float32(primitive["scale"]))
    return clamp_numbers(rounded, primitive["low"], primitive["high"]) + primitive["zero_point"]


def _dequantize(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    centred = (x.astype(np.int32) - primitive["zero_point"]).astype(np.float32)
    return centred * np.float32(primitive["scale"])


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float32])(x)


def _softmax(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=primitive["axis"], keepdims=True))
    return powers / powers.sum(axis=primitive["axis"], keepdims=True)


def _lrn(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    axis, size = primitive["axis"], primitive["size"]
    before, after = (size - 1) // 2, size // 2
    edges = [(before, after) if i == axis else (0, 0) for i in range(x.ndim)]
    squares = np.pad(x * x, edges)
    total = sum(
        np.take(squares, range(shift, shift + x.shape[axis]), axis) for shift in range(size)
    )
    return x / (primitive["bias"] + primitive["alpha"] / size * total) ** primitive["beta"]


def _pad(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    edges = list(zip(primitive["before"], primitive["after"], strict=True))
    return np.pad(x, edges, constant_values=np.asarray(primitive["value"]).astype(x.dtype))


def _slice(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    for axis, bounds in enumerate(
        zip(primitive["starts"], primitive["ends"], primitive["steps"], strict=True)
    ):
        x = np.take(x, range(*bounds), axis)
    return x


def _channel_shuffle(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    channels, groups = x.shape[primitive["axis"]], primitive["groups"]
    order = np.arange(channels).reshape(groups, channels // groups).T.reshape(-1)
    return np.take(x, order, primitive["axis"])


def _conv(primitive: Primitive, x: np.ndarray, weight: np.ndarray, *bias: np.ndarray) -> np.ndarray:
    from autoq.templates.epilogue import Epilogue, pack_scalars
    from autoq.templates.operators.conv2d import Conv2d
    from autoq.templates.oracle.reference import reference

    n, c, h, w = x.shape
    k, _, r, s = weight.shape
    workload = Conv2d(
        n, h, w, c, k, r, s,
        primitive["strides"], primitive["pads"], primitive["dilations"], primitive["groups"],
        "float32", "float32", epilogue=Epilogue("float32"),
    )  # fmt: skip
    offsets = bias[0] if bias else np.zeros(k, np.float32)
    constants = {"weight": weight.transpose(0, 2, 3, 1), "bias": offsets, "scalars": pack_scalars()}
    return reference(workload, [x.transpose(0, 2, 3, 1)], constants).transpose(0, 3, 1, 2)


def _taps(primitive: Primitive, x: np.ndarray, outside: float) -> np.ndarray:
    """What each tap of a pool's windows reads, [taps, n, c, h, w]."""
    top, left, bottom, right = primitive["pads"]
    edges = [(0, 0), (0, 0), (top, bottom), (left, right)]
    padded = np.pad(x, edges, constant_values=np.asarray(outside).astype(x.dtype))
    _, _, rows, columns = infer_shape(primitive.op, [x.shape], dict(primitive.attributes))
    (stride_h, stride_w), (gap_h, gap_w) = primitive["strides"], primitive["dilations"]
    return np.stack([
        padded[:, :, i * gap_h :: stride_h, j * gap_w :: stride_w][:, :, :rows, :columns]
        for i in range(primitive["window"][0])
        for j in range(primitive["window"][1])
    ])  # fmt: skip


def _unrolled(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    last = primitive["axis"] == 3
    image = x.transpose(0, 3, 1, 2) if last else x
    windows = Primitive("MaxPool", (0,), primitive.dtype, primitive.attributes)
    found = np.concatenate(list(_taps(windows, image, 0.0)), axis=1)
    return found.transpose(0, 2, 3, 1) if last else found


def _max_pool(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    least = -np.inf if x.dtype == np.float32 else ml_dtypes.iinfo(x.dtype).min
    return _taps(primitive, x, least).max(axis=0)


def _average_pool(primitive: Primitive, x: np.ndarray) -> np.ndarray:
    counted = _taps(primitive, np.ones_like(x), float(primitive["include_pad"]))
    return _taps(primitive, x, 0.0).sum(axis=0) / counted.sum(axis=0)


def _gather(primitive: Primitive, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    size = x.shape[primitive["axis"]]
    places = np.where(indices < 0, indices + size, indices).clip(0, size - 1)
    return np.take(x, places, primitive["axis"])


def _take(primitive: Primitive, x: np.ndarray, *indices: np.ndarray) -> np.ndarray:
    for axis, places in zip(primitive["axes"], indices, strict=True):
        x = np.take(x, places, axis)
    return x


def _interpolate(primitive: Primitive, x: np.ndarray, *taps: np.ndarray) -> np.ndarray:
    for axis, places, weights in zip(primitive["axes"], taps[::2], taps[1::2], strict=True):
        shape = (-1, *(1,) * (x.ndim - 1 - axis))
        parts = [
            np.take(x, place, axis) * weight.reshape(shape)
            for place, weight in zip(places, weights, strict=True)
        ]
        x = np.sum(parts, axis=0)
    return x


def _gemm(primitive: Primitive, x: np.ndarray, weight: np.ndarray, *bias: np.ndarray) -> np.ndarray:
    return x @ weight.T + (bias[0] if bias else np.float32(0))


PRIMITIVES: dict[str, Callable[..., np.ndarray]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "Softmax": _softmax,
    "LRN": _lrn,
    "Pad": _pad,
    "Slice": _slice,
    "ChannelShuffle": _channel_shuffle,
    "Conv": _conv,
    "Gemm": _gemm,
    "Windows": _unrolled,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "Transpose": lambda primitive, x: x.transpose(primitive["perm"]),
    "Concat": lambda primitive, *parts: np.concatenate(parts, axis=primitive["axis"]),
    "ReduceMean": lambda primitive, x: x.mean(axis=primitive["axes"], keepdims=True),
    "ReduceMax": lambda primitive, x: np.fmax.reduce(x, axis=primitive["axes"], keepdims=True),
    "ReduceSum": lambda primitive, x: x.sum(axis=primitive["axes"], keepdims=True),
    "MatMul": lambda primitive, a, b: a @ b,
    "Expand": lambda primitive, x: np.broadcast_to(x, primitive["shape"]),
    "Gather": _gather,
    "Take": _take,
    "Interpolate": _interpolate,
    "Identity": lambda primitive, x: x,
    "Cast": lambda primitive, x: x,
    "Relu": lambda primitive, x: np.maximum(x, 0),
    "Clip": lambda primitive, x: np.clip(x, primitive["low"], primitive["high"]),
    "Sigmoid": lambda primitive, x: 1 / (1 + np.exp(-x)),
    "HardSigmoid": lambda primitive, x: np.clip(primitive["alpha"] * x + primitive["beta"], 0, 1),
    "HardSwish": lambda primitive, x: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": lambda primitive, x: np.where(x < 0, np.float32(primitive["alpha"]) * x, x),
    "Elu": lambda primitive, x: np.where(
        x < 0, primitive["alpha"] * (np.exp(np.minimum(x, 0)) - 1), x
    ),
    "Tanh": lambda primitive, x: np.tanh(x),
    "Exp": lambda primitive, x: np.exp(x),
    "Log": lambda primitive, x: np.log(x),
    "Sqrt": lambda primitive, x: np.sqrt(x),
    "Neg": lambda primitive, x: -x,
    "Abs": lambda primitive, x: np.abs(x),
    "Reciprocal": lambda primitive, x: 1 / x,
    "Erf": lambda primitive, x: _erf(x),
    "Floor": lambda primitive, x: np.floor(x),
    "Ceil": lambda primitive, x: np.ceil(x),
    "Round": lambda primitive, x: np.rint(x),
    "Softplus": lambda primitive, x: np.logaddexp(x, 0),
    "Sin": lambda primitive, x: np.sin(x),
    "Cos": lambda primitive, x: np.cos(x),
    "Sign": lambda primitive, x: np.sign(x),
    "IsNaN": lambda primitive, x: np.isnan(x),
    "Add": lambda primitive, a, b: a + b,
    "Sub": lambda primitive, a, b: a - b,
    "Mul": lambda primitive, a, b: a * b,
    "Div": lambda primitive, a, b: a / b,
    "Pow": lambda primitive, a, b: a**b,
    "Min": lambda primitive, a, b: np.minimum(a, b),
    "Max": lambda primitive, a, b: np.maximum(a, b),
    "Equal": lambda primitive, a, b: a == b,
    "Greater": lambda primitive, a, b: a > b,
    "GreaterOrEqual": lambda primitive, a, b: a >= b,
    "Where": lambda primitive, condition, a, b: np.where(condition != 0, a, b),
}
"""Meaning of each primitive's op; attributes are already in the layout of its arguments."""
