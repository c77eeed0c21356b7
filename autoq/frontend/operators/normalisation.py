"""Normalisations of channels, rows and neighbours, and Softmax."""

from __future__ import annotations

import math

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import constant_axes, normal_axis
from autoq.frontend.registry import OnnxNode, importer

LARGEST_LRN = 63
"""Channels that an LRN may look at: its kernel is one expression over all of them."""

LARGEST_LRN_NUMBER = 2.0**20
"""Size of an LRN's factors and exponent: sums of squares times it are ordinary numbers."""


@importer("BatchNormalization")
def batch_normalization(node: OnnxNode, b: GraphBuilder) -> str:
    """A product and a sum a channel, of constants."""
    if any(name in b.used for name in node.outputs[1:]):
        raise b.error("training outputs are used; export the model for inference")
    x = node.required(0, b)
    names = ("scale", "bias", "mean", "variance")
    scale, bias, mean, variance = (
        b.constant(node.required(i + 1, b), name).astype(np.float64) for i, name in enumerate(names)
    )
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + float(node.attributes.get("epsilon", 1e-5)))
        offset = (bias - mean * factor).astype(np.float32)
    if not (np.all(np.isfinite(factor.astype(np.float32))) and np.all(np.isfinite(offset))):
        raise b.error(
            "a factor or an offset that is NaN or infinite; a variance may not be negative, and "
            "every constant is a finite number"
        )
    shape = (-1,) + (1,) * (len(b.shape(x)) - 2)
    product = b.emit("Mul", [x, b.add_constant(factor.astype(np.float32).reshape(shape))])
    return b.emit("Add", [product, b.add_constant(offset.reshape(shape))])


@importer("LayerNormalization")
def layer_normalization(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """Rows less their mean, over the root of their variance; then a scale and a bias."""
    x = node.required(0, b)
    rank = len(b.shape(x))
    first = normal_axis(b, int(node.attributes.get("axis", -1)), rank)
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    axes = tuple(range(first, rank))
    return emit_layer_norm(b, x, axes, node.required(1, b), node.input(2), epsilon)


def emit_layer_norm(
    b: GraphBuilder, x: str, axes: tuple[int, ...], scale: str, bias: str | None, epsilon: float
) -> list[str]:
    """The normalised `x`, its means over the last axes and the reciprocals of its deviations."""
    mean = b.emit("ReduceMean", [x], axes=axes)
    centred, deviation = _centred(b, x, mean, axes, epsilon)
    y = b.emit("Mul", [b.emit("Div", [centred, deviation]), scale])
    y = y if bias is None else b.emit("Add", [y, bias])
    return [y, mean, b.emit("Reciprocal", [deviation])]


def _centred(
    b: GraphBuilder, x: str, mean: str, axes: tuple[int, ...], epsilon: float
) -> tuple[str, str]:
    """`x` less its mean, and the root of its variance plus epsilon."""
    centred = b.emit("Sub", [x, mean])
    variance = b.emit("ReduceMean", [b.emit("Mul", [centred, centred])], axes=axes)
    more = b.add_constant(np.float32(epsilon))
    return centred, b.emit("Sqrt", [b.emit("Add", [variance, more])])


@importer("RMSNormalization", "SimplifiedLayerNormalization")
def rms_normalization(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """Rows over their root mean square, then a scale."""
    x = node.required(0, b)
    rank = len(b.shape(x))
    first = normal_axis(b, int(node.attributes.get("axis", -1)), rank)
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return emit_rms_norm(b, x, tuple(range(first, rank)), node.required(1, b), epsilon)


def emit_rms_norm(
    b: GraphBuilder, x: str, axes: tuple[int, ...], scale: str, epsilon: float
) -> list[str]:
    """`x` over its root mean square times a scale, and the reciprocals of these roots."""
    square = b.emit("ReduceMean", [b.emit("Mul", [x, x])], axes=axes)
    root = b.emit("Sqrt", [b.emit("Add", [square, b.add_constant(np.float32(epsilon))])])
    return [b.emit("Mul", [b.emit("Div", [x, root]), scale]), b.emit("Reciprocal", [root])]


@importer("InstanceNormalization")
def instance_normalization(node: OnnxNode, b: GraphBuilder) -> str:
    """Each channel of each image less its mean, over its deviation; then a scale and a bias."""
    x = node.required(0, b)
    n, channels, *rest = b.shape(x)
    size = math.prod(rest)
    rows = b.emit("Reshape", [x], shape=(n, channels, size))
    mean = b.emit("ReduceMean", [rows], axes=(2,))
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    centred, deviation = _centred(b, rows, mean, (2,), epsilon)
    of_channels = [
        b.emit("Reshape", [node.required(index, b)], shape=(channels, 1)) for index in (1, 2)
    ]
    y = b.emit("Mul", [b.emit("Div", [centred, deviation]), of_channels[0]])
    return b.emit("Reshape", [b.emit("Add", [y, of_channels[1]])], shape=(n, channels, *rest))


@importer("MeanVarianceNormalization")
def mean_variance_normalization(node: OnnxNode, b: GraphBuilder) -> str:
    """Values less their mean over axes, over their deviation."""
    x = node.required(0, b)
    axes = constant_axes(node, b, len(b.shape(x)), usual=(0, 2, 3))
    centred, deviation = _centred(b, x, b.emit("ReduceMean", [x], axes=axes), axes, 0.0)
    return b.emit("Div", [centred, b.emit("Add", [deviation, b.add_constant(np.float32(1e-9))])])


@importer("LpNormalization")
def lp_normalization(node: OnnxNode, b: GraphBuilder) -> str:
    """Values over the sum of their sizes, or its root of their squares, along an axis."""
    x = node.required(0, b)
    axis = normal_axis(b, int(node.attributes.get("axis", -1)), len(b.shape(x)))
    power = int(node.attributes.get("p", 2))
    if power not in (1, 2):
        raise b.error(f"p {power}; 1 and 2 are supported")
    terms = b.emit("Abs", [x]) if power == 1 else b.emit("Mul", [x, x])
    total = b.emit("ReduceSum", [terms], axes=(axis,))
    size = total if power == 1 else b.emit("Sqrt", [total])
    zero = b.add_constant(np.float32(0))
    none = b.emit("Equal", [size, zero], "float32")  # 0 over 0 is 0
    return b.emit("Div", [x, b.emit("Add", [size, none])])


@importer("LRN")
def lrn(node: OnnxNode, b: GraphBuilder) -> str:
    """Local response normalisation across channels."""
    attributes = node.attributes
    size = int(attributes["size"])
    if not 1 <= size <= LARGEST_LRN:
        raise b.error(f"size {size}: 1 to {LARGEST_LRN} channels are supported")
    numbers = {
        name: float(attributes.get(name, default))
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    }
    for name, value in numbers.items():
        if LARGEST_LRN_NUMBER < abs(value) < math.inf:  # others are no numbers, which emit refuses
            raise b.error(f"{name} {value:.3g}: sizes up to {LARGEST_LRN_NUMBER:g} are supported")
    x = node.required(0, b)
    if len(b.shape(x)) < 2:
        raise b.error(f"input of shape {list(b.shape(x))}: [batch, channels, ...] is expected")
    return b.emit("LRN", [x], size=size, **numbers)


@importer("Softmax")
def softmax(node: OnnxNode, b: GraphBuilder) -> str:
    """Along one axis (opset 13), or over all axes from one on (before)."""
    default = 1 if b.opset < 13 else -1
    return emit_softmax(b, node.required(0, b), int(node.attributes.get("axis", default)), b.opset)


def emit_softmax(b: GraphBuilder, x: str, axis: int, opset: int) -> str:
    """A Softmax of float32 `x` with the meaning it has in `opset`."""
    shape = b.shape(x)
    axis = normal_axis(b, axis, len(shape))
    if opset >= 13 or all(size == 1 for size in shape[axis + 1 :]):
        return b.emit("Softmax", [x], axis=axis)
    flat = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    y = b.emit("Softmax", [b.emit("Reshape", [x], shape=flat)], axis=1)
    return b.emit("Reshape", [y], shape=shape)
