"""Layers of random models over rows and batches of matrices, as transformers have them."""

from __future__ import annotations

import numpy as np

from qdq.writer import GraphWriter, Real, Shape


def tokens(w: GraphWriter) -> Real | None:
    """The pixels of an image as rows, or as columns."""
    x = w.pick(rank=4)
    if x is None:
        return None
    n, c, height, width = x.shape
    y = reshaped(w, x, (n, c, height * width))
    return turned(w, y, [0, 2, 1]) if w.chance(0.8) else y


def rows(w: GraphWriter) -> Real | None:
    """A product over the last axis of any tensor, and what follows rows of it."""
    x = w.pick(rank=int(w.choose([3, 3, 4])))
    if x is None:
        return None
    n = x.shape[-1] if w.chance(0.4) else int(w.rng.integers(2, 9))
    if w.chance(0.15):  # from the left, over the axis before
        name, _ = w.weights((n, x.shape[-2]))
        shape = (*x.shape[:-2], n, x.shape[-1])
        y = w.node("MatMul", [name, x.name], shape)
    else:
        name, _ = w.weights((x.shape[-1], n), axis=1)
        shape = (*x.shape[:-1], n)
        y = w.node("MatMul", [x.name, name], shape)
    if w.chance(0.4):
        y = w.quantised(y)
    if y.shape != shape:
        return None
    return added(w, y) if w.chance(0.8) else y


def added(w: GraphWriter, y: Real) -> Real:
    """A bias, a constant a row, another tensor of the shape, or rows of it reshaped."""
    kind, last = int(w.rng.integers(5)), y.shape[-1]
    if kind < 2:
        bias = (last,) if kind else (1,) * (len(y.shape) - 1) + (last,)
        value = w.constant(w.rng.integers(-32, 33, bias) / 16, "float32")
    elif kind == 2:
        value = w.constant(w.rng.integers(-32, 33, y.shape[1:]) / 16, "float32")
    else:
        other = w.pick(shape=y.shape)
        if other is None:
            return y
        if kind == 4:
            flat = (int(np.prod(y.shape[:-1])), last)
            y, other = reshaped(w, y, flat), reshaped(w, other, flat)
        value = other.name
    names = [y.name, value]
    return w.node("Add", names[:: int(w.choose([1, -1]))], y.shape)


def gemm(w: GraphWriter) -> Real | None:
    """A Gemm of any transpositions and factors."""
    x = w.pick(rank=2)
    if x is None:
        image = w.pick()
        x = reshaped(w, image, (image.shape[0], int(np.prod(image.shape[1:]))))
    swapped, by_rows = int(w.chance(0.4)), int(w.chance(0.5))
    m, k = x.shape[::-1] if swapped else x.shape
    n = int(w.rng.integers(2, 9))
    name, _ = w.weights((n, k) if by_rows else (k, n), axis=1 - by_rows)
    c = []
    if w.chance(0.7):
        shape = w.choose([(n,), (1, n), (m, n), (m, 1), (1,)])
        c = [w.constant(w.rng.integers(-32, 33, shape) / 16, "float32")]
    factors = {"alpha": float(w.choose([1.0, 0.5, -2.0])), "beta": float(w.choose([1.0, 0.5, 0.0]))}
    return w.node("Gemm", [x.name, name, *c], (m, n), transA=swapped, transB=by_rows, **factors)


def layer_scale(w: GraphWriter) -> Real | None:
    """A product whose channels are scaled before a residual is added, as in blocks of ConvNeXt."""
    x = w.pick()
    size = int(np.prod(x.shape[1:]))
    widths = [width for width in (16, 20, 24, 32) if size % width == 0]
    if not widths:
        return None
    width = int(w.choose(widths))
    x = reshaped(w, x, (x.shape[0], size // width, width))
    n = width if w.chance(0.8) else int(w.choose([4, 8, 12, 16]))
    name, _ = w.weights((x.shape[-1], n), axis=1)
    shape = (*x.shape[:-1], n)
    y = w.node("MatMul", [x.name, name], shape)
    y = w.quantised(added(w, y) if w.chance(0.4) else y)
    if y.shape != shape:
        return None
    if w.chance(0.1):
        w.reals.append(y)
    signs = w.rng.choice([-1.0, 1.0, 1.0, 1.0], n)
    factors = signs * (2.0 ** w.rng.integers(-2, 3, n) if w.exact else w.rng.uniform(0.05, 3, n))
    factor = w.constant(factors, "float32")
    if w.chance(0.1):
        factor = w.constant(float(factors[0]), "float32")
    y = w.node("Mul", [y.name, factor][:: int(w.choose([1, -1]))], shape)
    y = w.quantised(y) if w.chance(0.95) else y
    other = x if n == width and w.chance(0.7) else w.pick(shape=shape)
    if other is None or y.shape != shape:
        return y
    y = w.node("Add", [y.name, other.name][:: int(w.choose([1, -1]))], shape)
    return w.quantised(y) if w.chance(0.8) else y


def batched(w: GraphWriter) -> Real | None:
    """A product of two tensors of matrices, transposed so that they fit."""
    x = w.pick(rank=int(w.choose([3, 4])))
    if x is None:
        return None
    fit = [y for y in w.reals if len(y.shape) == len(x.shape) and y.shape[:-2] == x.shape[:-2]]
    swap = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
    other = w.choose(fit)
    if other.shape[-2] != x.shape[-1]:
        other = turned(w, other, swap)
    if other.shape[-2] != x.shape[-1]:
        x = turned(w, x, swap)
    if other.shape[-2] != x.shape[-1]:
        return None
    other = w.quantised(other) if w.chance(0.5) else other
    if other.shape[:-2] != x.shape[:-2] or other.shape[-2] != x.shape[-1]:
        return None
    y = w.node("MatMul", [x.name, other.name], (*x.shape[:-1], other.shape[-1]))
    if w.chance(0.3):
        y = w.node("Mul", [y.name, w.constant(0.125, "float32")], y.shape)
    return y


def attention(w: GraphWriter) -> Real | None:
    """Heads of up to three tensors of rows, their products, and the heads side by side again."""
    x = w.pick(rank=3)
    if x is None or x.shape[2] % 2:
        return None
    others = [w.pick(shape=x.shape) or x for _ in range(2)]
    n, size, width = x.shape
    split = (n, size, 2, width // 2)
    query, key, value = (reshaped(w, y, split) for y in (x, *others))
    query, value = turned(w, query, [0, 2, 1, 3]), turned(w, value, [0, 2, 1, 3])
    key = turned(w, key, [0, 2, 3, 1])
    products = w.quantised(w.node("MatMul", [query.name, key.name], (n, 2, size, size)))
    if products.shape != (n, 2, size, size):
        return None
    if w.chance(0.3):
        w.reals.append(products)
    if w.chance(0.4):
        shape = w.choose([(size,), (n, 1, 1, size), (2, size, size), (n, 2, size, size)])
        mask = w.constant(w.rng.integers(-32, 9, shape) / 8, "float32")
        names = [products.name, mask]
        products = w.node("Add", names[:: int(w.choose([1, -1]))], products.shape)
        products = w.quantised(products) if w.chance(0.5) else products
        if products.shape != (n, 2, size, size):
            return None
    shares = w.quantised(w.node("Softmax", [products.name], products.shape, axis=3))
    if shares.shape != products.shape:
        return None
    made = w.node("MatMul", [shares.name, value.name], (n, 2, size, width // 2))
    made = w.quantised(made) if w.chance(0.7) else made
    if made.shape != (n, 2, size, width // 2):
        return None
    return reshaped(w, turned(w, made, [0, 2, 1, 3]), x.shape)


def reshaped(w: GraphWriter, x: Real, shape: Shape) -> Real:
    """The same numbers in another shape."""
    return w.node("Reshape", [x.name, w.constant(shape, "int64")], shape)


def turned(w: GraphWriter, x: Real, perm: list[int]) -> Real:
    """The axes in another order."""
    shape = tuple(x.shape[axis] for axis in perm)
    return w.node("Transpose", [x.name], shape, perm=perm)
