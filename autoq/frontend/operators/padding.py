"""Pad in every mode, and blocks of pixels as channels: DepthToSpace and SpaceToDepth."""

from __future__ import annotations

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import emit_slice, normal_axis
from autoq.frontend.operators.selection import emit_take
from autoq.frontend.operators.windows import image_shape
from autoq.frontend.registry import OnnxNode, importer

_REPEATING = ("reflect", "edge", "wrap")


@importer("Pad")
def pad(node: OnnxNode, b: GraphBuilder) -> str:
    """Padding by a constant or by elements of the input; negative pads cut elements off."""
    x = node.required(0, b)
    mode = node.attributes.get("mode", "constant")
    if mode not in ("constant", *_REPEATING):
        raise b.error(f"mode {mode!r}; constant, {', '.join(_REPEATING)} are supported")
    value = node.attributes.get("value", 0.0)
    if node.input(2) is not None:
        value = b.constant(node.required(2, b), "value").reshape(()).item()
    before, after = _edges(node, b, len(b.shape(x)))
    if min((*before, *after), default=0) < 0:
        bounds = [
            (max(-front, 0), size - max(-back, 0), 1)
            for front, back, size in zip(before, after, b.shape(x), strict=True)
        ]
        x = emit_slice(b, x, bounds)
        before, after = (tuple(max(edge, 0) for edge in edges) for edges in (before, after))
    if not any((*before, *after)):
        return x
    if mode == "constant":
        return b.emit("Pad", [x], before=before, after=after, value=float(value))
    edges = zip(before, after, b.shape(x), strict=True)
    return emit_take(b, x, {
        axis: np.pad(np.arange(size), (front, back), mode=mode)
        for axis, (front, back, size) in enumerate(edges)
        if front or back
    })  # fmt: skip


def _edges(
    node: OnnxNode, b: GraphBuilder, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """Elements in front of and behind each axis."""
    pads = node.attributes.get("pads")
    if pads is None:
        pads = b.constant(node.required(1, b), "pads").reshape(-1).tolist()
    if node.input(3) is not None:
        axes = [normal_axis(b, int(a), rank) for a in b.constant(node.required(3, b), "axes")]
        sparse, pads = pads, [0] * (2 * rank)
        for index, axis in enumerate(axes):
            pads[axis], pads[axis + rank] = sparse[index], sparse[index + len(axes)]
    if len(pads) != 2 * rank:
        raise b.error(f"pads {list(pads)} of {rank} axes")
    return tuple(map(int, pads[:rank])), tuple(map(int, pads[rank:]))


@importer("DepthToSpace", "SpaceToDepth")
def blocks_of_pixels(node: OnnxNode, b: GraphBuilder) -> str:
    """Channels as blocks of pixels, block first (DCR) or channel first (CRD), or the other way."""
    x = node.required(0, b)
    n, c, height, width = image_shape(b, x)
    block = int(node.attributes["blocksize"])
    mode = node.attributes.get("mode", "DCR")
    if block < 1 or mode not in ("DCR", "CRD"):
        raise b.error(f"blocksize {block} and mode {mode!r}; DCR and CRD are supported")
    if node.op == "SpaceToDepth":
        apart = (n, c, height // block, block, width // block, block)
        perm = (0, 3, 5, 1, 2, 4)
        whole = (n, c * block * block, height // block, width // block)
    else:
        k = c // (block * block)
        first = (block, block, k) if mode == "DCR" else (k, block, block)
        apart = (n, *first, height, width)
        perm = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
        whole = (n, k, height * block, width * block)
    turned = b.emit("Transpose", [b.emit("Reshape", [x], shape=apart)], perm=perm)
    return b.emit("Reshape", [turned], shape=whole)
