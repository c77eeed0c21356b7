"""QuantizeLinear and DequantizeLinear, and the helpers that write them for QOperator nodes.

In the graph their scale (float32) and zero point (int32) are attributes: scalars for a tensor,
vectors with `axis` for channels.
"""

from __future__ import annotations

import numpy as np
import onnx

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.registry import OnnxNode, importer
from autoq.graph.constants import dequantised
from autoq.graph.fused import LARGEST_SCALE
from autoq.graph.ir import Operation
from autoq.templates.arrays.element import INTEGER_RANGE

Number = np.ndarray | np.generic

_QUANTISED = tuple(INTEGER_RANGE)
_INTEGERS = (*_QUANTISED, "int32")


def constant_scalar(b: GraphBuilder, name: str | None, role: str) -> int:
    """An integer given as a constant of one element, 0 where it is left out."""
    if name is None:
        return 0
    value = b.constant(name, role)
    if value.size != 1:
        raise b.error(f"{role} of shape {list(value.shape)}: one number is supported")
    return int(value.reshape(()))


def operator_scale(b: GraphBuilder, name: str, role: str) -> np.ndarray:
    """The scale of a QOperator node, whose arithmetic is of integers and never overflows.

    In float32, which is what the node becomes, it would with scales beyond LARGEST_SCALE.
    """
    scale = b.constant(name, role)
    if np.any(np.isfinite(scale) & (scale > LARGEST_SCALE)):
        raise b.error(f"its {role} {scale.max():.3g}; at most {LARGEST_SCALE:.3g} is supported")
    return scale


def _attributes(
    b: GraphBuilder, shape: tuple[int, ...], scale: Number, zero_point: Number,
    axis: int | None,
) -> dict[str, object]:  # fmt: skip
    scale = np.asarray(scale)
    if scale.dtype != np.float32:
        raise b.error(f"a scale of {scale.dtype}; float32 is supported")
    if not np.all(np.isfinite(scale)) or not np.all(scale > 0):
        raise b.error("a scale that is not a positive number; quantise the model again")
    zero_points = np.asarray(zero_point).astype(np.int32)
    if axis is None or scale.size == 1:
        if scale.size != 1 or zero_points.size != 1:
            raise b.error(f"scale {list(scale.shape)} and zero point {list(zero_points.shape)}")
        return {"scale": scale.reshape(()), "zero_point": zero_points.reshape(()), "axis": None}
    axis = axis + len(shape) if axis < 0 else axis
    if scale.ndim != 1 or axis >= len(shape) or scale.size != shape[axis]:
        raise b.error(
            f"scale {list(scale.shape)} along axis {axis} of {list(shape)}; "
            "one scale a tensor or one a channel is supported"
        )
    zero_points = np.broadcast_to(zero_points.reshape(-1), scale.shape)
    return {"scale": scale, "zero_point": zero_points, "axis": axis}


def dequantise(
    b: GraphBuilder, x: str, scale: Number, zero_point: Number, axis: int | None = None
) -> str:
    """A DequantizeLinear of `x` to float32."""
    dtype = b.dtype(x)
    if dtype not in _INTEGERS:
        raise b.error(f"integers of dtype {dtype}; {', '.join(_INTEGERS)} are supported")
    attributes = _attributes(b, b.shape(x), scale, zero_point, axis)
    if dtype in INTEGER_RANGE:
        least, most = INTEGER_RANGE[dtype]
        outside = [z for z in np.ravel(attributes["zero_point"]) if not least <= z <= most]
        if outside:
            raise b.error(f"a zero point of {outside[0]} for {dtype}, which has {least} to {most}")
    return b.emit("DequantizeLinear", [x], "float32", **attributes)


def dequantise_blocks(
    b: GraphBuilder, x: str, scale: np.ndarray, zero_point: np.ndarray, axis: int, block: int
) -> str:
    """A DequantizeBlocks of a constant matrix to float32, one scale for `block` numbers of `axis`.

    scale and zero_point have the matrix's shape with ceil(size / block) along the axis. A constant
    of another rank becomes a float32 one.
    """
    shape, rank = b.shape(x), len(b.shape(x))
    if x not in b.graph.constants or b.dtype(x) not in _QUANTISED:
        raise b.error("blocked scales of anything but a constant of 8 or 4 bits")
    if block < 1 or axis not in range(-rank, rank):
        raise b.error(f"blocks of {block} along axis {axis} of {rank} axes")
    axis %= rank
    blocks = list(shape)
    blocks[axis] = -(-shape[axis] // block)
    if list(scale.shape) != blocks or list(zero_point.shape) != blocks:
        raise b.error(
            f"scale {list(scale.shape)} and zero point {list(zero_point.shape)} for blocks of "
            f"{block} along axis {axis} of {list(shape)}"
        )
    if scale.dtype != np.float32 or not np.all(np.isfinite(scale)):
        raise b.error("a scale that is no float32 or float16 number")
    attributes = {"scale": scale, "zero_point": zero_point.astype(np.int32), "axis": axis}
    if rank != 2:
        node = Operation("DequantizeBlocks", b.node_name, (x,), "", {**attributes, "block": block})
        return b.add_constant(dequantised(b.graph.constants[x], node))
    return b.emit("DequantizeBlocks", [x], "float32", **attributes, block=block)


def dequantise_bias(b: GraphBuilder, bias: str, x_scale: Number, w_scale: Number) -> str:
    """A DequantizeLinear of an int32 bias [k], whose scale is that of the products."""
    scale = np.asarray(x_scale, np.float32).reshape(()) * np.asarray(w_scale, np.float32)
    axis = 0 if scale.size > 1 else None
    return dequantise(b, bias, scale, np.int32(0), axis)


def quantise(b: GraphBuilder, x: str, scale: Number, zero_point: Number) -> str:
    """A QuantizeLinear of float32 `x`, one scale for the tensor, to the zero point's dtype."""
    dtype = str(np.asarray(zero_point).dtype)
    if dtype not in _QUANTISED:
        raise b.error(f"quantisation to {dtype}; {', '.join(_QUANTISED)} are supported")
    attributes = _attributes(b, b.shape(x), scale, zero_point, None)
    return b.emit("QuantizeLinear", [x], dtype, **attributes)


@importer("QuantizeLinear")
@importer("QuantizeLinear", domain="com.microsoft")
def quantize_linear(node: OnnxNode, b: GraphBuilder) -> str:
    """Per-tensor quantisation to 8 or 4 bits."""
    if node.attributes.get("block_size", 0):
        raise b.error("blocks of activations; quantise activations with one scale a tensor")
    if b.dtype(node.required(0, b)) != "float32":
        raise b.error(f"an input of {b.dtype(node.required(0, b))}; float32 is supported")
    scale = b.constant(node.required(1, b), "scale")
    if node.input(2) is not None:
        zero_point = b.constant(node.required(2, b), "zero point")
    else:
        kind = node.attributes.get("output_dtype", 0) or onnx.TensorProto.UINT8
        zero_point = np.zeros(scale.shape, onnx.helper.tensor_dtype_to_np_dtype(kind))
    if scale.size > 1:
        raise b.error("per-channel activations; quantise activations with one scale a tensor")
    return quantise(b, node.required(0, b), scale, zero_point)


@importer("DequantizeLinear")
@importer("DequantizeLinear", domain="com.microsoft")
def dequantize_linear(node: OnnxNode, b: GraphBuilder) -> str:
    """Activations have a scale a tensor, weights one a tensor, a channel or a block."""
    x = node.required(0, b)
    scale = b.constant(node.required(1, b), "scale")
    name = node.input(2)
    zero_point = b.constant(name, "zero point") if name else np.zeros(scale.shape, b.dtype(x))
    axis, block = int(node.attributes.get("axis", 1)), int(node.attributes.get("block_size", 0))
    if block:
        return dequantise_blocks(b, x, scale, zero_point, axis, block)
    return dequantise(b, x, scale, zero_point, axis)
