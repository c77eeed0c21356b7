"""Blocks that passes rewrite as a whole, in random models: branches before a concatenation, heads
of one tensor by products of their own or by one, and chains of which a Slice reads a part.

Schemes need not fit together, and what lies inside a block is now and then read elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdq.matrices import added, reshaped, tokens, turned
from qdq.products import clamp
from qdq.writer import GraphWriter, Integers, Real

Scheme = tuple[str, np.ndarray]
"""A type and a zero point."""


def branches(w: GraphWriter) -> Real | None:
    """Chains of convolutions of one tensor, mostly of one form, side by side along channels."""
    x = w.pick(rank=4)
    if x is None:
        return None
    form = w.choose([[1], [1, 3], [3, 1], [1, 1, 3]])
    scheme = _scheme(w)
    parts = []
    for _ in range(int(w.rng.integers(2, 5))):
        y = x
        for taps in form if w.chance(0.7) else [1, 3]:
            y = _convolution(w, y, int(w.rng.integers(1, 9)), taps, scheme)
            if w.chance(0.05):
                w.reals.append(y)
        parts.append(y)
    if w.chance(0.2):
        parts.append(x)
    if w.chance(0.15):
        parts.append(w.choose(parts))
    order = w.rng.permutation(len(parts)).tolist() if w.chance(0.3) else range(len(parts))
    shape = (x.shape[0], sum(y.shape[1] for y in parts), *x.shape[2:])
    return w.node("Concat", [parts[i].name for i in order], shape, axis=1)


def heads(w: GraphWriter) -> Real | None:
    """Products of one tensor, or parts of one product, and attention or a sum of them."""
    x = _tokens(w)
    n, size = x.shape[:2]
    count, deep = int(w.choose([1, 2, 3])), int(w.choose([2, 3, 4, 8]))
    wide = count * deep
    made = _parts_of_one(w, x, wide) if w.chance(0.4) else _apart(w, x, wide)
    if w.chance(0.1):
        w.reals.append(w.choose(made))
    perms = [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]]
    query, key, value = (
        turned(w, reshaped(w, y, (n, size, count, deep)), perm)
        for y, perm in zip(made, perms, strict=True)
    )
    scores = w.node("MatMul", [query.name, key.name], (n, count, size, size))
    if w.chance(0.4):
        scores = w.node("Mul", [scores.name, w.constant(0.375, "float32")], scores.shape)
    scores = _rounded(w, scores, 0.8)
    shares = w.node("Softmax", [scores.name], scores.shape, axis=3)
    shares = _rounded(w, shares, 0.8)
    y = w.node("MatMul", [shares.name, value.name], (n, count, size, deep))
    y = _rounded(w, y, 0.8)
    return reshaped(w, turned(w, y, [0, 2, 1, 3]), (n, size, wide))


def picked(w: GraphWriter) -> Real | None:
    """Layers over rows, a Slice or Gather of some of them or of columns, and a product of those."""
    y = _rounded(w, _tokens(w), 0.3)
    for _ in range(int(w.rng.integers(1, 5))):
        y = w.choose(STEPS)(w, y)
        y = _rounded(w, y, 0.6)
        if w.chance(0.03):
            w.reals.append(y)
    axis = 1 if len(y.shape) > 2 and w.chance(0.7) else int(w.rng.integers(len(y.shape)))
    length = y.shape[axis]
    if w.chance(0.15):
        places = w.rng.integers(0, length, int(w.rng.integers(1, 3)))
        shape = (*y.shape[:axis], len(places), *y.shape[axis + 1 :])
        y = w.node("Gather", [y.name, w.constant(places)], shape, axis=axis)
    else:
        start, step = int(w.rng.integers(length)), int(w.choose([1, 1, 1, 2]))
        end = int(w.rng.integers(start + 1, length + 1)) if w.chance(0.5) else start + 1
        bounds = [w.constant([value], "int64") for value in (start, end, axis, step)]
        shape = (*y.shape[:axis], len(range(start, end, step)), *y.shape[axis + 1 :])
        y = w.node("Slice", [y.name, *bounds], shape)
    y = _rounded(w, y, 0.3)
    return _product(w, y) if w.chance(0.7) else y


def _tokens(w: GraphWriter) -> Real:
    """A tensor of rank 3, or the pixels of an image as rows."""
    x = w.pick(rank=3) or tokens(w)
    if x is not None:
        return x
    x = w.pick()
    return reshaped(w, x, (1, x.shape[0], int(np.prod(x.shape[1:]))))


def _product(w: GraphWriter, x: Real) -> Real:
    n = x.shape[-1] if w.chance(0.6) else int(w.rng.integers(2, 9))
    name, _ = w.weights((x.shape[-1], n), axis=1)
    y = w.node("MatMul", [x.name, name], (*x.shape[:-1], n))
    return added(w, y) if w.chance(0.3) else y


def _sum(w: GraphWriter, x: Real) -> Real:
    other = w.pick(shape=x.shape) or x
    return w.node(str(w.choose(["Add", "Mul", "Sub"])), [x.name, other.name], x.shape)


def _function(w: GraphWriter, x: Real) -> Real:
    op = str(w.choose(["Sigmoid", "Relu", "Tanh", "Softmax"]))
    axis = len(x.shape) - 1 if w.chance(0.7) else int(w.rng.integers(len(x.shape)))
    attributes = {"axis": axis} if op == "Softmax" else {}
    return clamp(w, x) if op == "Relu" else w.node(op, [x.name], x.shape, **attributes)


def _centred(w: GraphWriter, x: Real) -> Real:
    """Less its mean over an axis, as a normalisation begins."""
    axis = len(x.shape) - 1 if w.chance(0.8) else int(w.rng.integers(len(x.shape)))
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if w.opset == 17:
        mean = w.node("ReduceMean", [x.name], shape, axes=[axis])
    else:
        mean = w.node("ReduceMean", [x.name, w.constant([axis], "int64")], shape)
    return w.node("Sub", [x.name, mean.name], x.shape)


def _moved(w: GraphWriter, x: Real) -> Real:
    """Axes in another order, or two of them as one."""
    if len(x.shape) == 2 or w.chance(0.5):
        return turned(w, x, w.rng.permutation(len(x.shape)).tolist())
    at = int(w.rng.integers(len(x.shape) - 1))
    return reshaped(w, x, (*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :]))


Step = Callable[[GraphWriter, Real], Real]
STEPS: list[Step] = [*[_product] * 5, *[_sum] * 2, _function, *[_centred] * 2, _moved]


def _apart(w: GraphWriter, x: Real, wide: int) -> list[Real]:
    """Three products of a tensor, each with a scheme of its own or all with one."""
    scheme = _scheme(w)
    made = []
    for _ in range(3):
        name, _ = w.weights((x.shape[-1], wide), axis=1)
        y = w.node("MatMul", [x.name, name], (*x.shape[:-1], wide))
        if w.chance(0.5):
            y = w.node("Add", [y.name, w.constant(_bias(w, wide), "float32")], y.shape)
        made.append(_written(w, y, scheme))
    return made


def _parts_of_one(w: GraphWriter, x: Real, wide: int) -> list[Real]:
    """Three slices of one product's columns."""
    name, _ = w.weights((x.shape[-1], 3 * wide), axis=1)
    y = w.node("MatMul", [x.name, name], (*x.shape[:-1], 3 * wide))
    if w.chance(0.5):
        y = w.node("Add", [y.name, w.constant(_bias(w, 3 * wide), "float32")], y.shape)
    y = _rounded(w, y, 0.8)
    made = []
    for at in range(3):
        bounds = [w.constant([value], "int64") for value in (at * wide, (at + 1) * wide, 2, 1)]
        part = w.node("Slice", [y.name, *bounds], (*x.shape[:-1], wide))
        made.append(_rounded(w, part, 0.3))
    return made


def _bias(w: GraphWriter, width: int) -> np.ndarray:
    return w.rng.integers(-32, 33, width) / 16


def _convolution(w: GraphWriter, x: Real, k: int, taps: int, scheme: Scheme) -> Real:
    name, scale = w.weights((k, x.shape[1], taps, taps))
    bias = [w.bias(k, x, scale)] if w.chance(0.7) else []
    shape = (x.shape[0], k, *x.shape[2:])
    y = w.node("Conv", [x.name, name, *bias], shape, pads=[taps // 2] * 4)
    return _written(w, clamp(w, y) if w.chance(0.5) else y, scheme)


def _scheme(w: GraphWriter) -> Scheme:
    """A type and a zero point that several tensors have."""
    dtype = str(w.choose(["int8", "uint8"]))
    return dtype, w.zero_point(dtype)


def _written(w: GraphWriter, x: Real, scheme: Scheme) -> Real:
    """Quantised with a scale of its own, mostly by a scheme that others share."""
    if w.chance(0.1):
        return _rounded(w, x, 1.0)
    dtype, zero_point = scheme
    names = w.constant(w.scale_of(dtype)), w.constant(zero_point)
    y = w.node("QuantizeLinear", [x.name, *names], x.shape)
    w.integers.append(Integers(y.name, y.shape, dtype, *names))
    return w.node("DequantizeLinear", [y.name, *names], y.shape)


def _rounded(w: GraphWriter, x: Real, share: float) -> Real:
    """Quantised in some cases, without a move of the integers."""
    return w.dequantise(w.quantise(x)) if w.chance(share) else x
