"""Layers that take elements at places, choose by masks, reduce or put pixels apart; bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from qdq.bounds import Bounds, linear_of
from qdq.writer import GraphWriter, Real


def selected(w: GraphWriter) -> Real | None:
    """Gather, Pad of edges, Tile, Where by a constant mask, ReduceMax, or pixels doubled."""
    x = w.pick()
    axis = int(w.rng.integers(len(x.shape)))
    size = x.shape[axis]

    def resized(length: int) -> tuple[int, ...]:
        return (*x.shape[:axis], length, *x.shape[axis + 1 :])

    kind = int(w.rng.integers(6))
    if kind == 0:
        places = w.rng.integers(-size, size, int(w.rng.integers(1, size + 1)))
        return w.node("Gather", [x.name, w.constant(places)], resized(len(places)), axis=axis)
    if kind == 1:
        edges = np.zeros((2, len(x.shape)), np.int64)
        edges[:, axis] = w.rng.integers(0, 3, 2)
        pads = w.constant(edges.reshape(-1))
        return w.node("Pad", [x.name, pads], resized(size + int(edges.sum())), mode="edge")
    if kind == 2 and np.prod(x.shape) < 2000:
        repeats = np.where(np.arange(len(x.shape)) == axis, 2, 1)
        return w.node("Tile", [x.name, w.constant(repeats)], resized(2 * size))
    if kind == 3:
        other = w.pick(shape=x.shape)
        mask = w.rng.random(x.shape[axis:]) < 0.5
        return w.node("Where", [w.constant(mask), x.name, other.name], x.shape)
    if kind == 4 and w.opset == 17:
        return w.node("ReduceMax", [x.name], resized(1), axes=[axis])
    image = w.pick(rank=4)
    if image is None or np.prod(image.shape) > 2000:
        return None
    n, c, height, width = image.shape
    scales = w.constant([1, 1, 2, 1], "float32")
    return w.node("Resize", [image.name, "", scales], (n, c, 2 * height, width), mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip


def conv_transpose(w: GraphWriter) -> Real | None:
    """Pixels put apart by a transposed convolution of any stride and padding."""
    x = w.pick(rank=4)
    if x is None or np.prod(x.shape) > 2000:
        return None
    n, c, *size = x.shape
    k, taps, strides, pads = (
        int(w.rng.integers(low, high)) for low, high in ((1, 9), (1, 4), (1, 3), (0, 2))
    )
    after = [(extent - 1) * strides + taps - 2 * pads for extent in size]
    if min(after) < 1 or pads >= taps:
        return None
    name, _ = w.weights((c, k, taps, taps), axis=int(w.choose([0, 1, 1])))
    return w.node("ConvTranspose", [x.name, name], (n, k, *after), strides=[strides] * 2,
                  pads=[pads] * 4)  # fmt: skip


def _gather(node: Any, x: Bounds, places: Bounds) -> Bounds:
    return x.map(lambda v: v.take(places.low.astype(int), node["axis"]))


def _where(node: Any, mask: Bounds, a: Bounds, b: Bounds) -> Bounds:
    grid = None if a.grid is None or b.grid is None else min(a.grid, b.grid)
    low, high = (np.where(mask.low != 0, *ends) for ends in ((a.low, b.low), (a.high, b.high)))
    return Bounds(low, high, grid)


def _most(node: Any, x: Bounds) -> Bounds:
    return x.map(lambda v: v.max(axis=tuple(node["axes"]), keepdims=True))


def _conv_transpose(node: Any, x: Bounds, weight: Bounds) -> Bounds:
    (stride, _), (pad, *_) = node["strides"], node["pads"]

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        n, _, height, width = a.shape
        k, _, taps, _ = b.shape
        sizes = [(extent - 1) * stride + taps for extent in (height, width)]
        y = np.zeros((n, k, *sizes))
        for i in range(taps):
            for j in range(taps):
                rows = slice(i, i + (height - 1) * stride + 1, stride)
                columns = slice(j, j + (width - 1) * stride + 1, stride)
                y[:, :, rows, columns] += np.einsum("nchw,kc->nkhw", a, b[:, :, i, j])
        return y[:, :, pad : sizes[0] - pad, pad : sizes[1] - pad]

    filters = weight.low.swapaxes(0, 1)
    return linear_of(node, x, Bounds(filters, filters, weight.grid), product)


RULES = {
    "Gather": _gather,
    "Tile": lambda node, x, repeats: x.map(lambda v: np.tile(v, repeats.low.astype(int))),
    "Where": _where,
    "ReduceMax": _most,
    "Resize": lambda node, x, roi, scales: x.map(lambda v: v.repeat(2, axis=2)),
    "ConvTranspose": _conv_transpose,
}
"""Bounds of their operators but Pad."""
