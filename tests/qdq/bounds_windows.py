"""Intervals of convolutions and pools."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from qdq.bounds import ULP, Bounds, is_power_of_two, linear_of, sum_of, widened


def _windows(node: Any, x: np.ndarray, kernel: tuple[int, int], outside: float) -> np.ndarray:
    """[n, c, p, q, r, s]: what each output pixel's window holds."""
    top, left, bottom, right = node.get("pads", [0, 0, 0, 0])
    padded = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)], constant_values=outside)
    (gap_h, gap_w), (step_h, step_w) = node.get("dilations", [1, 1]), node.get("strides", [1, 1])
    reach = ((kernel[0] - 1) * gap_h + 1, (kernel[1] - 1) * gap_w + 1)
    views = sliding_window_view(padded, reach, (2, 3))
    return views[:, :, ::step_h, ::step_w, ::gap_h, ::gap_w]


def conv(node: Any, x: Bounds, w: Bounds, bias: Bounds | None = None) -> Bounds:
    groups = node.get("group", 1)

    def product(a: np.ndarray, weight: np.ndarray) -> np.ndarray:
        views = _windows(node, a, weight.shape[2:], 0.0)
        n, c, p, q, r, s = views.shape
        grouped = views.reshape(n, groups, c // groups, p, q, r, s)
        filters = weight.reshape(groups, -1, c // groups, r, s)
        y = np.einsum("ngcpqrs,gkcrs->ngkpq", grouped, filters, optimize=True)
        return y.reshape(n, -1, p, q)

    y = linear_of(node, x, w, product)
    if x.scale is not None and w.scale is not None:
        y.step = np.broadcast_to(x.scale * w.scale.reshape(-1, 1, 1), (len(w.low), 1, 1))
    return y if bias is None else sum_of(y, bias.map(lambda v: v.reshape(-1, 1, 1)))


def average(node: Any, x: Bounds) -> Bounds:
    kernel = tuple(node.get("kernel_shape", x.low.shape[2:]))
    inside = _windows(node, np.ones((1, 1, *x.low.shape[2:])), kernel, 0.0).sum((4, 5))
    if node.get("count_include_pad", 0):
        inside = np.full_like(inside, math.prod(kernel))
    low, high, reach = (_windows(node, v, kernel, 0.0).sum((4, 5)) for v in
                        (x.low, x.high, x.largest))  # fmt: skip
    exact = all(is_power_of_two(float(count)) for count in inside.reshape(-1))
    grid = x.grid / inside.max() if exact and x.grid is not None else None
    error = (math.prod(kernel) + 8) * ULP * reach / inside
    return widened(low / inside, high / inside, error, grid, reach)


def max_pool(node: Any, x: Bounds) -> Bounds:
    kernel = tuple(node.get("kernel_shape", x.low.shape[2:]))
    return x.map(lambda v: _windows(node, v, kernel, -np.inf).max((4, 5)))
