"""Integer products with every epilogue that products have and convolutions have not."""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm

PRODUCTS = (
    Gemm(5, 20, 32, epilogue=Epilogue("float16")),
    Gemm(7, 33, 48, epilogue=Epilogue("bfloat16", row_scale=True)),
    Gemm(9, 16, 64, "uint8", epilogue=Epilogue("float32", row_scale=True, float_bias=True)),
    Gemm(40, 18, 16, epilogue=Epilogue("float16", float_bias=True, activation="gelu")),
    Gemm(17, 24, 48, "uint8", epilogue=Epilogue("float32", row_scale=True, activation="silu")),
    Gemm(6, 40, 32, epilogue=Epilogue("bfloat16", "bfloat16", activation="gelu_tanh")),
    Gemm(33, 17, 64, epilogue=Epilogue("float16", "float16", row_scale=True, activation="relu")),
    Gemm(12, 21, 32, "uint8", epilogue=Epilogue("float32", "int8", float_bias=True)),
    Gemm(11, 12, 96, epilogue=Epilogue("uint8", row_scale=True, float_bias=True)),
    Gemm(18, 26, 32, epilogue=Epilogue("int8", "int8", True, row_scale=True)),
    Gemm(10, 32, 64, "uint8", epilogue=Epilogue("int8", "float16", float_bias=True)),
)
"""Their k is a multiple of 16, as `gemm_wgmma` asks."""

FACTORED_PRODUCTS = (
    Gemm(100, 96, 64, "uint8", epilogue=Epilogue("uint8", "uint8", True, factor=True)),
    Gemm(33, 51, 48, epilogue=Epilogue("uint8", "int8", True, factor=True)),
    Gemm(70, 40, 35, epilogue=Epilogue("int8", "uint8", True, factor=True)),
)
"""Channels are scaled behind their first rounding, and rounded again."""

ODD_PRODUCTS = (
    Gemm(5, 20, 33),
    Gemm(40, 7, 17, "uint8", epilogue=Epilogue("float16", "float16", row_scale=True)),
    Gemm(9, 33, 13, "int4", "int4", Epilogue("int4")),
    Gemm(3, 1, 1, "uint4", "int4", Epilogue("float32", float_bias=True)),
    Gemm(3, 5, 7, "int8", "int4", Epilogue("int4", "int4")),
    Gemm(3, 1, 1),
    Gemm(17, 1, 19, "uint8"),
)
"""Their rows of x are no whole vectors."""

GROUPED_PRODUCTS = (
    Gemm(7, 20, 64, epilogue=Epilogue("float32", scale_group=32)),
    Gemm(40, 33, 128, "uint8", epilogue=Epilogue("bfloat16", scale_group=64, row_scale=True)),
    Gemm(
        9, 24, 384, epilogue=Epilogue(
            "float16", "float16", scale_group=128, row_scale=True, float_bias=True,
            activation="gelu",
        ),
    ),
)  # fmt: skip
"""Scales of groups along k."""

ONE_SCALE_PRODUCTS = [
    Gemm(70, 96, 96, epilogue=Epilogue(uniform=True)),
    Gemm(33, 51, 48, "uint8", epilogue=Epilogue("uint8", uniform=True)),
]
