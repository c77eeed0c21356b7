"""Pools: maximum, average, global average."""

from __future__ import annotations

from typing import NamedTuple

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.windows import (
    Edges,
    Pair,
    as_images,
    ceil_padding,
    image_shape,
    padding,
    pair,
)
from autoq.frontend.registry import OnnxNode, importer


class Windows(NamedTuple):
    """How a pool's windows lie; pads are (top, left, bottom, right)."""

    window: Pair
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    pads: Edges = (0, 0, 0, 0)

    @classmethod
    def read(cls, node: OnnxNode, b: GraphBuilder, size: Pair) -> Windows:
        """As the node says; raises ModelError where a window may lie outside as a whole."""
        a = node.attributes
        window, strides = pair(a, "kernel_shape", b), pair(a, "strides", b)
        dilations = pair(a, "dilations", b)
        edges = padding(a, size, window, strides, dilations, b)
        reach = [gap * (taps - 1) + 1 for taps, gap in zip(window, dilations, strict=True)]
        if any(edge >= reach[i % 2] for i, edge in enumerate(edges)):
            raise b.error(f"pads {list(edges)} of windows {reach}; each must be smaller")
        return cls(window, strides, dilations, edges)

    def ceiled(self, size: Pair) -> Windows:
        """With the padding that ceil_mode adds at the end."""
        edges = ceil_padding(self.pads, size, self.window, self.strides, self.dilations)
        return self._replace(pads=edges)


@importer("MaxPool")
def max_pool(node: OnnxNode, b: GraphBuilder) -> str:
    """Maximum over windows; float32 or integers."""
    if len(b.shape(node.required(0, b))) == 3:
        return as_images(node, b, max_pool)
    x = node.required(0, b)
    size = image_shape(b, x)[2:]
    windows = Windows.read(node, b, size)
    if node.flag("ceil_mode", b):
        windows = windows.ceiled(size)
    return b.emit("MaxPool", [x], **windows._asdict())


@importer("AveragePool")
def average_pool(node: OnnxNode, b: GraphBuilder) -> str:
    """Average over windows."""
    if len(b.shape(node.required(0, b))) == 3:
        return as_images(node, b, average_pool)
    return emit_average_pool(node, b, node.required(0, b))


def emit_average_pool(node: OnnxNode, b: GraphBuilder, x: str) -> str:
    """AveragePool of float32 `x`.

    With count_include_pad, the pixels that ceil_mode adds are not counted, so the declared padding
    is written as a Pad; onnxruntime's QLinearAveragePool counts every window whole instead.
    """
    size = image_shape(b, x)[2:]
    windows = Windows.read(node, b, size)
    include = node.flag("count_include_pad", b)
    if node.flag("ceil_mode", b):
        grown = windows.ceiled(size)
        if include and node.op == "AveragePool" and grown != windows:
            top, left, bottom, right = windows.pads
            x = b.emit("Pad", [x], before=(0, 0, top, left), after=(0, 0, bottom, right), value=0.0)
            grown = grown._replace(pads=(0, 0, grown.pads[2] - bottom, grown.pads[3] - right))
            include = False
        windows = grown
    include = include and any(windows.pads)  # without an edge it makes no difference
    return b.emit("AveragePool", [x], **windows._asdict(), include_pad=include)


def emit_global_average(b: GraphBuilder, x: str) -> str:
    """AveragePool whose window is the whole image."""
    windows = Windows(image_shape(b, x)[2:])
    return b.emit("AveragePool", [x], **windows._asdict(), include_pad=False)


@importer("GlobalAveragePool")
def global_average_pool(node: OnnxNode, b: GraphBuilder) -> str:
    """Average over the whole image."""
    if len(b.shape(node.required(0, b))) == 3:
        return as_images(node, b, global_average_pool)
    return emit_global_average(b, node.required(0, b))


@importer("GlobalMaxPool")
def global_max_pool(node: OnnxNode, b: GraphBuilder) -> str:
    """Maximum over the whole image."""
    if len(b.shape(node.required(0, b))) == 3:
        return as_images(node, b, global_max_pool)
    x = node.required(0, b)
    return b.emit("MaxPool", [x], **Windows(image_shape(b, x)[2:])._asdict())
