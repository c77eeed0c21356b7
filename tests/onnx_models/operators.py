"""Models of one or a few nodes for every operator that the frontend imports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from onnx_models.makers import model, node, normal
from onnx_models.products import LINEAR
from onnx_models.reductions import CONDITIONS, REDUCTIONS
from onnx_models.resizes import SPATIAL
from onnx_models.selections import SELECTIONS
from onnx_models.transformers import TRANSFORMERS

IMAGE = (2, 6, 9, 10)


def image(op: str, opset: int = 17, shape: Sequence[int] = IMAGE, **attributes: object):
    """One node of one input."""
    made = node(op, "x", **attributes)
    return model([made], {"x": (shape, "float32")}, opset=opset)


def conv(weight: tuple[int, ...], bias: bool = True, **attributes: object) -> onnx.ModelProto:
    constants = {"w": normal(*weight) * 0.2}
    if bias:
        constants["b"] = normal(weight[0])
    names = "x w b" if bias else "x w"
    return model([node("Conv", names, **attributes)], {"x": (IMAGE, "float32")}, constants)


def with_constants(op: str, names: str, opset: int = 17, attributes=None, **constants):
    made = node(op, names, **(attributes or {}))
    return model([made], {"x": (IMAGE, "float32")}, constants, opset=opset)


def int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CONVOLUTIONS = {
    "conv": conv((8, 6, 3, 3)),
    "conv_stride_pads": conv((8, 6, 3, 2), strides=[2, 1], pads=[1, 0, 2, 1]),
    "conv_dilated": conv((4, 6, 3, 3), dilations=[2, 3], pads=[2, 3, 2, 3]),
    "conv_groups": conv((9, 2, 3, 3), group=3, pads=[1, 1, 1, 1]),
    "conv_depthwise": conv((12, 1, 3, 3), group=6, bias=False),
    "conv_same_upper": conv((4, 6, 4, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv_same_lower": conv((4, 6, 4, 3), auto_pad="SAME_LOWER", strides=[3, 2]),
    "conv_valid": conv((4, 6, 2, 2), auto_pad="VALID"),
    "conv_dynamic_weight": model(
        [node("Conv", "x w", pads=[1, 1, 1, 1])],
        {"x": (IMAGE, "float32"), "w": ((4, 6, 3, 3), "float32")},
    ),
}

DILATED = {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [2, 1, 1, 1]}

POOLS = {
    "max_pool": image("MaxPool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 0, 0]),
    "max_pool_ceil": image("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max_pool_ceil_pads": image(
        "MaxPool", kernel_shape=[2, 2], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1
    ),
    "max_pool_dilated": image("MaxPool", **DILATED, strides=[2, 1], ceil_mode=1),
    "average_pool_dilated": image("AveragePool", opset=19, **DILATED),
    "average_pool_dilated_all": image("AveragePool", opset=19, **DILATED, count_include_pad=1),
    "average_pool": image("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "average_pool_include": image(
        "AveragePool", kernel_shape=[3, 3], pads=[1, 0, 1, 2], count_include_pad=1
    ),
    "average_pool_ceil": image(
        "AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[0, 0, 1, 1]
    ),
    "average_pool_ceil_include": image(
        "AveragePool", opset=19, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
        ceil_mode=1, count_include_pad=1,
    ),
    "average_pool_ceil_include_old": image(
        "AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
        ceil_mode=1, count_include_pad=1,
    ),
    "average_pool_same": image("AveragePool", kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
    "global_average": image("GlobalAveragePool"),
    "global_max": image("GlobalMaxPool"),
    "reduce_mean_nothing": image("ReduceMean", opset=18, noop_with_empty_axes=1),
    "reduce_mean_pixels": image("ReduceMean", axes=[2, 3], keepdims=0),
    "reduce_mean_channels": image("ReduceMean", axes=[1]),
    "reduce_mean_input": with_constants("ReduceMean", "x axes", 18, axes=int64(-1, 1)),
}  # fmt: skip

ELEMENTWISE = {
    **{
        op: image(op, opset=18)
        for op in (
            "Relu", "Sigmoid", "HardSwish", "Tanh", "Exp", "Neg", "Abs", "Reciprocal", "Erf",
            "Floor", "Ceil", "Round", "Softplus", "HardSigmoid", "LeakyRelu", "Elu", "Sin", "Cos",
            "Sign", "Selu", "Shrink", "Mish",  # the last three by their definitions in ONNX
        )
    },
    "sqrt_log": model(
        [node("Abs", "x", "a"), node("Sqrt", "a", "b"), node("Log", "b")],
        {"x": (IMAGE, "float32")},
    ),
    "clip_inputs": with_constants(
        "Clip", "x lo hi", lo=np.float32(-0.5), hi=np.float32(0.25)
    ),
    "clip_upper": with_constants("Clip", "x - hi", hi=np.float32(0.25)),
    "clip_attributes": image("Clip", opset=7, min=-0.25, max=1.0),
    "add_broadcast": with_constants("Add", "x c", c=normal(6, 1, 1)),
    "sub_reversed": with_constants("Sub", "c x", c=normal(1, 6, 1, 10)),
    "mul_scalar": with_constants("Mul", "x c", c=np.float32(3)),
    "div": with_constants("Div", "x c", c=np.abs(normal(9, 1)) + 1),
    "pow": with_constants("Pow", "x c", c=np.float32(2)),
    "pow_of_int64": with_constants("Pow", "x c", c=np.int64(3)),
    "pow_of_float16": with_constants("Pow", "x c", c=np.float16(2.5)),
    "pow_of_integers": model(
        [node("Abs", "x", "p"), node("Cast", "f", "n", to=6), node("Pow", "p n")],
        {"x": ((2, 3, 4), "float32"), "f": ((2, 1, 4), "float32")},
    ),
    "gelu": image("Gelu", opset=20),
    "gelu_tanh": image("Gelu", opset=20, approximate="tanh"),
    "prelu": with_constants("PRelu", "x c", c=normal(6, 1, 1)),
    "sum": model(
        [node("Sum", "a b c")], {name: ((2, 3, 4, 5), "float32") for name in "abc"}
    ),
    "min_max": model(
        [node("Min", "a b", "m"), node("Max", "m c")],
        {name: ((3, 4), "float32") for name in "abc"},
    ),
    "add_same_twice": model([node("Add", "x x")], {"x": (IMAGE, "float32")}),
    "mean": model(
        [node("Mean", "a b")], {name: ((2, 3, 4, 5), "float32") for name in "ab"}
    ),
    "clip_of_a_run": model(
        [node("Clip", "x a b", "c"), node("Clip", "c a", "d"), node("Clip", "d - b")],
        {"x": ((4, 5), "float32"), "a": ((), "float32"), "b": ((1,), "float32")}, opset=12,
    ),
    "cast": model([node("Cast", "x", to=onnx.TensorProto.FLOAT)], {"x": ((3, 4), "int32")}),
}  # fmt: skip

LAYOUT = {
    "identity": image("Identity"),
    "dropout": image("Dropout", opset=11),
    "reshape": with_constants("Reshape", "x s", s=int64(0, -1, 5)),
    "flatten": image("Flatten", axis=2),
    "flatten_negative": image("Flatten", axis=-1),
    "squeeze": model(
        [node("Squeeze", "x axes")], {"x": ((1, 4, 1, 5), "float32")}, {"axes": int64(0, 2)}
    ),
    "squeeze_all": model([node("Squeeze", "x")], {"x": ((1, 4, 1, 5), "float32")}),
    "unsqueeze": with_constants("Unsqueeze", "x axes", axes=int64(0, -1)),
    "unsqueeze_old": image("Unsqueeze", opset=11, axes=[1]),
    "transpose": image("Transpose", perm=[2, 0, 3, 1]),
    "transpose_default": image("Transpose"),
    "concat": model(
        [node("Concat", "a b", axis=1)],
        {"a": ((2, 3, 4, 5), "float32"), "b": ((2, 7, 4, 5), "float32")},
    ),
    "concat_rows": model(
        [node("Concat", "a b", axis=-2)],
        {"a": ((2, 3, 4, 5), "float32"), "b": ((2, 3, 1, 5), "float32")},
    ),
    "pad": with_constants(
        "Pad", "x p v", p=int64(0, 0, 1, 2, 0, 3, 0, 1), v=np.float32(0.5)
    ),
    "pad_attribute": image("Pad", opset=9, pads=[0, 0, 1, 1, 0, 0, 1, 1], value=-1.0),
    "pad_axes": with_constants(
        "Pad", "x p - a", 18, p=int64(1, 2, 0, 3), a=int64(2, -1)
    ),
    "slice": with_constants(
        "Slice", "x s e a t", s=int64(1, -1), e=int64(5, -9), a=int64(1, 3), t=int64(2, -3)
    ),
    "slice_old": image("Slice", opset=9, starts=[1, 0], ends=[1000, -2], axes=[2, 3]),
    "gather_one": with_constants("Gather", "x i", i=np.int64(-2), attributes={"axis": 3}),
    "gather_some": with_constants("Gather", "x i", i=int64(5, 3, 1), attributes={"axis": 1}),
    "gather_table": with_constants(
        "Gather", "x i", i=int64(1, -7, 3)[None], attributes={"axis": 2}
    ),
    "split": model(
        [node("Split", "x s", "a b", axis=1), node("Mul", "a a", "y"), node("Neg", "b", "z")],
        {"x": (IMAGE, "float32")}, {"s": int64(2, 4)}, ("y", "z"),
    ),
    "shuffle": model(
        [
            node("Reshape", "x s", "a"),
            node("Transpose", "a", "b", perm=[0, 2, 1, 3, 4]),
            node("Reshape", "b t"),
        ],
        {"x": (IMAGE, "float32")},
        {"s": int64(2, 3, 2, 9, 10), "t": int64(*IMAGE)},
    ),
    "shapes_folded": model(
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n"),
            node("Unsqueeze", "n axes", "n1"),
            node("Concat", "n1 rest", "shape", axis=0),
            node("Reshape", "x shape"),
        ],
        {"x": (IMAGE, "float32")},
        {"zero": np.int64(0), "axes": int64(0), "rest": int64(-1)},
    ),
    "constant_of_shape": model(
        [
            node("ConstantOfShape", "s", "c", value=numpy_helper.from_array(np.float32([2.5]))),
            node("Mul", "x c"),
        ],
        {"x": (IMAGE, "float32")}, {"s": int64(6, 1, 1)},
    ),
    "constant_nodes": model(
        [node("Constant", "", "c", value_float=2.0), node("Add", "x c")],
        {"x": (IMAGE, "float32")},
    ),
    "input_is_output_twice": model(
        [node("Relu", "x", "y"), node("Identity", "y", "z"), node("Identity", "x", "v")],
        {"x": (IMAGE, "float32")}, outputs=("y", "z", "v"),
    ),
}  # fmt: skip

NORMALISATION = {
    "batch_norm": with_constants(
        "BatchNormalization", "x s b m v",
        s=normal(6), b=normal(6), m=normal(6), v=np.abs(normal(6)) + 0.1,
    ),
    "batch_norm_folded": model(
        [node("Conv", "x w", "a"), node("BatchNormalization", "a s b m v", "n", epsilon=1e-3),
         node("Relu", "n")],
        {"x": (IMAGE, "float32")},
        {"w": normal(4, 6, 3, 3), "s": normal(4), "b": normal(4), "m": normal(4),
         "v": np.abs(normal(4)) + 0.1},
    ),
    "layer_norm": with_constants("LayerNormalization", "x s b", s=normal(10), b=normal(10)),
    "layer_norm_of_axes": with_constants(
        "LayerNormalization", "x s", s=normal(9, 10), attributes={"axis": 2, "epsilon": 0.1}
    ),
    "lrn": image("LRN", size=3, alpha=0.1, beta=0.75, bias=1.5),
    "lrn_wide": image("LRN", size=9, alpha=0.5),
    "softmax": image("Softmax", axis=1),
    "softmax_last": image("Softmax", shape=(3, 50)),
    "softmax_old": image("Softmax", opset=11, axis=2),
    "softmax_old_pixels": image("Softmax", opset=9, shape=(2, 30, 1, 1)),
    "residual": model(
        [node("Conv", "x w b", "a", pads=[1, 1, 1, 1]), node("Conv", "x v", "s"),
         node("Add", "s a", "t"), node("Clip", "t lo hi")],
        {"x": (IMAGE, "float32")},
        {"w": normal(4, 6, 3, 3) * 0.2, "b": normal(4), "v": normal(4, 6, 1, 1),
         "lo": np.float32(-1), "hi": np.float32(1)},
    ),
    "squeeze_excite": model(
        [node("GlobalAveragePool", "x", "g"), node("Conv", "g w b", "s"),
         node("Sigmoid", "s", "t"), node("Mul", "x t")],
        {"x": (IMAGE, "float32")}, {"w": normal(6, 6, 1, 1), "b": normal(6)},
    ),
}  # fmt: skip

FLOAT_CASES = {
    **CONVOLUTIONS, **POOLS, **ELEMENTWISE, **LAYOUT, **LINEAR, **NORMALISATION, **CONDITIONS,
    **SELECTIONS, **REDUCTIONS, **SPATIAL, **TRANSFORMERS,
}  # fmt: skip
