"""Random QDQ models: every operator of a quantised network, schemes that need not fit together.

Tensors are shared, dead, outputs in the middle of a chain, read twice by one node; some
DequantizeLinear undo the QuantizeLinear before them and some do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx

from qdq.writer import GraphWriter, Real, Shape


def random_model(rng: np.random.Generator, exact: bool) -> onnx.ModelProto:
    """A model of 3 to 14 layers over one or two float32 inputs.

    exact: scales are powers of two, so that most of its arithmetic rounds nothing.
    """
    writer = GraphWriter(rng, exact)
    for _ in range(int(rng.integers(3, 15))):
        layer(writer)
    return writer.finish()


def conv(w: GraphWriter) -> Real | None:
    """A convolution of any groups, stride, dilation and padding."""
    x = w.pick(rank=4)
    if x is None:
        return None
    c, height, width = x.shape[1:]
    groups = int(w.choose([g for g in range(1, c + 1) if c % g == 0]) if w.chance(0.4) else 1)
    most = 25 if w.chance(0.2) else 9
    k = groups * int(w.rng.integers(1, 4 if groups > 1 else most))
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


def binary(w: GraphWriter) -> Real | None:
    """Two tensors of one shape, perhaps one and the same, or one broadcast."""
    x = w.pick()
    op = str(w.choose(["Add", "Add", "Add", "Sub", "Mul", "Min", "Max"]))
    other = x if w.chance(0.15) else w.pick(shape=x.shape)
    if w.chance(0.15) and len(x.shape) == 4:
        other = w.node("GlobalAveragePool", [x.name], (*x.shape[:2], 1, 1))
        other = w.quantised(other) if w.chance(0.7) else other
        if other.shape != (*x.shape[:2], 1, 1):
            return None
    names = [x.name, other.name]
    return w.node(op, names[:: int(w.choose([1, -1]))], x.shape)


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


def unary(w: GraphWriter) -> Real | None:
    """Elementwise functions, which nothing fuses into a kernel of its own."""
    x = w.pick()
    op = str(w.choose(["Sigmoid", "HardSwish", "LeakyRelu", "Tanh", "HardSigmoid", "Relu", "Clip",
                       "Identity", "Softmax"]))  # fmt: skip
    if op in ("Relu", "Clip"):
        return clamp(w, x)
    attributes: dict[str, object] = {
        "LeakyRelu": {"alpha": 0.125},
        "HardSigmoid": {"alpha": 0.25, "beta": 0.5},
        "Softmax": {"axis": int(w.rng.integers(len(x.shape)))},
    }.get(op, {})
    return w.node(op, [x.name], x.shape, **attributes)


def pool(w: GraphWriter) -> Real | None:
    """A maximum or an average of windows or of whole images; some maxima are of integers."""
    x = w.pick(rank=4)
    images = [y for y in w.integers if len(y.shape) == 4]
    whole = None
    if images and w.chance(0.3):
        whole = w.choose(images)
        x = Real(whole.name, whole.shape)
    if x is None:
        return None
    kernel = [int(w.rng.integers(1, min(3, size) + 1)) for size in x.shape[2:]]
    strides = [int(w.rng.integers(1, 3)) for _ in kernel]
    pads = [int(w.rng.integers(0, k)) if w.chance(0.4) else 0 for k in (*kernel, *kernel)]
    size = [
        (x.shape[2 + i] + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i in range(2)
    ]
    shape = (*x.shape[:2], *size)
    ops = ["MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"]
    op = "MaxPool" if whole else str(w.choose(ops))
    if op.startswith("Global"):
        return w.node(op, [x.name], (*x.shape[:2], 1, 1))
    attributes = {"count_include_pad": int(w.chance(0.3))} if op == "AveragePool" else {}
    windows = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    y = w.node(op, [x.name], shape, **windows, **attributes)
    if whole:
        w.integers.append(replace(whole, name=y.name, shape=shape))
        y = w.dequantise(w.integers[-1])
    return y


def transpose(w: GraphWriter) -> Real | None:
    """Axes in any order."""
    x = w.pick()
    perm = w.rng.permutation(len(x.shape)).tolist()
    return w.node("Transpose", [x.name], tuple(x.shape[a] for a in perm), perm=perm)


def movement(w: GraphWriter) -> Real | None:
    """Reshape, Flatten, Slice, Pad and ReduceMean."""
    x = w.pick()
    kind = int(w.rng.integers(5))
    if kind == 0:
        shape = (x.shape[0], int(np.prod(x.shape[1:])))
        return w.node("Flatten", [x.name], shape, axis=1)
    if kind == 1:
        shape = (x.shape[0], *x.shape[:0:-1])
        return w.node("Reshape", [x.name, w.constant(shape, "int64")], shape)
    axis = int(w.rng.integers(len(x.shape)))
    if kind == 2:
        start = int(w.rng.integers(x.shape[axis]))
        end = int(w.rng.integers(start + 1, x.shape[axis] + 1))
        bounds = [w.constant([value], "int64") for value in (start, end, axis, 1)]
        shape = (*x.shape[:axis], end - start, *x.shape[axis + 1 :])
        return w.node("Slice", [x.name, *bounds], shape)
    if kind == 3:
        edges = np.zeros((2, len(x.shape)), np.int64)
        edges[:, axis] = w.rng.integers(0, 3, 2)
        shape = tuple((np.array(x.shape) + edges.sum(0)).tolist())
        value = [] if w.chance(0.6) else [w.constant(w.choose([-0.5, 0.25, 1.0]), "float32")]
        return w.node("Pad", [x.name, w.constant(edges.reshape(-1)), *value], shape)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return w.node("ReduceMean", [x.name], shape, axes=[axis])


def concat(w: GraphWriter) -> Real | None:
    """Two or three tensors along any axis, mostly channels."""
    x = w.pick()
    axis = min(1, len(x.shape) - 1) if w.chance(0.8) else int(w.rng.integers(len(x.shape)))
    fit = [y for y in w.reals if len(y.shape) == len(x.shape)
           and all(a == b for i, (a, b) in enumerate(zip(x.shape, y.shape, strict=True))
                   if i != axis)]  # fmt: skip
    parts = [x, *(w.choose(fit) for _ in range(int(w.rng.integers(1, 3))))]
    total = sum(part.shape[axis] for part in parts)
    if total > 24:
        return None
    shape = (*x.shape[:axis], total, *x.shape[axis + 1 :])
    return w.node("Concat", [part.name for part in parts], shape, axis=axis)


def shuffle(w: GraphWriter) -> Real | None:
    """A channel shuffle."""
    x = w.pick(rank=4)
    if x is None or x.shape[1] % 2:
        return None
    n, c, height, width = x.shape
    split = (n, 2, c // 2, height, width)
    y = w.node("Reshape", [x.name, w.constant(split, "int64")], split)
    turned = (n, c // 2, 2, height, width)
    y = w.node("Transpose", [y.name], turned, perm=[0, 2, 1, 3, 4])
    return w.node("Reshape", [y.name, w.constant(x.shape, "int64")], x.shape)


Layer = Callable[[GraphWriter], Real | None]
LAYERS: list[Layer] = [
    *[conv] * 3, *[residual] * 3, gemm, matmul, *[binary] * 2, *[unary] * 2, *[pool] * 2,
    transpose, *[movement] * 2, *[concat] * 2, shuffle,
]  # fmt: skip


def layer(w: GraphWriter) -> None:
    """One operator, then mostly clamps and a quantisation."""
    made = w.choose(LAYERS)(w)
    if made is None:
        return
    if w.chance(0.25):
        made = clamp(w, made)
    if w.chance(0.85):
        made = w.quantised(made)
        if w.chance(0.25):
            made = w.quantised(clamp(w, made))
    elif w.chance(0.5):
        return  # dead
    w.reals.append(made)
