"""Random QDQ models: every operator of a quantised network, schemes that need not fit together.

Tensors are shared, dead, outputs in the middle of a chain, read twice by one node; some
DequantizeLinear undo the QuantizeLinear before them and some do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx

from qdq import matrices
from qdq.blocks import branches, heads, picked
from qdq.products import affine, chain, clamp, conv, gemm, matmul, residual
from qdq.selections import conv_transpose, selected
from qdq.writer import FOUR_BITS, GraphWriter, Real


def random_model(
    rng: np.random.Generator, exact: bool, matrices: bool = False, blocks: bool = False
) -> onnx.ModelProto:
    """A model of 3 to 14 layers over one or two inputs, float32 or integers.

    exact: scales are powers of two, so that most of its arithmetic rounds nothing. matrices: most
    layers are of rows and batches of matrices, not of images. blocks: half of the layers are those
    of `qdq.blocks`, and there are up to 6.
    """
    writer = GraphWriter(rng, exact)
    layers = MATRIX_LAYERS if matrices else LAYERS
    for _ in range(int(rng.integers(2, 7) if blocks else rng.integers(3, 15))):
        layer(writer, BLOCKS if blocks and writer.chance(0.5) else layers)
    return writer.finish()


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


def gate(w: GraphWriter) -> Real | None:
    """A tensor times a function of itself, as in SiLU, with or without quantisations between."""
    x = w.pick()
    op = str(w.choose(["Sigmoid", "HardSigmoid", "Tanh"]))
    attributes = {"alpha": 0.25, "beta": 0.5} if op == "HardSigmoid" else {}
    y = w.node(op, [x.name], x.shape, **attributes)
    y = w.quantised(y) if w.chance(0.7) else y
    if y.shape != x.shape:
        return None
    return w.node(str(w.choose(["Mul", "Mul", "Add"])), [x.name, y.name], x.shape)


def scaled(w: GraphWriter) -> Real | None:
    """A constant for each channel, or one for all, behind anything."""
    x = w.pick()
    if len(x.shape) in (2, 4) and w.chance(0.5):
        return affine(w, x)
    value = float(w.choose([-1.0, -0.5, 0.0, 0.25, 2.0]))
    names = [x.name, w.constant(value, "float32")]
    op = str(w.choose(["Mul", "Add", "Sub", "Max", "Min"]))
    return w.node(op, names[:: int(w.choose([1, -1]))], x.shape)


def pool(w: GraphWriter) -> Real | None:
    """A maximum or an average of windows or of whole images; some maxima are of integers."""
    x = w.pick(rank=4)
    images = [y for y in w.integers if len(y.shape) == 4 and y.dtype not in FOUR_BITS]
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
    if w.opset == 17:
        return w.node("ReduceMean", [x.name], shape, axes=[axis])
    return w.node("ReduceMean", [x.name, w.constant([axis], "int64")], shape)


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
    *[conv] * 3,
    *[residual] * 3,
    chain,
    gemm,
    matmul,
    *[binary] * 2,
    *[unary] * 2,
    gate,
    scaled,
    *[pool] * 2,
    transpose,
    *[movement] * 2,
    *[concat] * 2,
    shuffle,
    *[selected] * 2,
    conv_transpose,
]
MATRIX_LAYERS: list[Layer] = [
    *[matrices.tokens] * 2, *[matrices.rows] * 4, matrices.gemm, *[matrices.batched] * 3,
    *[matrices.attention] * 3, *[matrices.layer_scale] * 3, *[binary] * 2, *[unary] * 2, transpose,
    movement, concat, conv, selected,
]  # fmt: skip

BLOCKS: list[Layer] = [branches, *[heads] * 2, *[picked] * 2]


def layer(w: GraphWriter, layers: list[Layer]) -> None:
    """One operator, then mostly clamps and a quantisation."""
    made = w.choose(layers)(w)
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
