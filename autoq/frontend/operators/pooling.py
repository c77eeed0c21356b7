"""Pools: maximum, average, global average, and means over axes."""

from __future__ import annotations

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import constant_axes
from autoq.frontend.operators.windows import (
    Edges,
    Pair,
    ceil_padding,
    image_shape,
    padding,
    pair,
)
from autoq.frontend.registry import OnnxNode, importer

_WHOLE = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}
"""Of one window over the whole image."""


@importer("MaxPool")
def max_pool(node: OnnxNode, b: GraphBuilder) -> str:
    """Maximum over windows; float32 or integers."""
    x = node.required(0, b)
    size = image_shape(b, x)[2:]
    windows, edges = _windows(node, b, size)
    if node.attributes.get("ceil_mode", 0):
        edges = ceil_padding(edges, size, *windows.values())
    return b.emit("MaxPool", [x], **windows, pads=edges)


def _windows(node: OnnxNode, b: GraphBuilder, size: Pair) -> tuple[dict[str, Pair], Edges]:
    """Kernel, strides and dilations, and the padding, which no window may lie in as a whole."""
    names = {"kernel": "kernel_shape", "strides": "strides", "dilations": "dilations"}
    windows = {name: pair(node.attributes, written, b) for name, written in names.items()}
    edges = padding(node.attributes, size, *windows.values(), b)
    kernel, dilations = windows["kernel"], windows["dilations"]
    reach = [gap * (taps - 1) + 1 for taps, gap in zip(kernel, dilations, strict=True)]
    if any(edge >= reach[i % 2] for i, edge in enumerate(edges)):
        raise b.error(f"pads {list(edges)} of windows {reach}; each must be smaller")
    return windows, edges


@importer("AveragePool")
def average_pool(node: OnnxNode, b: GraphBuilder) -> str:
    """Average over windows."""
    return emit_average_pool(node, b, node.required(0, b))


def emit_average_pool(node: OnnxNode, b: GraphBuilder, x: str) -> str:
    """AveragePool of float32 `x`.

    With count_include_pad, the pixels that ceil_mode adds are not counted, so the declared padding
    is written as a Pad; onnxruntime's QLinearAveragePool counts every window whole instead.
    """
    size = image_shape(b, x)[2:]
    windows, edges = _windows(node, b, size)
    include = bool(node.attributes.get("count_include_pad", 0))
    if node.attributes.get("ceil_mode", 0):
        grown = ceil_padding(edges, size, *windows.values())
        if include and node.op == "AveragePool" and grown != edges:
            top, left, bottom, right = edges
            x = b.emit("Pad", [x], before=(0, 0, top, left), after=(0, 0, bottom, right), value=0.0)
            grown = (0, 0, grown[2] - bottom, grown[3] - right)
            include = False
        edges = grown
    include = include and any(edges)  # without an edge it makes no difference
    return b.emit("AveragePool", [x], **windows, pads=edges, include_pad=include)


def emit_global_average(b: GraphBuilder, x: str) -> str:
    """AveragePool whose window is the whole image."""
    kernel = image_shape(b, x)[2:]
    return b.emit("AveragePool", [x], kernel=kernel, **_WHOLE, include_pad=False)


@importer("GlobalAveragePool")
def global_average_pool(node: OnnxNode, b: GraphBuilder) -> str:
    """Average over the whole image."""
    return emit_global_average(b, node.required(0, b))


@importer("GlobalMaxPool")
def global_max_pool(node: OnnxNode, b: GraphBuilder) -> str:
    """Maximum over the whole image."""
    x = node.required(0, b)
    kernel = image_shape(b, x)[2:]
    return b.emit("MaxPool", [x], kernel=kernel, **_WHOLE)


@importer("ReduceMean")
def reduce_mean(node: OnnxNode, b: GraphBuilder) -> str:
    """Mean over axes; over the pixels of images it is a global average pool."""
    x = node.required(0, b)
    shape = b.shape(x)
    axes = constant_axes(node, b, len(shape))
    if not axes:
        axes = tuple(range(len(shape)))
    if axes == (2, 3) and len(shape) == 4:
        y = emit_global_average(b, x)
    else:
        y = b.emit("ReduceMean", [x], axes=axes)
    if node.attributes.get("keepdims", 1):
        return y
    kept = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    return b.emit("Reshape", [y], shape=kept)
