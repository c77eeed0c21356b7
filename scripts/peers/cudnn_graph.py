"""The int8 convolution as a cuDNN operation graph, its requantisation in one of several ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

from autoq.templates.workload import Conv2d
from peers.cudnn_backend import (
    CROSS_CORRELATION,
    Attribute,
    DataType,
    Descriptor,
    Handle,
    Kind,
    PointwiseMode,
    operations,
)


class Tensor(IntEnum):
    """Unique ids of the tensors in device memory; those between operations follow them."""

    X = 1
    WEIGHT = 2
    Y = 3
    SCALE = 4
    BIAS = 5
    RESIDUAL = 6


EPILOGUES = ("scale", "scale+bias")
"""What stands between accumulator and int8 output: a factor, or a factor and a term, of each
channel, in float32. A residual is added behind."""

_ACCUMULATOR = DataType.INT32
_ALIGNMENT = 16


def epilogue_tensors(epilogue: str, workload: Conv2d) -> tuple[Tensor, ...]:
    """The operands of a requantisation."""
    bias = (Tensor.BIAS,) if epilogue == "scale+bias" else ()
    residual = (Tensor.RESIDUAL,) if workload.epilogue.residual_dtype else ()
    return (Tensor.SCALE, *bias, *residual)


def convolution_graph(workload: Conv2d, epilogue: str, handle: Handle) -> Descriptor:
    """conv(x, weight), requantised with `epilogue`; raises PeerError for what cuDNN refuses."""
    n, p, q, k = workload.y_shape
    y_dims = (n, k, p, q)
    channel = (1, k, 1, 1)
    steps = [(PointwiseMode.MUL, _tensor(Tensor.SCALE, channel, DataType.FLOAT))]
    if Tensor.BIAS in epilogue_tensors(epilogue, workload):
        steps.append((PointwiseMode.ADD, _tensor(Tensor.BIAS, channel, DataType.FLOAT)))
    if workload.epilogue.residual_dtype:
        steps.append((PointwiseMode.ADD, _tensor(Tensor.RESIDUAL, y_dims, DataType.INT8)))
    between = len(Tensor) + 1
    value = _tensor(between, y_dims, _ACCUMULATOR, virtual=True)
    ops = [_forward(workload, value)]
    for index, (mode, operand) in enumerate(steps):
        last = index == len(steps) - 1
        result = (
            _tensor(Tensor.Y, y_dims, DataType.INT8)
            if last
            else _tensor(between + 1 + index, y_dims, DataType.FLOAT, virtual=True)
        )
        ops.append(_pointwise(mode, value, operand, result))
        value = result
    return operations(ops, handle)


def _forward(workload: Conv2d, y: Descriptor) -> Descriptor:
    x = _tensor(Tensor.X, (workload.n, workload.c, workload.h, workload.w), DataType.INT8)
    filters = (workload.k, workload.c, workload.r, workload.s)
    weight = _tensor(Tensor.WEIGHT, filters, DataType.INT8)
    top, left, bottom, right = workload.padding
    convolution = Descriptor(Kind.CONVOLUTION)
    convolution.set(Attribute.CONVOLUTION_COMPUTE_TYPE, DataType.INT32)
    convolution.set(Attribute.CONVOLUTION_MODE, CROSS_CORRELATION)
    convolution.set(Attribute.CONVOLUTION_SPATIAL_DIMS, 2)
    convolution.set(Attribute.CONVOLUTION_DILATIONS, *workload.dilation)
    convolution.set(Attribute.CONVOLUTION_STRIDES, *workload.stride)
    convolution.set(Attribute.CONVOLUTION_PRE_PADDINGS, top, left)
    convolution.set(Attribute.CONVOLUTION_POST_PADDINGS, bottom, right)
    operation = Descriptor(Kind.OPERATION_CONVOLUTION_FORWARD)
    operation.set(Attribute.FORWARD_CONVOLUTION, convolution.finalize())
    operation.set(Attribute.FORWARD_X, x).set(Attribute.FORWARD_W, weight)
    operation.set(Attribute.FORWARD_Y, y)
    operation.set(Attribute.FORWARD_ALPHA, 1.0).set(Attribute.FORWARD_BETA, 0.0)
    return operation.finalize()


def _pointwise(mode: PointwiseMode, x: Descriptor, b: Descriptor, y: Descriptor) -> Descriptor:
    function = Descriptor(Kind.POINTWISE)
    function.set(Attribute.POINTWISE_MODE, mode)
    function.set(Attribute.POINTWISE_MATH_PRECISION, DataType.FLOAT)
    operation = Descriptor(Kind.OPERATION_POINTWISE)
    operation.set(Attribute.PW_DESCRIPTOR, function.finalize())
    operation.set(Attribute.PW_X, x).set(Attribute.PW_B, b).set(Attribute.PW_Y, y)
    return operation.finalize()


def _tensor(number: int, dims: Sequence[int], dtype: DataType, virtual: bool = False) -> Descriptor:
    """A tensor of dims (n, c, h, w) in NHWC order of memory."""
    _, c, h, w = dims
    strides = (math.prod((c, h, w)), 1, c * w, c)
    tensor = Descriptor(Kind.TENSOR)
    tensor.set(Attribute.TENSOR_UNIQUE_ID, number).set(Attribute.TENSOR_DATA_TYPE, dtype)
    tensor.set(Attribute.TENSOR_DIMENSIONS, *dims).set(Attribute.TENSOR_STRIDES, *strides)
    tensor.set(Attribute.TENSOR_ALIGNMENT, _ALIGNMENT)
    tensor.set(Attribute.TENSOR_IS_VIRTUAL, virtual)
    return tensor.finalize()
