"""Strides, dilations and padding as convolutions and pools write them in ONNX."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.registry import Importer, OnnxNode

Pair = tuple[int, int]
Edges = tuple[int, int, int, int]

LARGEST = 2**15 - 1
"""Largest stride, dilation, window and padding: kernels index pixels by 32-bit integers."""


def pair(attributes: Mapping[str, Any], name: str, b: GraphBuilder, default: int = 1) -> Pair:
    """A two-number attribute, each 1 to LARGEST; raises ModelError for anything else."""
    values = tuple(attributes.get(name, (default, default)))
    if len(values) != 2:
        raise b.error(f"{name} {list(values)}: only 2-D images [n, c, h, w] are supported")
    if not all(1 <= value <= LARGEST for value in values):
        raise b.error(f"{name} {list(values)}: 1 to {LARGEST} is supported")
    return values


_OF_AXES = ("strides", "dilations", "kernel_shape", "output_padding", "output_shape")
_NEUTRAL = {"output_padding": 0}


def as_images(
    node: OnnxNode, b: GraphBuilder, function: Importer, weights: bool = False
) -> str:  # fmt: skip
    """A node over signals [n, c, length] as one over images of one row, by the same importer.

    weights: whether its second input has a row as well.
    """
    attributes = dict(node.attributes)
    for name in _OF_AXES:
        if len(attributes.get(name, ())) == 1:
            attributes[name] = [_NEUTRAL.get(name, 1), *attributes[name]]
    if len(attributes.get("pads", ())) == 2:
        before, after = attributes["pads"]
        attributes["pads"] = [0, before, 0, after]
    inputs = list(node.inputs)
    for index in range(2 if weights else 1):
        outer, channels, length = b.shape(node.required(index, b))
        inputs[index] = b.emit("Reshape", [inputs[index]], shape=(outer, channels, 1, length))
    y = function(dataclasses.replace(node, inputs=tuple(inputs), attributes=attributes), b)
    if not isinstance(y, str):
        (y,) = y
    n, channels, _, length = b.shape(y)
    return b.emit("Reshape", [y], shape=(n, channels, length))


def image_shape(b: GraphBuilder, name: str) -> tuple[int, int, int, int]:
    """Shape of a 4-D input; raises ModelError for another rank."""
    shape = b.shape(name)
    if len(shape) != 4:
        raise b.error(f"input {list(shape)}: only 2-D images [n, c, h, w] are supported")
    return shape


def padding(
    attributes: Mapping[str, Any], size: Pair, window: Pair, stride: Pair, dilation: Pair,
    b: GraphBuilder,
) -> Edges:  # fmt: skip
    """(top, left, bottom, right) from `pads` or `auto_pad`."""
    mode = attributes.get("auto_pad", "NOTSET")
    if mode == "VALID":
        return (0, 0, 0, 0)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for extent, taps, step, gap in zip(size, window, stride, dilation, strict=True):
            reach = gap * (taps - 1) + 1
            total = (-(-extent // step) - 1) * step + reach - extent
            if total < -1:  # runtimes do not agree on which pixels are left out
                raise b.error(
                    f"auto_pad {mode!r} of windows of {reach} pixels and stride {step}, which "
                    f"leave {-total} of {extent} pixels out; give pads instead"
                )
            total = max(total, 0)
            small, large = total // 2, total - total // 2
            before.append(small if mode == "SAME_UPPER" else large)
            after.append(large if mode == "SAME_UPPER" else small)
        return (before[0], before[1], after[0], after[1])
    if mode != "NOTSET":
        raise b.error(f"auto_pad {mode!r}; use NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    edges = tuple(attributes.get("pads", (0, 0, 0, 0)))
    if len(edges) != 4 or not all(0 <= edge <= LARGEST for edge in edges):
        raise b.error(f"pads {list(edges)}: four numbers from 0 to {LARGEST} are supported")
    top, left, bottom, right = edges
    return (top, left, bottom, right)


def ceil_padding(
    edges: Edges, size: Pair, window: Pair, stride: Pair, dilation: Pair = (1, 1)
) -> Edges:
    """Edges grown at the end by what ceil_mode adds.

    A last window that would start past the image and its leading padding is left out, as
    onnxruntime does.
    """
    grown = []
    for axis in range(2):
        reach = dilation[axis] * (window[axis] - 1) + 1
        padded = size[axis] + edges[axis] + edges[axis + 2]
        count = -(-(padded - reach) // stride[axis]) + 1
        if (count - 1) * stride[axis] >= size[axis] + edges[axis]:
            count -= 1
        grown.append(max((count - 1) * stride[axis] + reach - padded, 0) + edges[axis + 2])
    return (edges[0], edges[1], grown[0], grown[1])
