"""What the steps of a fusion compute, in numpy: the oracle of `lowering/fusions.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from autoq.graph.ir import Fusion, Step
from autoq.graph.shapes import infer_shape
from autoq.templates.epilogue import clamp_numbers


def evaluate_fusion(node: Fusion, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """The fusion's output `output_shape` for inputs of `input_shapes`."""
    values: list[np.ndarray] = [
        array.reshape(shape) for array, shape in zip(inputs, node.input_shapes, strict=True)
    ]
    values += node.constants
    for step in node.steps:
        arguments = [values[index] for index in step.arguments]
        result = STEPS[step.op](step, *arguments)
        values.append(np.asarray(result).astype(step.dtype))
    return np.ascontiguousarray(values[-1]).reshape(node.output_shape)


def _quantize(step: Step, x: np.ndarray) -> np.ndarray:
    rounded = np.rint(x / np.float32(step["scale"]))
    return clamp_numbers(rounded, step["low"], step["high"]) + step["zero_point"]


def _dequantize(step: Step, x: np.ndarray) -> np.ndarray:
    centred = (x.astype(np.int32) - step["zero_point"]).astype(np.float32)
    return centred * np.float32(step["scale"])


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float32])(x)


def _softmax(step: Step, x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=step["axis"], keepdims=True))
    return powers / powers.sum(axis=step["axis"], keepdims=True)


def _lrn(step: Step, x: np.ndarray) -> np.ndarray:
    axis, size = step["axis"], step["size"]
    before, after = (size - 1) // 2, size // 2
    edges = [(before, after) if i == axis else (0, 0) for i in range(x.ndim)]
    squares = np.pad(x * x, edges)
    total = sum(
        np.take(squares, range(shift, shift + x.shape[axis]), axis) for shift in range(size)
    )
    return x / (step["bias"] + step["alpha"] / size * total) ** step["beta"]


def _pad(step: Step, x: np.ndarray) -> np.ndarray:
    edges = list(zip(step["before"], step["after"], strict=True))
    return np.pad(x, edges, constant_values=np.asarray(step["value"]).astype(x.dtype))


def _slice(step: Step, x: np.ndarray) -> np.ndarray:
    for axis, bounds in enumerate(zip(step["starts"], step["ends"], step["steps"], strict=True)):
        x = np.take(x, range(*bounds), axis)
    return x


def _channel_shuffle(step: Step, x: np.ndarray) -> np.ndarray:
    channels, groups = x.shape[step["axis"]], step["groups"]
    order = np.arange(channels).reshape(groups, channels // groups).T.reshape(-1)
    return np.take(x, order, step["axis"])


def _conv(step: Step, x: np.ndarray, weight: np.ndarray, *bias: np.ndarray) -> np.ndarray:
    from autoq.templates.epilogue import Epilogue, pack_scalars
    from autoq.templates.operators.conv2d import Conv2d
    from autoq.templates.reference import reference

    n, c, h, w = x.shape
    k, _, r, s = weight.shape
    workload = Conv2d(
        n, h, w, c, k, r, s, step["strides"], step["pads"], step["dilations"], step["groups"],
        "float32", "float32", epilogue=Epilogue("float32"),
    )  # fmt: skip
    offsets = bias[0] if bias else np.zeros(k, np.float32)
    constants = {"weight": weight.transpose(0, 2, 3, 1), "bias": offsets, "scalars": pack_scalars()}
    return reference(workload, [x.transpose(0, 2, 3, 1)], constants).transpose(0, 3, 1, 2)


def _taps(step: Step, x: np.ndarray, outside: float) -> np.ndarray:
    """What each tap of a pool's windows reads, [taps, n, c, h, w]."""
    top, left, bottom, right = step["pads"]
    edges = [(0, 0), (0, 0), (top, bottom), (left, right)]
    padded = np.pad(x, edges, constant_values=np.asarray(outside).astype(x.dtype))
    _, _, rows, columns = infer_shape(step.op, [x.shape], dict(step.attributes))
    (stride_h, stride_w), (gap_h, gap_w) = step["strides"], step["dilations"]
    return np.stack([
        padded[:, :, i * gap_h :: stride_h, j * gap_w :: stride_w][:, :, :rows, :columns]
        for i in range(step["window"][0])
        for j in range(step["window"][1])
    ])  # fmt: skip


def _max_pool(step: Step, x: np.ndarray) -> np.ndarray:
    least = -np.inf if x.dtype == np.float32 else ml_dtypes.iinfo(x.dtype).min
    return _taps(step, x, least).max(axis=0)


def _average_pool(step: Step, x: np.ndarray) -> np.ndarray:
    counted = _taps(step, np.ones_like(x), float(step["include_pad"]))
    return _taps(step, x, 0.0).sum(axis=0) / counted.sum(axis=0)


def _gemm(step: Step, x: np.ndarray, weight: np.ndarray, *bias: np.ndarray) -> np.ndarray:
    return x @ weight.T + (bias[0] if bias else np.float32(0))


STEPS: dict[str, Callable[..., np.ndarray]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "Softmax": _softmax,
    "LRN": _lrn,
    "Pad": _pad,
    "Slice": _slice,
    "ChannelShuffle": _channel_shuffle,
    "Conv": _conv,
    "Gemm": _gemm,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "Transpose": lambda step, x: x.transpose(step["perm"]),
    "Concat": lambda step, *parts: np.concatenate(parts, axis=step["axis"]),
    "ReduceMean": lambda step, x: x.mean(axis=step["axes"], keepdims=True),
    "MatMul": lambda step, a, b: a @ b,
    "Identity": lambda step, x: x,
    "Cast": lambda step, x: x,
    "Relu": lambda step, x: np.maximum(x, 0),
    "Clip": lambda step, x: np.clip(x, step["low"], step["high"]),
    "Sigmoid": lambda step, x: 1 / (1 + np.exp(-x)),
    "HardSigmoid": lambda step, x: np.clip(step["alpha"] * x + step["beta"], 0, 1),
    "HardSwish": lambda step, x: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": lambda step, x: np.where(x < 0, np.float32(step["alpha"]) * x, x),
    "Elu": lambda step, x: np.where(x < 0, step["alpha"] * (np.exp(np.minimum(x, 0)) - 1), x),
    "Tanh": lambda step, x: np.tanh(x),
    "Exp": lambda step, x: np.exp(x),
    "Log": lambda step, x: np.log(x),
    "Sqrt": lambda step, x: np.sqrt(x),
    "Neg": lambda step, x: -x,
    "Abs": lambda step, x: np.abs(x),
    "Reciprocal": lambda step, x: 1 / x,
    "Erf": lambda step, x: _erf(x),
    "Floor": lambda step, x: np.floor(x),
    "Ceil": lambda step, x: np.ceil(x),
    "Softplus": lambda step, x: np.logaddexp(x, 0),
    "Add": lambda step, a, b: a + b,
    "Sub": lambda step, a, b: a - b,
    "Mul": lambda step, a, b: a * b,
    "Div": lambda step, a, b: a / b,
    "Pow": lambda step, a, b: a**b,
    "Min": lambda step, a, b: np.minimum(a, b),
    "Max": lambda step, a, b: np.maximum(a, b),
}
"""Meaning of each step's op; attributes are already in the layout of its arguments."""
