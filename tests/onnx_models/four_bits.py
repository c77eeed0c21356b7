"""QDQ models of opset 21 with INT4 and UINT4 tensors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx

from onnx_models.makers import model, node
from onnx_models.operators import IMAGE

_RNG = np.random.default_rng(23)
OPSET = 21
DTYPES = {"int4": np.dtype(ml_dtypes.int4), "uint4": np.dtype(ml_dtypes.uint4)}
"""numpy dtypes by name; their arrays hold one value a byte."""


def numbers(dtype: str, *shape: int) -> np.ndarray:
    """Random numbers over the whole range of a quantised dtype."""
    limits = ml_dtypes.iinfo(np.dtype(dtype))
    return _RNG.integers(int(limits.min), int(limits.max) + 1, shape).astype(np.dtype(dtype))


def scheme(prefix: str, scale: float, zero_point: int, dtype: str) -> dict[str, np.ndarray]:
    """Constants `<prefix>s` and `<prefix>z`."""
    return {f"{prefix}s": np.float32(scale), f"{prefix}z": np.array(zero_point, np.dtype(dtype))}


def weight(
    shape: tuple[int, ...], dtype: str, zero_point: int = 0, axis: int | None = 0
) -> tuple[onnx.NodeProto, dict[str, np.ndarray]]:
    """The dequantisation `w` of constant weights, one scale a channel or (axis None) a tensor."""
    count = () if axis is None else (shape[axis],)
    constants = {
        "wq": numbers(dtype, *shape),
        "ws": _RNG.uniform(0.02, 0.1, count).astype(np.float32),
        "wz": np.full(count, zero_point, np.dtype(dtype)),
    }
    attributes = {} if axis is None else {"axis": axis}
    return node("DequantizeLinear", "wq ws wz", "w", **attributes), constants


def bias(x_scale: float, known: dict[str, np.ndarray], k: int) -> onnx.NodeProto:
    """The dequantisation `b` of an int32 bias [k], as exporters write it; adds its constants."""
    known["bq"] = _RNG.integers(-40, 41, k).astype(np.int32)
    known["bs"] = np.float32(x_scale) * np.broadcast_to(known["ws"], (k,))
    return node("DequantizeLinear", "bq bs", "b", axis=0)


def conv(
    activation: str, weights: str, zero_points: tuple[int, int] = (0, 0),
    output: str | None = None, axis: int | None = 0, shape: tuple[int, ...] = (8, 6, 3, 3),
    tail: list[onnx.NodeProto] | None = None, **attributes: object,
) -> onnx.ModelProto:  # fmt: skip
    """float x -> Q -> DQ -> Conv of quantised weights -> [tail from c to r] -> Q -> DQ -> y."""
    zero_point, weight_zero_point = zero_points  # those of the input and the weights
    dequantise, known = weight(shape, weights, weight_zero_point, axis)
    attributes.setdefault("pads", [1, 1, 1, 1])
    end = "r" if tail else "c"
    output = output or activation
    biased = bias(0.183, known, shape[0])
    constants = {
        **known, **scheme("x", 0.183, zero_point, activation),
        **scheme("y", 0.417, zero_point // 2, output),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"), node("DequantizeLinear", "q xs xz", "d"),
        dequantise, biased, node("Conv", "d w b", "c", **attributes), *(tail or []),
        node("QuantizeLinear", f"{end} ys yz", "p"), node("DequantizeLinear", "p ys yz"),
    ]  # fmt: skip
    return model(nodes, {"x": (IMAGE, "float32")}, constants, opset=OPSET)


def between(
    body: list[onnx.NodeProto], dtype: str, scale: float = 0.321, **constants: np.ndarray
) -> onnx.ModelProto:
    """float x -> Q -> DQ (as `d`) -> body (to `r`) -> Q of `scale` -> DQ -> y."""
    zero_point = 6 if dtype == "uint4" else -3
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"), node("DequantizeLinear", "q xs xz", "d"), *body,
        node("QuantizeLinear", "r rs rz", "p"), node("DequantizeLinear", "p rs rz"),
    ]  # fmt: skip
    known = {
        **scheme("x", 0.237, zero_point, dtype), **scheme("r", scale, zero_point - 2, dtype),
        **constants,
    }  # fmt: skip
    return model(nodes, {"x": (IMAGE, "float32")}, known, opset=OPSET)


def residual(dtype: str) -> onnx.ModelProto:
    """A convolution that is quantised, added to its input, clamped and quantised again."""
    tail = [
        node("QuantizeLinear", "c es ez", "e"), node("DequantizeLinear", "e es ez", "f"),
        node("Add", "f d", "g"), node("Relu", "g", "r"),
    ]  # fmt: skip
    made = conv(dtype, "int4", (5 if dtype == "uint4" else -2, 0), shape=(6, 6, 3, 3), tail=tail)
    for name, array in scheme("e", 0.29, 1, dtype).items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return made


def gemm(dtype: str) -> onnx.ModelProto:
    """A flattened image through a Gemm, whose output stays float32."""
    dequantise, known = weight((10, int(np.prod(IMAGE[1:]))), "int4")
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"), node("DequantizeLinear", "q xs xz", "d"),
        node("Flatten", "d", "e"), dequantise, bias(0.211, known, 10),
        node("Gemm", "e w b", transB=1),
    ]  # fmt: skip
    constants = {**known, **scheme("x", 0.211, 3, dtype)}
    return model(nodes, {"x": (IMAGE, "float32")}, constants, opset=OPSET)


def matmul(dtype: str) -> onnx.ModelProto:
    """Rows of an image times a matrix with one scale a column; no zero points anywhere."""
    dequantise, known = weight((IMAGE[3], 14), "int4", axis=1)
    del known["wz"], dequantise.input[2]
    kind = onnx.helper.np_dtype_to_tensor_dtype(DTYPES[dtype])
    nodes = [
        node("QuantizeLinear", "x xs", "q", output_dtype=kind),
        node("DequantizeLinear", "q xs", "d"), dequantise, node("MatMul", "d w", "c"),
        node("QuantizeLinear", "c ys", "p", output_dtype=kind), node("DequantizeLinear", "p ys"),
    ]  # fmt: skip
    constants = {**known, "xs": np.float32(0.213), "ys": np.float32(0.337)}
    return model(nodes, {"x": (IMAGE, "float32")}, constants, opset=OPSET)


def batch_norm(dtype: str) -> onnx.ModelProto:
    """A convolution whose channels are scaled and shifted before they are quantised."""
    tail = [node("Mul", "c m", "e"), node("Add", "e a", "r")]
    made = conv(dtype, "int4", (2, 0), tail=tail)
    values = {"m": _RNG.uniform(0.5, 1.5, (8, 1, 1)), "a": _RNG.normal(0, 1, (1, 8, 1, 1))}
    for name, array in values.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    return made


_PORT_WEIGHT = weight((8, 6, 3, 3), "int4")


def integer_ports(dtype: str, floats: bool) -> onnx.ModelProto:
    """A convolution and a pool from `x` to `y` and `z` of 4 bits, and `x` transposed as `t`.

    `floats` gives the same numbers in float32 at the graph's ends, for a runtime that takes no
    4-bit arrays.
    """
    dequantise, known = _PORT_WEIGHT
    unit = {"one": np.float32(1), "none": np.array(0, np.dtype(dtype))}
    constants = {**known, **scheme("x", 0.183, 3, dtype), **scheme("y", 0.417, 2, dtype), **unit}
    nodes = [
        node("DequantizeLinear", "a xs xz", "d"), dequantise,
        node("Conv", "d w", "c", pads=[1, 1, 1, 1]), node("QuantizeLinear", "c ys yz", "b"),
        node("MaxPool", "d", "m", kernel_shape=[2, 2]), node("QuantizeLinear", "m xs xz", "p"),
        node("Transpose", "a", "s", perm=[0, 3, 1, 2]),
    ]  # fmt: skip
    if floats:
        ends = [node("QuantizeLinear", "x one none", "a")]
        starts = [node("DequantizeLinear", f"{a} one none", b) for a, b in ("by", "pz", "st")]
        return model([*ends, *nodes, *starts], {"x": (IMAGE, "float32")}, constants, "yzt", OPSET)
    names = {"a": "x", "b": "y", "p": "z", "s": "t"}
    for made in nodes:
        made.input[:] = [names.get(name, name) for name in made.input]
        made.output[:] = [names.get(name, name) for name in made.output]
    return model(nodes, {"x": (IMAGE, dtype)}, constants, "yzt", OPSET)


def _cases() -> dict[str, onnx.ModelProto]:
    cases = {
        "conv_weights_4_activations_8": conv("uint8", "int4", (120, 0)),
        "conv_weights_u4_activations_8": conv("int8", "uint4", (-5, 8)),
        "conv_weights_u4_zero_point_3": conv("uint4", "uint4", (2, 3)),
        "conv_weights_by_tensor": conv("int4", "int4", axis=None),
        "conv_groups_stride": conv(
            "uint4", "int4", (4, 0), shape=(8, 3, 3, 3), group=2, strides=[2, 2], dilations=[1, 2],
            pads=[1, 2, 0, 1],
        ),
        "conv_8_to_4": conv("uint8", "int8", (117, 0), output="int4"),
        "conv_4_to_8": conv("int4", "int4", (3, 0), output="uint8"),
    }  # fmt: skip
    for dtype in DTYPES:
        cases[f"conv_{dtype}"] = conv(dtype, "int4", (6, 0))
        cases[f"conv_relu_{dtype}"] = conv(dtype, "int4", (0, 0), tail=[node("Relu", "c", "r")])
        cases[f"residual_{dtype}"] = residual(dtype)
        cases[f"gemm_{dtype}"] = gemm(dtype)
        cases[f"matmul_{dtype}"] = matmul(dtype)
        cases[f"batch_norm_{dtype}"] = batch_norm(dtype)
        window = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
        cases[f"max_pool_{dtype}"] = between([node("MaxPool", "d", "r", **window)], dtype)
        cases[f"average_pool_{dtype}"] = between([node("AveragePool", "d", "r", **window)], dtype)
        gaps = {"kernel_shape": [2, 3], "dilations": [3, 2]}
        cases[f"max_pool_dilated_{dtype}"] = between([node("MaxPool", "d", "r", **gaps)], dtype)
        cases[f"concat_{dtype}"] = between(
            [node("Relu", "d", "e"), node("Concat", "d e", "r", axis=1)], dtype
        )
        cases[f"sigmoid_{dtype}"] = between([node("Sigmoid", "d", "r")], dtype, 0.083)
        cases[f"softmax_{dtype}"] = between([node("Softmax", "d", "r", axis=1)], dtype, 0.059)
        cases[f"pad_{dtype}"] = between(
            [node("Pad", "d edges", "r")], dtype, edges=np.int64([0, 0, 1, 1, 0, 0, 2, 0])
        )
        cases[f"transposed_{dtype}"] = between(
            [node("Transpose", "d", "e", perm=[0, 2, 3, 1]), node("Relu", "e", "r")], dtype
        )
        cases[f"added_{dtype}"] = between(
            [node("MaxPool", "d", "e", kernel_shape=[1, 1]), node("Add", "d e", "r")], dtype
        )
    return cases


FOUR_BIT_CASES = _cases()
