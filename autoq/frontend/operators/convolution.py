"""Conv and its integer forms."""

from __future__ import annotations

import dataclasses

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.dynamic import less_zero_point
from autoq.frontend.operators.qdq import (
    constant_scalar,
    dequantise,
    dequantise_bias,
    operator_scale,
    quantise,
)
from autoq.frontend.operators.windows import as_images, image_shape, padding, pair
from autoq.frontend.registry import OnnxNode, importer


@importer("Conv")
def conv(node: OnnxNode, b: GraphBuilder) -> str:
    """1-D or 2-D convolution with any stride, padding, dilation and groups."""
    if len(b.shape(node.required(0, b))) == 3:
        return as_images(node, b, conv, weights=True)
    bias = node.input(2)
    return emit_conv(node, b, node.required(0, b), node.required(1, b), bias)


def emit_conv(node: OnnxNode, b: GraphBuilder, x: str, weight: str, bias: str | None) -> str:
    """A Conv of float32 `x [n, c, h, w]` and `weight [k, c / groups, r, s]`."""
    size = image_shape(b, x)[2:]
    taps = image_shape(b, weight)[2:]
    declared = tuple(node.attributes.get("kernel_shape", taps))
    if declared != taps:
        raise b.error(f"kernel_shape {list(declared)}, but the weights are {list(taps)}")
    strides = pair(node.attributes, "strides", b)
    dilations = pair(node.attributes, "dilations", b)
    inputs = [x, weight] + ([bias] if bias is not None else [])
    filters = b.shape(weight)[0]
    if bias is not None and b.shape(bias) != (filters,):
        raise b.error(f"bias {list(b.shape(bias))} of {filters} filters")
    return b.emit(
        "Conv", inputs, "float32",
        strides=strides, dilations=dilations, groups=int(node.attributes.get("group", 1)),
        pads=padding(node.attributes, size, taps, strides, dilations, b),
    )  # fmt: skip


@importer("ConvInteger")
def conv_integer(node: OnnxNode, b: GraphBuilder) -> str:
    """int32 sums of (x - x_zero_point) * (w - w_zero_point)."""
    given = node.input(2)
    found = given is not None and given not in b.graph.constants
    zero_point = 0 if found else constant_scalar(b, given, "x_zero_point")
    integers = node.required(0, b)
    if found:
        node, integers = _filled_up(node, b, integers, given)
    x = dequantise(b, integers, np.float32(1), np.asarray(zero_point))
    weight_zero_point = node.input(3)
    zero_points = b.constant(weight_zero_point, "w_zero_point") if weight_zero_point else np.int8(0)
    weight = node.required(1, b)
    axis = 0 if np.size(zero_points) > 1 else None
    weight = dequantise(
        b, weight, np.ones(np.shape(zero_points), np.float32), np.asarray(zero_points), axis
    )
    sums = emit_conv(node, b, x, weight, None)
    if given is None or not found:
        return b.emit("Cast", [sums], "int32")
    filters = b.constant(weight, "weights")  # less their zero points, by a scale of 1
    columns = filters.reshape(len(filters), -1).T.astype(np.int64)
    return less_zero_point(b, sums, given, columns, pixels=True)


def _filled_up(node: OnnxNode, b: GraphBuilder, x: str, zero_point: str) -> tuple[OnnxNode, str]:
    """The node without padding, and its image with a zero point that a run gives as the border."""
    size, taps = image_shape(b, x)[2:], image_shape(b, node.required(1, b))[2:]
    strides, dilations = (pair(node.attributes, name, b) for name in ("strides", "dilations"))
    top, left, bottom, right = padding(node.attributes, size, taps, strides, dilations, b)
    attributes = {k: v for k, v in node.attributes.items() if k not in ("pads", "auto_pad")}
    node = dataclasses.replace(node, attributes=attributes)
    if not any((top, left, bottom, right)):
        return node, x
    before, after = (0, 0, top, left), (0, 0, bottom, right)
    wide = b.emit("Pad", [x], before=before, after=after, value=0.0)
    inside = np.pad(np.ones(size, np.float32), ((top, bottom), (left, right)))
    border = b.emit("Reshape", [zero_point], shape=())
    return node, b.emit("Where", [b.add_constant(inside), wide, border], b.dtype(x))


@importer("QLinearConv")
def qlinear_conv(node: OnnxNode, b: GraphBuilder) -> str:
    """DequantizeLinear of x, weights and bias, Conv, QuantizeLinear."""
    x_scale = operator_scale(b, node.required(1, b), "x_scale")
    x = dequantise(b, node.required(0, b), x_scale, b.constant(node.required(2, b), "zero point"))
    w_scale = operator_scale(b, node.required(4, b), "w_scale")
    weight = dequantise(
        b, node.required(3, b), w_scale, b.constant(node.required(5, b), "w_zero_point"),
        axis=0 if w_scale.size > 1 else None,
    )  # fmt: skip
    bias = node.input(8)
    if bias is not None:
        bias = dequantise_bias(b, bias, x_scale, w_scale)
    y = emit_conv(node, b, x, weight, bias)
    scale = operator_scale(b, node.required(6, b), "y_scale")
    return quantise(b, y, scale, b.constant(node.required(7, b), "y_zero_point"))
