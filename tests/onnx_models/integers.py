"""Models written in integers: QOperator nodes of onnx and onnxruntime, and hand-made QDQ."""

from __future__ import annotations

import numpy as np
import onnx

from onnx_models.makers import MICROSOFT, model, node, with_known_output
from onnx_models.operators import IMAGE

_RNG = np.random.default_rng(11)


def integers(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return _RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def scales(k: int) -> np.ndarray:
    return _RNG.uniform(0.002, 0.01, k).astype(np.float32)


def scheme(prefix: str, scale: float, zero_point: int, dtype: str) -> dict[str, np.ndarray]:
    """Constants `<prefix>s` and `<prefix>z`."""
    return {f"{prefix}s": np.float32(scale), f"{prefix}z": np.array(zero_point, dtype)}


def qlinear_conv(dtype: str, zero_point: int, weight: str = "int8", **attributes: object):
    """A QLinearConv with a bias, per-channel weight scales and a padded border."""
    groups = attributes.get("group", 1)
    w = integers(weight, 8, IMAGE[1] // groups, 3, 3)
    constants = {
        **scheme("x", 0.0213, zero_point, dtype),
        "w": w,
        "ws": scales(8),
        "wz": np.full(8, 128 if weight == "uint8" else 0, weight),
        **scheme("y", 0.0517, zero_point // 2, dtype),
        "b": _RNG.integers(-3000, 3000, 8).astype(np.int32),
    }
    attributes.setdefault("pads", [1, 1, 1, 1])
    made = node("QLinearConv", "x xs xz w ws wz ys yz b", **attributes)
    return model([made], {"x": (IMAGE, dtype)}, constants)


def conv_integer(dtype: str, weight: str, weight_zero_point: int) -> onnx.ModelProto:
    """ConvInteger, then the scaling that dynamic quantisation puts behind it."""
    constants = {
        "w": integers(weight, 5, IMAGE[1], 3, 3),
        "xz": np.array(7, dtype),
        "wz": np.array(weight_zero_point, weight),
        "s": np.float32(0.01),
    }
    nodes = [
        node("ConvInteger", "x w xz wz", "a", pads=[1, 1, 1, 1]),
        node("Cast", "a", "f", to=onnx.TensorProto.FLOAT),
        node("Mul", "f s"),
    ]
    return model(nodes, {"x": (IMAGE, dtype)}, constants)


def quantised(body: list[onnx.NodeProto], dtype: str, constants: dict[str, np.ndarray]):
    """float x -> Q -> DQ (as `d`) -> body (to `r`) -> Q -> DQ -> y, s8 or u8."""
    zero = 100 if dtype == "uint8" else -20
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"),
        node("DequantizeLinear", "q xs xz", "d"),
        *body,
        node("QuantizeLinear", "r rs rz", "p"),
        node("DequantizeLinear", "p rs rz"),
    ]
    known = {
        **scheme("x", 0.0307, zero, dtype), **scheme("r", 0.0413, zero + 9, dtype), **constants
    }  # fmt: skip
    return model(nodes, {"x": (IMAGE, "float32")}, known)


def dequantised_weight(name: str, *shape: int, axis: int = 0) -> tuple[onnx.NodeProto, dict]:
    constants = {
        f"{name}q": integers("int8", *shape),
        f"{name}s": scales(shape[axis]),
        f"{name}z": np.zeros(shape[axis], np.int8),
    }
    made = node("DequantizeLinear", f"{name}q {name}s {name}z", name, axis=axis)
    return made, constants


def qdq_conv(dtype: str, tail: list[onnx.NodeProto], output: str, **constants: np.ndarray):
    weight, known = dequantised_weight("w", 6, 6, 3, 3)
    bias = {"b": _RNG.standard_normal(6, np.float32)}
    nodes = [weight, node("Conv", "d w b", "c", pads=[1, 1, 1, 1]), *tail]
    nodes[-1].output[0] = "r" if output == nodes[-1].output[0] else nodes[-1].output[0]
    return quantised(nodes, dtype, {**known, **bias, **constants})


def qlinear_binary(op: str, dtype: str) -> onnx.ModelProto:
    constants = {
        **scheme("a", 0.0219, 3, dtype),
        **scheme("b", 0.0523, 40, dtype),
        **scheme("y", 0.0611, 9, dtype),
    }  # fmt: skip
    made = node(op, "a as az b bs bz ys yz", domain=MICROSOFT)
    return model([made], {"a": (IMAGE, dtype), "b": (IMAGE, dtype)}, constants)


def qlinear_unary(
    op: str, scale: float, zero_point: int, dtype: str = "uint8", shape=IMAGE, **attributes
):
    constants = {**scheme("x", 0.0503, 60, dtype), **scheme("y", scale, zero_point, dtype)}
    made = node(op, "x xs xz ys yz", domain=MICROSOFT, **attributes)
    return model([made], {"x": (shape, dtype)}, constants)


def _microsoft() -> dict[str, onnx.ModelProto]:
    n, c, h, w = IMAGE
    cases = {}
    for op in ("QLinearAdd", "QLinearMul"):
        for dtype in ("int8", "uint8"):
            cases[f"{op}_{dtype}"] = with_known_output(qlinear_binary(op, dtype), IMAGE, dtype)
    unary = {
        "QLinearSigmoid": (qlinear_unary("QLinearSigmoid", 0.0039, 0), IMAGE),
        "QLinearLeakyRelu": (qlinear_unary("QLinearLeakyRelu", 0.0611, 30, alpha=0.1), IMAGE),
        "QLinearSoftmax": (qlinear_unary("QLinearSoftmax", 0.0039, 0, axis=1, opset=13), IMAGE),
        "QLinearSoftmax_old": (
            qlinear_unary("QLinearSoftmax", 0.0039, 0, axis=2, opset=11), IMAGE
        ),
        "QLinearSoftmax_default_axis": (
            qlinear_unary("QLinearSoftmax", 0.0039, 0, opset=11), IMAGE
        ),
        "QLinearAveragePool": (
            qlinear_unary("QLinearAveragePool", 0.0409, 50, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            IMAGE,
        ),
        "QLinearGlobalAveragePool": (
            qlinear_unary("QLinearGlobalAveragePool", 0.0209, 70), (n, c, 1, 1)
        ),
        "QLinearGlobalAveragePool_last": (
            qlinear_unary("QLinearGlobalAveragePool", 0.0209, 70, channels_last=1), (n, 1, 1, w)
        ),
    }  # fmt: skip
    for name, (made, shape) in unary.items():
        cases[name] = with_known_output(made, shape, "uint8")
    concat = node("QLinearConcat", "ys yz a as az b bs bz c cs cz", axis=1, domain=MICROSOFT)
    constants = {
        **scheme("y", 0.0517, 20, "uint8"), **scheme("a", 0.0517, 20, "uint8"),
        **scheme("b", 0.0317, 20, "uint8"), **scheme("c", 0.0517, 90, "uint8"),
    }  # fmt: skip
    inputs = {name: (IMAGE, "uint8") for name in "abc"}
    made = model([concat], inputs, constants)
    cases["QLinearConcat"] = with_known_output(made, (n, 3 * c, h, w), "uint8")
    constants = {
        **scheme("a", 0.0219, 120, "uint8"), "b": integers("int8", 16, 10), "bs": scales(10),
        "bz": np.zeros(10, np.int8), "c": _RNG.integers(-900, 900, 10).astype(np.int32),
        **scheme("y", 0.0517, 100, "uint8"),
    }  # fmt: skip
    inputs = {"a": ((7, 16), "uint8")}
    made = model([node("QGemm", "a as az b bs bz c ys yz", domain=MICROSOFT)], inputs, constants)
    cases["QGemm"] = with_known_output(made, (7, 10), "uint8")
    made = model([node("QGemm", "a as az b bs bz c", domain=MICROSOFT)], inputs, constants)
    cases["QGemm_float"] = with_known_output(made, (7, 10), "float32")
    sizes = {"bits": 4, "block_size": 16, "N": 10, "K": 32}
    pairs = np.random.default_rng(5).integers(0, 256, (10, 2, 8)).astype(np.uint8)
    constants = {"b": pairs, "s": np.linspace(0.002, 0.01, 20, dtype=np.float32)}
    made = model([node("MatMulNBits", "a b s", domain=MICROSOFT, **sizes)],
                 {"a": ((7, 32), "float32")}, constants)  # fmt: skip
    cases["MatMulNBits"] = with_known_output(made, (7, 10), "float32")
    return cases


def _linear() -> dict[str, onnx.ModelProto]:
    constants = {
        **scheme("x", 0.0213, 100, "uint8"), "w": integers("int8", 16, 10), "ws": scales(10),
        "wz": np.zeros(10, np.int8), **scheme("y", 0.0517, 100, "uint8"),
    }  # fmt: skip
    scalar = {**constants, "ws": np.float32(0.01), "wz": np.int8(0)}
    # Products of uint8 by an int8 input are not exact in onnxruntime on a CPU without VNNI.
    signed = {**scalar, "xz": np.int8(9), "yz": np.int8(-28)}
    dynamic = {k: v for k, v in signed.items() if k != "w"}
    names = "x xs xz w ws wz ys yz"
    x, signed_x, w = ((3, 16), "uint8"), ((3, 16), "int8"), ((16, 10), "int8")
    integer = {"w": integers("uint8", 16, 10), "xz": np.uint8(9), "wz": np.uint8(100)}
    return {
        "QLinearMatMul": model([node("QLinearMatMul", names)], {"x": x}, constants),
        "QLinearMatMul_3d": model(
            [node("QLinearMatMul", names)], {"x": ((2, 3, 16), "uint8")}, scalar
        ),
        "QLinearMatMul_dynamic": model(
            [node("QLinearMatMul", names)], {"x": signed_x, "w": w}, dynamic
        ),
        "MatMulInteger": model(
            [node("MatMulInteger", "x w xz")], {"x": x}, {"w": integers("int8", 16, 10),
             "xz": np.uint8(9)},
        ),
        "MatMulInteger_unsigned": model([node("MatMulInteger", "x w xz wz")], {"x": x}, integer),
    }  # fmt: skip


def _chains() -> dict[str, onnx.ModelProto]:
    cases = {}
    for dtype in ("int8", "uint8"):
        residual = [
            node("Relu", "c", "e"), node("QuantizeLinear", "e es ez", "f"),
            node("DequantizeLinear", "f es ez", "g"), node("Add", "g d", "h"),
            node("Relu", "h", "r"),
        ]  # fmt: skip
        inner = scheme("e", 0.0537, -100 if dtype == "int8" else 12, dtype)
        cases[f"residual_{dtype}"] = qdq_conv(dtype, residual, "r", **inner)
        cases[f"residual_direct_{dtype}"] = qdq_conv(dtype, [node("Add", "d c", "r")], "r")
        clip = [node("Clip", "c lo hi", "r")]
        bounds = {"lo": np.float32(-0.7), "hi": np.float32(1.9)}
        cases[f"clip_{dtype}"] = qdq_conv(dtype, clip, "r", **bounds)
        symmetric = [
            node("QuantizeLinear", "c es ez", "e"), node("DequantizeLinear", "e es ez", "f"),
            node("Relu", "f", "g"), node("QuantizeLinear", "g es ez", "h"),
            node("DequantizeLinear", "h es ez", "i"), node("Sigmoid", "i", "r"),
        ]  # fmt: skip
        same = scheme("e", 0.0537, 0 if dtype == "int8" else 128, dtype)
        cases[f"symmetric_relu_{dtype}"] = qdq_conv(dtype, symmetric, "r", **same)
        cases[f"batch_norm_{dtype}"] = qdq_conv(
            dtype, [node("Mul", "c m", "e"), node("Add", "e a", "r")], "r",
            m=_RNG.standard_normal((6, 1, 1), np.float32),
            a=_RNG.standard_normal((1, 6, 1, 1), np.float32),
        )  # fmt: skip
        cases[f"pad_{dtype}"] = quantised(
            [node("Pad", "d edges", "r")], dtype, {"edges": np.int64([0, 0, 1, 1, 0, 0, 2, 0])}
        )
        cases[f"max_pool_rescaled_{dtype}"] = quantised(
            [node("MaxPool", "d", "r", kernel_shape=[2, 2], pads=[1, 1, 0, 0])], dtype, {}
        )
        gaps = {"kernel_shape": [2, 3], "dilations": [3, 2], "pads": [1, 2, 0, 1]}
        cases[f"max_pool_dilated_{dtype}"] = quantised(
            [node("MaxPool", "d", "r", **gaps)], dtype, {}
        )
        cases[f"transposed_{dtype}"] = quantised(
            [node("Transpose", "d", "r", perm=[0, 2, 3, 1])], dtype, {}
        )
    return cases


INTEGER_CASES = {
    "conv_u8": qlinear_conv("uint8", 110),
    "conv_s8": qlinear_conv("int8", -17),
    "conv_s8_zero": qlinear_conv("int8", 0, strides=[2, 2]),
    "conv_u8_weights": qlinear_conv("uint8", 5, "uint8"),
    "conv_groups": qlinear_conv("uint8", 90, group=2, dilations=[2, 2], pads=[2, 1, 2, 3]),
    "conv_integer": conv_integer("uint8", "int8", 0),
    "conv_integer_unsigned": conv_integer("uint8", "uint8", 128),
    "conv_integer_asymmetric": conv_integer("uint8", "uint8", 90),
    **_microsoft(),
    **_linear(),
    **_chains(),
}
