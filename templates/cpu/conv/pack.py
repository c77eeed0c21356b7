"""Packing of a convolution's constants into the order in which its tiles read them."""

from __future__ import annotations

import numpy as np

from autoq.templates.cpu.conv.layout import ConvLayout
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants


def pack_conv(layout: ConvLayout, constants: Constants) -> tuple[np.ndarray, ...]:
    """The kernel's constants: weight, bias, scale (unless absent), scalars, fill (when copied).

    weight: `layout.weight_shape`; bias and scale: `layout.lanes_shape`; fill: [1], the value of
    a pixel outside the image. The zero point is folded into the bias: with u the activation as
    the kernel multiplies it and f the fill, `sum((u - f) * w) = sum(u * w) - f * sum(w)`.
    """
    conv = layout.conv
    weight = np.asarray(constants["weight"]).reshape(conv.weight_shape)
    integer = conv.in_dtype != "float32"
    bias = np.asarray(constants["bias"]).reshape(conv.k)
    fill = (int(constants.get("x_zero_point", 0)) + layout.dot.signed_shift) if integer else 0
    if integer:
        sums = weight.reshape(conv.k, -1).sum(axis=1, dtype=np.int64)
        bias = (bias.astype(np.int64) - fill * sums).astype(np.int32)
    packed = [pack_weight(layout, weight), pack_lanes(layout, bias)]
    if integer and conv.epilogue.out_dtype != "int32":
        scale = np.asarray(constants["scale"], np.float32).reshape(conv.k)
        packed.append(pack_lanes(layout, scale))
    packed.append(np.asarray(constants["scalars"], np.float32).reshape(8))
    if layout.copies:
        packed.append(np.array([fill]).astype(layout.scratch_dtype))
    return tuple(packed)


def packed_conv(layout: ConvLayout) -> tuple[TensorSpec, ...]:
    """What `pack_conv` gives."""
    conv = layout.conv
    weight = TensorSpec("weight", layout.weight_shape, layout.weight_dtype)
    specs = [weight, TensorSpec("bias", layout.lanes_shape, layout.dot.accumulator)]
    if conv.in_dtype != "float32" and conv.epilogue.out_dtype != "int32":
        specs.append(TensorSpec("scale", layout.lanes_shape, "float32"))
    specs.append(TensorSpec("scalars", (8,), "float32"))
    if layout.copies:
        specs.append(TensorSpec("fill", (1,), layout.scratch_dtype))
    return tuple(specs)


def pack_weight(layout: ConvLayout, weight: np.ndarray) -> np.ndarray:
    """Weight [k, r, s, c / groups] as `layout.weight_shape`; what does not exist is 0."""
    dot = layout.dot
    rows, columns, elements = layout.reduction
    grouped = weight.reshape(layout.groups, layout.filters, rows, columns, elements)
    padding = layout.steps * dot.depth - elements
    if padding:
        grouped = np.pad(grouped, ((0, 0),) * 4 + ((0, padding),))
    split = grouped.reshape(*grouped.shape[:4], layout.steps, dot.depth)
    lanes = split[:, layout.channels_of_lanes]  # [groups, tiles, vectors, lanes, r, s, step, depth]
    if layout.filters < dot.lanes:
        lanes[:, :, :, layout.filters :] = 0
    ordered = lanes.transpose(0, 1, 4, 5, 6, 2, 3, 7)
    return np.ascontiguousarray(ordered).reshape(layout.weight_shape).astype(layout.weight_dtype)


def pack_lanes(layout: ConvLayout, values: np.ndarray) -> np.ndarray:
    """Values [k] by channel tile and lane, `layout.lanes_shape`."""
    grouped = values.reshape(layout.groups, layout.filters)
    return np.ascontiguousarray(grouped[:, layout.channels_of_lanes]).reshape(layout.lanes_shape)
