"""Layers of random models that multiply with weights, and the clamps and constants behind them."""

from __future__ import annotations

import numpy as np

from qdq.writer import GraphWriter, Real, Shape


def conv(w: GraphWriter) -> Real | None:
    """A convolution of any groups, stride, dilation and padding."""
    x = w.pick(rank=4)
    if x is None:
        return None
    c, height, width = x.shape[1:]
    groups = int(w.choose([g for g in range(1, c + 1) if c % g == 0]) if w.chance(0.4) else 1)
    most = 25 if w.chance(0.2) else 9
    k = groups * int(w.rng.integers(1, 4 if groups > 1 else most))
    k = c if w.chance(0.2) else k
    taps = [int(w.rng.integers(1, min(3, size) + 1)) for size in (height, width)]
    gaps = [int(w.rng.integers(1, 3)) if w.chance(0.2) else 1 for _ in taps]
    strides = [int(w.rng.integers(1, 3)) if w.chance(0.3) else 1 for _ in taps]
    reach = [gap * (tap - 1) + 1 for gap, tap in zip(gaps, taps, strict=True)]
    pads = [int(w.rng.integers(0, r)) if w.chance(0.6) else 0 for r in (*reach, *reach)]
    size = []
    for axis, extent in enumerate((height, width)):
        room = extent + pads[axis] + pads[axis + 2] - reach[axis]
        if room < 0:
            return None
        size.append(room // strides[axis] + 1)
    return _conv(w, x, (k, c // groups, *taps), size, pads, groups, strides, gaps)


def _conv(
    w: GraphWriter, x: Real, weight: Shape, size: list[int], pads: list[int], groups: int = 1,
    strides: list[int] | None = None, dilations: list[int] | None = None,
) -> Real:  # fmt: skip
    name, scale = w.weights(weight)
    bias = [w.bias(weight[0], x, scale)] if w.chance(0.7) else []
    y = w.node(
        "Conv", [x.name, name, *bias], (x.shape[0], weight[0], *size), pads=pads, group=groups,
        strides=strides or [1, 1], dilations=dilations or [1, 1],
    )  # fmt: skip
    return affine(w, y) if w.chance(0.15) else y


def residual(w: GraphWriter) -> Real | None:
    """A convolution that keeps the shape, added to its input or to any other tensor."""
    x = w.pick(rank=4)
    if x is None:
        return None
    c, edge = x.shape[1], int(w.rng.integers(0, 2))
    taps = 2 * edge + 1
    y = _conv(w, x, (c, c, taps, taps), list(x.shape[2:]), [edge] * 4)
    y = clamp(w, y) if w.chance(0.2) else y
    y = w.quantised(y) if w.chance(0.7) else y
    other = w.pick(shape=x.shape) or x
    if y.shape != other.shape:
        return y
    if w.chance(0.3):
        second = _conv(w, x, (c, c, 1, 1), list(x.shape[2:]), [0] * 4)
        other = w.quantised(second) if w.chance(0.7) else second
        other = other if other.shape == y.shape else x
    names = [y.name, other.name]
    return w.node("Add", names[:: int(w.choose([1, -1]))], x.shape)


def chain(w: GraphWriter) -> Real | None:
    """Convolutions behind one another, of channels that kernels pad, sometimes added up."""
    x = w.pick(rank=4)
    if x is None:
        return None
    k = int(w.choose([11, 12, 14, 15, 22, 30]))
    made = []
    for _ in range(int(w.rng.integers(2, 5))):
        edge = int(w.rng.integers(0, 2))
        taps = 2 * edge + 1
        groups = k if x.shape[1] == k and w.chance(0.3) else 1
        weight = (k, x.shape[1] // groups, taps, taps)
        y = w.quantised(_conv(w, x, weight, list(x.shape[2:]), [edge] * 4, groups))
        same = [other for other in made if other.shape == y.shape]
        if same and w.chance(0.4):
            y = w.quantised(w.node("Add", [y.name, w.choose(same).name], y.shape))
        if len(y.shape) != 4 or y.shape[1] != k:
            return y
        made.append(y)
        x = y
    return x


def affine(w: GraphWriter, x: Real) -> Real:
    """A constant a channel behind a convolution or product."""
    shape = (x.shape[1], 1, 1) if len(x.shape) == 4 else (x.shape[1],)
    op = str(w.choose(["Mul", "Add", "Sub", "BatchNormalization"]))
    if op == "BatchNormalization" and len(x.shape) == 4 and not w.exact:
        values = [w.rng.uniform(0.5, 1.5, x.shape[1]) for _ in range(4)]
        names = [w.constant(value, "float32") for value in values]
        return w.node(op, [x.name, *names], x.shape)
    value = (
        w.rng.integers(-16, 17, shape) / 8 if op != "Mul" else 2.0 ** w.rng.integers(-1, 2, shape)
    )
    names = [x.name, w.constant(value, "float32")]
    op = "Add" if op == "BatchNormalization" else op
    return w.node(op, names[:: int(w.choose([1, -1]))], x.shape)


def gemm(w: GraphWriter) -> Real | None:
    """A fully connected layer, behind a flattened image or not."""
    x = w.pick(rank=2)
    if x is None or w.chance(0.5):
        image = w.pick(rank=4)
        if image is None:
            return None
        x = w.node("Flatten", [image.name], (image.shape[0], int(np.prod(image.shape[1:]))), axis=1)
    n = int(w.rng.integers(2, 9))
    if w.chance(0.3):
        name, scale = w.weights((n, x.shape[1]), per_channel=False)
        turned = w.node("Transpose", [name], (x.shape[1], n), perm=[1, 0])
        return w.node("MatMul", [x.name, turned.name], (x.shape[0], n))
    name, scale = w.weights((n, x.shape[1]))
    bias = [w.bias(n, x, scale)] if w.chance(0.7) else []
    y = w.node("Gemm", [x.name, name, *bias], (x.shape[0], n), transB=1)
    return affine(w, y) if w.chance(0.15) else y


def matmul(w: GraphWriter) -> Real | None:
    """A product with the transpose of a tensor, itself or another."""
    x = w.pick(rank=4)
    if x is None:
        return None
    other = w.pick(shape=x.shape) or x
    swapped = (*x.shape[:2], x.shape[3], x.shape[2])
    turned = w.node("Transpose", [other.name], swapped, perm=[0, 1, 3, 2])
    turned = w.quantised(turned) if w.chance(0.3) else turned
    if turned.shape != swapped:
        return None
    return w.node("MatMul", [x.name, turned.name], (*x.shape[:3], turned.shape[3]))


def clamp(w: GraphWriter, x: Real) -> Real:
    """Relu, or a Clip of bounds that may cut everything off."""
    if w.chance(0.6):
        return w.node("Relu", [x.name], x.shape)
    low, high = (w.rng.integers(-64, 65, 2) / 16).tolist()
    if low > high and w.chance(0.8):
        low, high = high, low
    names = [w.constant(low, "float32"), w.constant(high, "float32")]
    names = names[:1] if w.chance(0.2) else names
    return w.node("Clip", [x.name, *names], x.shape)
