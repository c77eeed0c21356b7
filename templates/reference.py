"""What every workload computes, in numpy: the oracle that candidates are checked against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.templates.base import Operands
from autoq.templates.epilogue import apply_epilogue, clamp_numbers
from autoq.templates.layout import from_nhwc, to_nhwc
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.operators.relayout import Relayout
from autoq.templates.storage import value_dtype
from autoq.templates.table import look_up
from autoq.templates.workload import Workload


def reference(
    workload: Workload, activations: Sequence[np.ndarray], operands: Operands
) -> np.ndarray:
    """The workload's output, contiguous, for activations in the order of a template's parameters.

    Integer results are exact (products are summed in float64, exact below 2**53). Four-bit arrays
    are unpacked, int8 for int4 and uint8 for uint4.
    """
    if isinstance(workload, Gemm):
        return _gemm(workload, activations, operands)
    function = {
        Conv2d: _conv2d,
        Pool2d: _pool2d,
        Add: _add,
        Concat: _concat,
        Quantize: _quantize,
        Dequantize: _dequantize,
        Lookup: _lookup,
        Relayout: _relayout,
    }[type(workload)]
    return np.ascontiguousarray(function(workload, activations, operands))


def _gemm(workload: Gemm, activations: Sequence[np.ndarray], operands: Operands) -> np.ndarray:
    as_images = [array.reshape(workload.m, 1, 1, -1) for array in activations]
    weight = np.asarray(operands["weight"]).reshape(workload.n, 1, 1, workload.k)
    y = _conv2d(workload.as_conv2d(), as_images, {**operands, "weight": weight})
    return y.reshape(workload.y_shape)


def _accumulate(workload: Conv2d, x: np.ndarray, weight: np.ndarray, outside: int) -> np.ndarray:
    """Convolution of images `[n, h, w, c]` in float64, `[n, p, q, k]`."""
    top, left, bottom, right = workload.padding
    padded = np.pad(
        x.astype(np.float64),
        ((0, 0), (top, bottom), (left, right), (0, 0)),
        constant_values=outside,
    )
    (stride_h, stride_w), (dilation_h, dilation_w) = workload.stride, workload.dilation
    group_c, group_k = workload.c // workload.groups, workload.k // workload.groups
    out = np.zeros((len(x), workload.p, workload.q, workload.k))
    for row in range(workload.r):
        for column in range(workload.s):
            first_h, first_w = row * dilation_h, column * dilation_w
            window = padded[
                :,
                first_h : first_h + (workload.p - 1) * stride_h + 1 : stride_h,
                first_w : first_w + (workload.q - 1) * stride_w + 1 : stride_w,
            ]
            tap = weight[:, row, column].astype(np.float64)
            for group in range(workload.groups):
                channels = slice(group * group_c, (group + 1) * group_c)
                filters = slice(group * group_k, (group + 1) * group_k)
                out[..., filters] += window[..., channels] @ tap[filters].T
    return out


def activations_in_nhwc(workload: Conv2d, activations: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The activations of a convolution as those of `workload.in_nhwc`."""
    layouts = (workload.in_layout, workload.out_layout)
    return [to_nhwc(array, layout) for array, layout in zip(activations, layouts, strict=False)]


def _conv2d(workload: Conv2d, activations: Sequence[np.ndarray], operands: Operands) -> np.ndarray:
    if workload != workload.in_nhwc:
        images = activations_in_nhwc(workload, activations)
        y = _conv2d(workload.in_nhwc, images, operands)
        return from_nhwc(y, workload.out_layout, workload.epilogue.out_dtype)
    x = activations[0]
    residual = activations[1] if workload.epilogue.residual_dtype else None
    integer = workload.in_dtype != "float32"
    weight = np.asarray(operands["weight"])
    zero_point = int(operands.get("x_zero_point", 0)) if integer else 0
    y = np.empty(workload.y_shape, value_dtype(workload.epilogue.out_dtype))
    for image in range(workload.n):  # one image at a time keeps the float64 copies small
        total = _accumulate(workload, x[image : image + 1], weight, zero_point)
        if integer:
            total -= zero_point * weight.astype(np.float64).sum(axis=(1, 2, 3))
        y[image] = apply_epilogue(
            workload.epilogue,
            total.astype(np.int32 if integer else np.float32),
            np.asarray(operands["bias"]),
            operands.get("scale"),
            np.asarray(operands["scalars"]),
            None if residual is None else residual[image : image + 1],
            operands.get("table"),
        )[0]
    return y


def _requantize(value: np.ndarray, low: float, high: float, zero_point: float) -> np.ndarray:
    return clamp_numbers(np.rint(value), low, high) + zero_point


def _pool2d(workload: Pool2d, activations: Sequence[np.ndarray], operands: Operands) -> np.ndarray:
    zero_point, scale, low, high, out_zero_point = np.asarray(operands["scalars"], np.float32)
    top, left, bottom, right = workload.padding
    maximum = workload.kind == "max"
    integer = workload.in_dtype != "float32"
    x = activations[0].astype(np.float64) - (zero_point if integer else 0.0)
    edges = ((0, 0), (top, bottom), (left, right), (0, 0))
    x = np.pad(x, edges, constant_values=-np.inf if maximum else 0.0)
    inside = np.pad(np.ones((1, workload.h, workload.w, 1)), edges)
    total = np.full(workload.y_shape, -np.inf if maximum else 0.0)
    count = np.zeros((1, workload.p, workload.q, 1))
    for row in range(workload.r):
        for column in range(workload.s):
            rows = slice(row, row + (workload.p - 1) * workload.stride[0] + 1, workload.stride[0])
            columns = slice(
                column, column + (workload.q - 1) * workload.stride[1] + 1, workload.stride[1]
            )
            window = x[:, rows, columns]
            total = np.maximum(total, window) if maximum else total + window
            count += inside[:, rows, columns]
    if workload.count_include_pad:
        count[:] = workload.r * workload.s
    value = total.astype(np.float32)
    if not integer:
        value = value if maximum else value / count.astype(np.float32)
        return np.clip(value, low, high).astype(np.float32)
    if maximum and not workload.requantize:
        return (value + zero_point).astype(value_dtype(workload.out_dtype))
    factor = scale if maximum else scale / count.astype(np.float32)
    value = _requantize(value * factor, low, high, out_zero_point)
    return value.astype(value_dtype(workload.out_dtype))


def _add(workload: Add, activations: Sequence[np.ndarray], operands: Operands) -> np.ndarray:
    a, b = (array.astype(np.float32) for array in activations)
    scalars = np.asarray(operands["scalars"], np.float32)
    a_zero_point, a_scale, b_zero_point, b_scale, low, high, zero_point = scalars
    if workload.out_dtype == "float32":
        return np.clip(a + b, low, high)
    value = (a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale
    return _requantize(value, low, high, zero_point).astype(value_dtype(workload.out_dtype))


def _concat(workload: Concat, activations: Sequence[np.ndarray], operands: Operands) -> np.ndarray:
    parts = []
    rows = np.asarray(operands["scalars"], np.float32)
    for x, row, requantize in zip(activations, rows, workload.requantize, strict=True):
        x = x.reshape(workload.outer, -1)
        if requantize:
            x_zero_point, scale, low, high, zero_point = row
            value = (x.astype(np.float32) - x_zero_point) * scale
            x = _requantize(value, low, high, zero_point)
        parts.append(x.astype(value_dtype(workload.out_dtype)))
    return np.concatenate(parts, axis=1)


def _quantize(
    workload: Quantize, activations: Sequence[np.ndarray], operands: Operands
) -> np.ndarray:
    scale, low, high, zero_point = np.asarray(operands["scalars"], np.float32)
    x = activations[0]
    if workload.layout == "NCHW":
        x = x.transpose(0, 2, 3, 1)
    values = _requantize(x / scale, low, high, zero_point).astype(value_dtype(workload.out_dtype))
    n, h, w, _ = workload.y_shape
    block = workload.block
    blocks = values.reshape(n, h, block, w, block, workload.c).transpose(0, 1, 3, 2, 4, 5)
    y = np.full(workload.y_shape, zero_point, value_dtype(workload.out_dtype))
    y[..., : block * block * workload.c] = blocks.reshape(n, h, w, -1)
    return y


def _dequantize(
    workload: Dequantize, activations: Sequence[np.ndarray], operands: Operands
) -> np.ndarray:
    zero_point, scale = np.asarray(operands["scalars"], np.float32)
    y = (activations[0].astype(np.float32) - zero_point) * scale
    return y.transpose(0, 3, 1, 2) if workload.layout == "NCHW" else y


def _lookup(workload: Lookup, activations: Sequence[np.ndarray], operands: Operands) -> np.ndarray:
    table = np.asarray(operands["table"])
    return look_up(table, activations[0]).astype(value_dtype(workload.out_dtype))


def _relayout(
    workload: Relayout, activations: Sequence[np.ndarray], operands: Operands
) -> np.ndarray:
    images = to_nhwc(activations[0], workload.in_layout)
    return from_nhwc(images, workload.out_layout, workload.in_dtype)
