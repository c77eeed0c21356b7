"""QOperator forms of other operators (com.microsoft), as onnxruntime.quantization writes them.

Each becomes DequantizeLinear, the float operator, QuantizeLinear.
"""

from __future__ import annotations

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import emit_concat, normal_axis
from autoq.frontend.operators.normalisation import emit_softmax
from autoq.frontend.operators.pooling import emit_average_pool, emit_global_average
from autoq.frontend.operators.qdq import dequantise, operator_scale, quantise
from autoq.frontend.registry import OnnxNode, importer

MICROSOFT = "com.microsoft"


def _dequantised(node: OnnxNode, b: GraphBuilder, index: int) -> str:
    """Inputs index, index + 1, index + 2 are integers, scale and zero point."""
    scale = operator_scale(b, node.required(index + 1, b), "scale").reshape(())
    zero_point = _zero_point(node, b, index + 2, b.dtype(node.required(index, b)))
    return dequantise(b, node.required(index, b), scale, zero_point)


def _zero_point(node: OnnxNode, b: GraphBuilder, index: int, dtype: str) -> np.ndarray:
    name = node.input(index)
    return np.zeros((), dtype) if name is None else b.constant(name, "zero point").reshape(())


def _quantised(node: OnnxNode, b: GraphBuilder, y: str, index: int, dtype: str) -> str:
    """Inputs index and index + 1 are the output's scale and zero point."""
    scale = operator_scale(b, node.required(index, b), "scale").reshape(())
    return quantise(b, y, scale, _zero_point(node, b, index + 1, dtype))


@importer("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_binary(node: OnnxNode, b: GraphBuilder) -> str:
    """Sum or product of two quantised tensors."""
    op = node.op.removeprefix("QLinear")
    y = b.emit(op, [_dequantised(node, b, 0), _dequantised(node, b, 3)])
    return _quantised(node, b, y, 6, b.dtype(node.required(0, b)))


@importer("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", domain=MICROSOFT)
def qlinear_unary(node: OnnxNode, b: GraphBuilder) -> str:
    """Functions of one quantised tensor."""
    x = _dequantised(node, b, 0)
    if node.op == "QLinearSigmoid":
        y = b.emit("Sigmoid", [x])
    elif node.op == "QLinearLeakyRelu":
        y = b.emit("LeakyRelu", [x], alpha=float(node.attributes.get("alpha", 0.01)))
    else:
        y = _softmax(node, b, x)
    return _quantised(node, b, y, 3, b.dtype(node.required(0, b)))


def _softmax(node: OnnxNode, b: GraphBuilder, x: str) -> str:
    """A Softmax; without `axis` it is over the last axis in every opset, unlike ONNX's.

    onnxruntime.quantization leaves ONNX's old default (1) out, so its model of images [n, c, 1, 1]
    normalises single elements: each becomes 1. Before onnxruntime 1.32 its uint8 outputs were 0
    there, for an overflow in its table of powers.
    """
    axis = int(node.attributes.get("axis", -1))
    opset = int(node.attributes.get("opset", b.opset))
    return emit_softmax(b, x, axis, opset)


@importer("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_pool(node: OnnxNode, b: GraphBuilder) -> str:
    """Averages, NCHW or with `channels_last` NHWC."""
    x = _dequantised(node, b, 0)
    last = node.flag("channels_last", b)
    if last:
        x = b.emit("Transpose", [x], perm=(0, 3, 1, 2))
    if node.op == "QLinearAveragePool":
        y = emit_average_pool(node, b, x)
    else:
        y = emit_global_average(b, x)
    if last:
        y = b.emit("Transpose", [y], perm=(0, 2, 3, 1))
    return _quantised(node, b, y, 3, b.dtype(node.required(0, b)))


@importer("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node: OnnxNode, b: GraphBuilder) -> str:
    """Inputs are the output's scale and zero point, then three of each part."""
    parts = [_dequantised(node, b, index) for index in range(2, len(node.inputs), 3)]
    axis = normal_axis(b, int(node.attributes["axis"]), len(b.shape(parts[0])))
    y = emit_concat(b, parts, axis)
    return _quantised(node, b, y, 0, b.dtype(node.required(2, b)))
