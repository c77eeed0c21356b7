"""Packing of a convolution's constants into the order in which its tiles read them."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.borders.bias import bias_rows
from autoq.templates.borders.group_biases import group_biases
from autoq.templates.cpu.conv.tiling import ConvTiling
from autoq.templates.workload import Constants


def pack_conv(tiling: ConvTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The kernel's constants: weight, bias, scale and float bias (unless absent), scalars, fill.

    weight: `tiling.weight_shape`; bias, scale and float bias: `tiling.lanes_shape`, the first two
    once for each group of scales, the bias once for each kind of border where it differs; fill,
    where there are copies: [1], the value of a pixel outside the image. The zero point is folded
    into the bias: with u the activation as the kernel multiplies it and f the fill,
    `sum((u - f) * w) = sum(u * w) - f * sum(w)`.
    """
    conv = tiling.conv
    weight = np.asarray(constants["weight"]).reshape(conv.weight_shape)
    integer = conv.in_dtype != "float32"
    bias = np.asarray(constants["bias"])
    fill = (int(constants.get("x_zero_point", 0)) + tiling.dot.signed_shift) if integer else 0
    packed = [pack_weight(tiling, weight)]
    if conv.border_bias:
        sums = weight.reshape(conv.k, -1).sum(axis=1, dtype=np.int64)
        table = (bias - fill * sums).astype(np.int32).reshape(-1, conv.k)
        packed.append(np.stack([pack_lanes(tiling, one) for one in table]))
    elif integer:
        packed.append(pack_groups(tiling, group_biases(conv, weight, bias, fill)))
    else:
        packed.append(pack_lanes(tiling, bias))
    if integer and conv.epilogue.out_dtype != "int32":
        scale = np.asarray(constants["scale"], np.float32).reshape(conv.k, -1)
        packed.append(pack_groups(tiling, scale.T))
    if conv.epilogue.float_bias:
        packed.append(pack_lanes(tiling, np.asarray(constants["float_bias"], np.float32)))
    packed.append(np.asarray(constants["scalars"], np.float32).reshape(8))
    if tiling.copies:
        packed.append(np.array([fill]).astype(tiling.scratch_dtype))
    return tuple(packed)


def packed_conv(tiling: ConvTiling) -> tuple[TensorSpec, ...]:
    """What `pack_conv` gives."""
    conv = tiling.conv
    weight = TensorSpec("weight", tiling.weight_shape, tiling.weight_dtype)
    each = (tiling.scale_groups,) if conv.epilogue.scale_group else ()
    lanes = (*each, *tiling.lanes_shape)
    biases = (bias_rows(conv), *lanes) if conv.border_bias else lanes
    specs = [weight, TensorSpec("bias", biases, tiling.dot.accumulator)]
    if conv.in_dtype != "float32" and conv.epilogue.out_dtype != "int32":
        specs.append(TensorSpec("scale", lanes, "float32"))
    if conv.epilogue.float_bias:
        specs.append(TensorSpec("float_bias", tiling.lanes_shape, "float32"))
    specs.append(TensorSpec("scalars", (8,), "float32"))
    if tiling.copies:
        specs.append(TensorSpec("fill", (1,), tiling.scratch_dtype))
    return tuple(specs)


def pack_weight(tiling: ConvTiling, weight: np.ndarray) -> np.ndarray:
    """Weight [k, r, s, c / groups] as `tiling.weight_shape`; what does not exist is 0."""
    dot = tiling.dot
    rows, columns, elements = tiling.reduction
    grouped = weight.reshape(tiling.groups, tiling.filters, rows, columns, elements)
    padding = tiling.steps * dot.depth - elements
    if padding:
        grouped = np.pad(grouped, ((0, 0),) * 4 + ((0, padding),))
    split = grouped.reshape(*grouped.shape[:4], tiling.steps, dot.depth)
    lanes = split[:, tiling.channels_of_lanes]  # [groups, tiles, vectors, lanes, r, s, step, depth]
    if tiling.filters < dot.lanes:
        lanes[:, :, :, tiling.filters :] = 0
    ordered = lanes.transpose(0, 1, 4, 5, 6, 2, 3, 7)
    return np.ascontiguousarray(ordered).reshape(tiling.weight_shape).astype(tiling.weight_dtype)


def pack_lanes(tiling: ConvTiling, values: np.ndarray) -> np.ndarray:
    """Values [k] by channel tile and lane, `tiling.lanes_shape`."""
    grouped = values.reshape(tiling.groups, tiling.filters)
    return np.ascontiguousarray(grouped[:, tiling.channels_of_lanes]).reshape(tiling.lanes_shape)


def pack_groups(tiling: ConvTiling, values: np.ndarray) -> np.ndarray:
    """`pack_lanes` of numbers [groups, k]: of each group of scales, or of the only one."""
    packed = np.stack([pack_lanes(tiling, one) for one in values])
    return packed if tiling.conv.epilogue.scale_group else packed[0]
