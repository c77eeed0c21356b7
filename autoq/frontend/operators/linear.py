"""Fully connected layers and matrix products.

The graph's Gemm is `x [m, k]` with `weight [n, k]` (and `bias [n]`); a MatMul with constant weights
becomes one.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import emit_transposed
from autoq.frontend.operators.qdq import (
    dequantise,
    dequantise_bias,
    dequantise_blocks,
    operator_scale,
    quantise,
)
from autoq.frontend.registry import OnnxNode, importer


@importer("Gemm")
def gemm(node: OnnxNode, b: GraphBuilder) -> str:
    """`alpha * A' B' + beta * C`."""
    c = node.input(2)
    return _emit_gemm(node, b, node.required(0, b), node.required(1, b), c)


def _emit_products(node: OnnxNode, b: GraphBuilder, x: str, weight: str) -> str:
    """A Gemm of `x` and `weight` transposed as the node says, without alpha, beta and C."""
    if len(b.shape(x)) != 2 or len(b.shape(weight)) != 2:
        raise b.error(f"matrices of shapes {list(b.shape(x))} and {list(b.shape(weight))}")
    if node.flag("transA", b):
        x = b.emit("Transpose", [x], perm=(1, 0))
    if not node.flag("transB", b):
        weight = emit_transposed(b, weight)
    return b.emit("Gemm", [x, weight])


def _emit_gemm(node: OnnxNode, b: GraphBuilder, x: str, weight: str, c: str | None) -> str:
    y = _emit_products(node, b, x, weight)
    alpha = float(node.attributes.get("alpha", 1.0))
    beta = float(node.attributes.get("beta", 1.0))
    if alpha != 1.0:
        y = b.emit("Mul", [y, b.add_constant(np.float32(alpha))])
    if c is not None and beta != 0.0:
        if beta != 1.0:
            c = b.emit("Mul", [c, b.add_constant(np.float32(beta))])
        y = b.emit("Add", [y, c])
    return y


@importer("MatMul")
def matmul(node: OnnxNode, b: GraphBuilder) -> str:
    """Matrix product with numpy's broadcasting; a vector is a row on the left, else a column."""
    x, other = node.required(0, b), node.required(1, b)
    shapes = b.shape(x), b.shape(other)
    if min(map(len, shapes)) > 1 or not all(shapes):
        return emit_matmul(b, x, other)
    x = b.emit("Reshape", [x], shape=(1, *shapes[0])) if len(shapes[0]) == 1 else x
    other = b.emit("Reshape", [other], shape=(*shapes[1], 1)) if len(shapes[1]) == 1 else other
    y = emit_matmul(b, x, other)
    rows = b.shape(y)[:-2] if len(shapes[0]) == 1 else b.shape(y)[:-1]
    columns = () if len(shapes[1]) == 1 else b.shape(y)[-1:]
    return b.emit("Reshape", [y], shape=(*rows, *columns))


def emit_matmul(b: GraphBuilder, x: str, weight: str) -> str:
    """A Gemm where one matrix is constant, a MatMul of rows where the second is one matrix.

    Else a MatMul of batches. A constant on the left is one on the right of transposed matrices.
    """
    x_shape, shape = b.shape(x), b.shape(weight)
    one_matrix = b.is_constant(weight) and math.prod(shape[:-2]) == 1
    if len(x_shape) < 1 or len(shape) < 2 or (len(x_shape) < 2 and not one_matrix):
        raise b.error(f"MatMul of shapes {list(x_shape)} and {list(shape)}; use matrices")
    if x_shape[-1] != shape[-2]:
        raise b.error(f"matrices {list(x_shape)} and {list(shape)} do not multiply")
    if len(x_shape) == 2 and b.is_constant(x) and not b.is_constant(weight):
        swap = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        turned = b.emit("Transpose", [weight], perm=swap)
        y = emit_matmul(b, turned, emit_transposed(b, x))
        return b.emit("Transpose", [y], perm=swap)
    if math.prod(shape[:-2]) > 1:
        return b.emit("MatMul", [x, weight], "float32")
    outer = (1,) * (len(shape) - max(len(x_shape), 2))
    whole = (*outer, *x_shape[:-1], shape[-1])
    if len(shape) > 2:
        weight = b.emit("Reshape", [weight], shape=tuple(shape[-2:]))
    rows = math.prod(x_shape[:-1])
    flat = x if len(x_shape) == 2 else b.emit("Reshape", [x], shape=(rows, shape[-2]))
    if b.is_constant(weight):
        y = b.emit("Gemm", [flat, emit_transposed(b, weight)])
    else:
        y = b.emit("MatMul", [flat, weight], "float32")
    return y if whole == b.shape(y) else b.emit("Reshape", [y], shape=whole)


@importer("QLinearMatMul")
@importer("QLinearMatMul", domain="com.microsoft")
def qlinear_matmul(node: OnnxNode, b: GraphBuilder) -> str:
    """DequantizeLinear of both, MatMul, QuantizeLinear."""
    a_scale, b_scale, y_scale = (
        operator_scale(b, node.required(i, b), f"{name}_scale")
        for i, name in ((1, "a"), (4, "b"), (6, "y"))
    )
    a_zero, b_zero, y_zero = (b.constant(node.required(i, b), "zero point") for i in (2, 5, 7))
    x = dequantise(b, node.required(0, b), a_scale.reshape(()), a_zero.reshape(()))
    weight = dequantise(
        b, node.required(3, b), b_scale, b_zero, axis=1 if b_scale.size > 1 else None
    )
    return quantise(b, emit_matmul(b, x, weight), y_scale, y_zero)


_LEVELS = {2: "float16", 3: "bfloat16", 4: "bfloat16"}
"""The floats that activations may be rounded to by a MatMulNBits's accuracy_level: 4 allows bytes,
which are as coarse as bfloat16 within a block and reach as far."""


@importer("MatMulNBits", domain="com.microsoft")
def matmul_nbits(node: OnnxNode, b: GraphBuilder) -> str:
    """A product with a constant [n, k] of 2, 4 or 8 bits that has a scale for each block of k."""
    bits, block = int(node.attributes.get("bits", 4)), int(node.attributes["block_size"])
    n, k = int(node.attributes["N"]), int(node.attributes["K"])
    if bits not in (2, 4, 8) or block < 2 or n < 1 or k < 1:
        raise b.error(f"{n}x{k} weights of {bits} bits in blocks of {block}; 2, 4 and 8 bits do")
    blocks = -(-k // block)
    x, packed = node.required(0, b), b.constant(node.required(1, b), "B")
    if not b.shape(x) or b.shape(x)[-1] != k:
        raise b.error(f"rows of {list(b.shape(x))[-1:]} numbers for K = {k}")
    if packed.dtype != np.uint8 or packed.size != n * blocks * (-(-block * bits // 8)):
        raise b.error(f"weights {packed.dtype}{list(packed.shape)} for {n}x{k} of {bits} bits")
    if node.input(4) is not None:
        order = b.constant(node.required(4, b), "g_idx")
        if not np.array_equal(order, np.arange(order.size) // block):
            raise b.error("its g_idx is not the order of blocks; other orders are not supported")
    values = _unpacked(packed.reshape(n, blocks, -1), bits)[:, :, :block]
    scale = b.constant(node.required(2, b), "scales")
    zero_point: np.ndarray = np.full((n, blocks), 1 << (bits - 1), np.uint8)
    if node.input(3) is not None:
        given = b.constant(node.required(3, b), "zero_points")
        zero_point = _zero_points(b, given.reshape(n, -1), bits)[:, :blocks]
    if bits == 2:  # as numbers of 4 bits around the same middle
        values, zero_point = values + 6, zero_point + np.uint8(6)
    dtype = np.dtype(np.uint8) if bits == 8 else np.dtype(ml_dtypes.uint4)
    whole = blocks > 1  # the last block is filled up: kernels take whole ones
    if whole:
        values.reshape(n, -1)[:, k:] = zero_point[:, -1:]
    weight = b.add_constant(values.reshape(n, -1)[:, : None if whole else k].astype(dtype))
    weight = dequantise_blocks(b, weight, scale.reshape(n, blocks), zero_point, 1, block)
    rows = math.prod(b.shape(x)[:-1])
    flat = x if len(b.shape(x)) == 2 else b.emit("Reshape", [x], shape=(rows, k))
    missing = b.shape(weight)[1] - k
    if missing:
        flat = b.emit("Pad", [flat], before=(0, 0), after=(0, missing), value=0.0)
    level = int(node.attributes.get("accuracy_level", 0))
    allowed = {"allowed_floats": _LEVELS[level]} if level in _LEVELS else {}
    y = b.emit("Gemm", [flat, weight], **allowed)
    if len(b.shape(x)) != 2:
        y = b.emit("Reshape", [y], shape=(*b.shape(x)[:-1], n))
    return y if node.input(5) is None else b.emit("Add", [y, node.required(5, b)])


def _zero_points(b: GraphBuilder, given: np.ndarray, bits: int) -> np.ndarray:
    """Zero points of rows [n, bytes], two or more a byte, or of floats [n, blocks], as uint8."""
    if given.dtype == np.uint8:
        return _unpacked(given, bits)
    whole = np.rint(given.astype(np.float32))
    if np.any(whole != given) or whole.min() < 0 or whole.max() >= 1 << bits:
        raise b.error(
            f"zero_points of {given.dtype} that are no whole numbers of {bits} bits; quantise with "
            "those of uint8"
        )
    return whole.astype(np.uint8)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The values in each byte, the lowest first, along the last axis."""
    shifts = range(0, 8, bits)
    values = np.stack([packed >> shift & ((1 << bits) - 1) for shift in shifts], axis=-1)
    return values.reshape(*packed.shape[:-1], -1)


@importer("QGemm", domain="com.microsoft")
def qgemm(node: OnnxNode, b: GraphBuilder) -> str:
    """DequantizeLinear of both and of the int32 bias, Gemm, QuantizeLinear where asked for."""
    a_scale, b_scale = (
        operator_scale(b, node.required(i, b), f"{name}_scale") for i, name in ((1, "a"), (4, "b"))
    )
    a_zero, b_zero = (b.constant(node.required(i, b), "zero point") for i in (2, 5))
    x = dequantise(b, node.required(0, b), a_scale, a_zero)
    axis = None
    if b_scale.size > 1:
        axis = 0 if node.flag("transB", b) else 1
    weight = dequantise(b, node.required(3, b), b_scale, b_zero, axis=axis)
    bias = node.input(6)
    if bias is not None:
        flat = b.emit("Reshape", [bias], shape=(math.prod(b.shape(bias)),))
        scale = b_scale if np.size(b_scale) == 1 else np.reshape(b_scale, -1)
        bias = dequantise_bias(b, flat, a_scale, scale)
    # The sums, bias included, are scaled by alpha; there is no beta.
    y = _emit_products(node, b, x, weight)
    if bias is not None:
        y = b.emit("Add", [y, bias])
    alpha = float(node.attributes.get("alpha", 1.0))
    if alpha != 1.0:
        y = b.emit("Mul", [y, b.add_constant(np.float32(alpha))])
    if node.input(7) is None:
        return y
    scale = operator_scale(b, node.required(7, b), "y_scale")
    return quantise(b, y, scale, b.constant(node.required(8, b), "y_zero_point"))
