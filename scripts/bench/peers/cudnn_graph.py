"""The int8 convolution as a cuDNN operation graph, its requantisation in one of two ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

from autoq.templates.operators.conv2d import Conv2d
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

_ALIGNMENT = 16


class Tensor(IntEnum):
    """Unique ids of the tensors in device memory; those between operations follow them."""

    X = 1
    WEIGHT = 2
    Y = 3
    SCALE = 4
    RESIDUAL = 5
    ZEROS = 6


def scaled_convolution(workload: Conv2d, alpha: float, handle: Handle) -> Descriptor:
    """y = alpha * conv(x, weight) [+ residual + zeros], which has kernels compiled beforehand.

    Those with a residual want a float32 bias of each channel too. Raises LibraryError for what
    cuDNN refuses.
    """
    if not workload.epilogue.residual_dtype:
        return operations([_forward(workload, _y(workload), alpha)], handle)
    n, p, q, k = workload.y_shape
    y_dims = (n, k, p, q)
    between = len(Tensor) + 1
    sums = _tensor(between, y_dims, DataType.INT32, virtual=True)
    added = _tensor(between + 1, y_dims, DataType.FLOAT, virtual=True)
    residual = _tensor(Tensor.RESIDUAL, y_dims, DataType.INT8)
    zeros = _tensor(Tensor.ZEROS, (1, k, 1, 1), DataType.FLOAT)
    ops = [
        _forward(workload, sums, 1.0),
        _pointwise(PointwiseMode.ADD, sums, residual, added, alpha),
        _pointwise(PointwiseMode.ADD, added, zeros, _y(workload)),
    ]
    return operations(ops, handle)


def channel_scaled_convolution(workload: Conv2d, handle: Handle) -> Descriptor:
    """y = conv(x, weight) * scale [+ residual], a float32 scale of each channel.

    Raises LibraryError for what cuDNN refuses.
    """
    n, p, q, k = workload.y_shape
    y_dims = (n, k, p, q)
    steps = [(PointwiseMode.MUL, _tensor(Tensor.SCALE, (1, k, 1, 1), DataType.FLOAT))]
    if workload.epilogue.residual_dtype:
        steps.append((PointwiseMode.ADD, _tensor(Tensor.RESIDUAL, y_dims, DataType.INT8)))
    between = len(Tensor) + 1
    value = _tensor(between, y_dims, DataType.INT32, virtual=True)
    ops = [_forward(workload, value, 1.0)]
    for index, (mode, operand) in enumerate(steps):
        result = (
            _y(workload)
            if index == len(steps) - 1
            else _tensor(between + 1 + index, y_dims, DataType.FLOAT, virtual=True)
        )
        ops.append(_pointwise(mode, value, operand, result))
        value = result
    return operations(ops, handle)


def _y(workload: Conv2d) -> Descriptor:
    n, p, q, k = workload.y_shape
    return _tensor(Tensor.Y, (n, k, p, q), DataType.INT8)


def _forward(workload: Conv2d, y: Descriptor, alpha: float) -> Descriptor:
    x = _tensor(Tensor.X, (workload.n, workload.c, workload.h, workload.w), DataType.INT8)
    # cuDNN knows groups by the channels of a filter, which are fewer than x has.
    filters = (workload.k, workload.c // workload.groups, workload.r, workload.s)
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
    operation.set(Attribute.FORWARD_ALPHA, alpha).set(Attribute.FORWARD_BETA, 0.0)
    return operation.finalize()


def _pointwise(
    mode: PointwiseMode, x: Descriptor, b: Descriptor, y: Descriptor, alpha: float | None = None
) -> Descriptor:
    """y = x `mode` b, or alpha * x `mode` b."""
    function = Descriptor(Kind.POINTWISE)
    function.set(Attribute.POINTWISE_MODE, mode)
    function.set(Attribute.POINTWISE_MATH_PRECISION, DataType.FLOAT)
    operation = Descriptor(Kind.OPERATION_POINTWISE)
    operation.set(Attribute.PW_DESCRIPTOR, function.finalize())
    operation.set(Attribute.PW_X, x).set(Attribute.PW_B, b).set(Attribute.PW_Y, y)
    if alpha is not None:
        operation.set(Attribute.PW_ALPHA_X, alpha).set(Attribute.PW_ALPHA_B, 1.0)
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
