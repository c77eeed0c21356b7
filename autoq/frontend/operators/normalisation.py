"""BatchNormalization, LayerNormalization, LRN and Softmax."""

from __future__ import annotations

import math

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import normal_axis
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
def layer_normalization(node: OnnxNode, b: GraphBuilder) -> str:
    """Rows less their mean, over the root of their variance; then a scale and a bias."""
    x = node.required(0, b)
    rank = len(b.shape(x))
    first = normal_axis(b, int(node.attributes.get("axis", -1)), rank)
    axes = tuple(range(first, rank))
    epsilon = b.add_constant(np.float32(node.attributes.get("epsilon", 1e-5)))
    centred = b.emit("Sub", [x, b.emit("ReduceMean", [x], axes=axes)])
    variance = b.emit("ReduceMean", [b.emit("Mul", [centred, centred])], axes=axes)
    deviation = b.emit("Sqrt", [b.emit("Add", [variance, epsilon])])
    y = b.emit("Mul", [b.emit("Div", [centred, deviation]), node.required(1, b)])
    bias = node.input(2)
    return y if bias is None else b.emit("Add", [y, bias])


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
    return b.emit("LRN", [node.required(0, b)], size=size, **numbers)


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
