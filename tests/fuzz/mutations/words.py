"""Sizes, numbers, texts and operators from which mutated models draw."""

from __future__ import annotations

SIZES = (0, 1, 2, 3, 4, 5, 7, 16, 64, 1000, 2**16, 2**31 - 1, 2**31, 2**40, 2**63 - 1, -1, -2, -7,
         -(2**63))  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 1e30, 3.4e38, float("inf"), float("-inf"),
           float("nan"))  # fmt: skip
TEXTS = ("", "x", "y", "w", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "reflect", "constant",
         "ai.onnx", "com.microsoft", "no\nline", "nul\0", "{!r}", "é", "x" * 5000)  # fmt: skip
ELEMENTWISE = (
    "Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs", "Reciprocal", "Erf", "Floor",
    "Ceil", "Softplus", "HardSwish", "HardSigmoid", "LeakyRelu", "Elu", "Clip", "Softmax",
    "Identity", "Dropout", "Add", "Mul", "Sub", "Div", "Max", "Min", "Pow", "Cast", "Transpose",
    "GlobalAveragePool", "GlobalMaxPool", "Flatten", "Squeeze", "Sum",
)  # fmt: skip
DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")
PATHS = ("model.onnx", ".", "..", "/etc/hostname")
OPERATORS = (
    "Conv", "ConvTranspose", "Gemm", "MatMul", "Relu", "Add", "Mul", "Div", "Pow", "Concat",
    "Reshape", "Transpose", "Slice", "Split", "Pad", "Softmax", "ReduceMean", "MaxPool",
    "AveragePool", "GlobalAveragePool", "QuantizeLinear", "DequantizeLinear", "Clip", "Cast",
    "Flatten", "Squeeze", "Unsqueeze", "Gather", "Shape", "Constant", "ConstantOfShape", "Expand",
    "Tile", "Range", "Where", "Identity", "Dropout", "RandomNormal", "RandomUniformLike",
    "Bernoulli", "BatchNormalization", "LRN", "Resize", "TopK", "NonZero", "Loop", "If", "Scan",
    "Einsum", "LSTM", "DynamicQuantizeLinear", "Sum", "Min", "Erf", "Tanh", "LeakyRelu", "PRelu",
    "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul", "QLinearAdd", "QGemm", "Nope",
)  # fmt: skip
