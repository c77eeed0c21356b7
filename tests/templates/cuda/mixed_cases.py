"""Products of 16-bit floats with narrow weights: all pairs of types, groups, tails, odd sizes."""

from __future__ import annotations

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue import ACTIVATIONS
from autoq.templates.operators.float_gemm import FloatGemm

_FLOATS = ("float16", "bfloat16")

CASES = [
    *(
        FloatGemm(
            200, 264, 328, floats, weights, floats, weight_left=left, bias=True, activation="relu",
            zero_points=weights != floats,
        )
        for floats in _FLOATS
        for weights in (floats, *INTEGER_RANGE)
        for left in (False, True)
    ),
    *(
        FloatGemm(72, 136, 512, floats, weights, floats, group=group, zero_points=zeros)
        for floats in _FLOATS
        for weights in INTEGER_RANGE
        for group, zeros in ((32, False), (64, True), (128, True))
    ),
    *(FloatGemm(65, 120, 200, bias=True, activation=name) for name in ACTIVATIONS),
    *(FloatGemm(m, 1000, 1032) for m in (1, 7, 8, 17, 63, 130, 257)),
    *(
        FloatGemm(m, 1000, 520, floats, weights, out, weight_left=left, bias=True)
        for m, floats, weights, out in (
            (52, "float16", "int8", "float32"), (232, "bfloat16", "uint4", "float32"),
            (72, "float16", "float16", "float32"), (120, "bfloat16", "int8", "float16"),
            (216, "float16", "int4", "bfloat16"),
        )
        for left in (False, True)
    ),
    FloatGemm(8, 8, 8),
    FloatGemm(3000, 1000, 4096, weight_dtype="int4", group=128),
]  # fmt: skip
"""FloatGemm workloads."""

_E4M3 = "float8_e4m3fn"

FORMS = [
    *(
        FloatGemm(216, 264, 464, _E4M3, _E4M3, out, bias=bias, weight_left=left, x_scale=not bias)
        for out in ("float16", "bfloat16", "float32")
        for left in (False, True)
        for bias in (False, True)
    ),
    *(
        FloatGemm(
            120, 200, 328, floats, weights, out, bias=True, activation="silu", weight_left=left,
            residual=True, x_scale=left,
        )
        for floats, weights, out in (
            ("float16", "int8", "float16"), ("bfloat16", "uint4", "float32"),
            ("float16", "float16", "bfloat16"),
        )
        for left in (False, True)
    ),
    FloatGemm(72, 136, 512, weight_dtype="int4", group=64, zero_points=True, batch=5, bias=True),
    FloatGemm(72, 136, 328, "bfloat16", "int8", "bfloat16", batch=3, residual=True),
    FloatGemm(40, 72, 1040, _E4M3, _E4M3, batch=4, x_scale=True, weight_left=True),
]  # fmt: skip
"""FloatGemm workloads that are not plain."""

ODD_CASES = [
    *(
        FloatGemm(m, n, k, floats, weights, out, bias=True, weight_left=left)
        for m, n, k, floats, weights, out in (
            (33, 65, 127, "float16", "int8", "float16"),
            (7, 131, 258, "bfloat16", "uint4", "bfloat16"),
            (129, 63, 77, "float16", "float16", "float32"),
            (1, 1, 1, "bfloat16", "uint8", "float32"),
        )
        for left in (False, True)
    ),
    FloatGemm(5, 1001, 3072, weight_dtype="uint4", group=64, zero_points=True),
]  # fmt: skip
"""Rows that start anywhere, which only some templates take."""

ODD_FORMS = [
    FloatGemm(33, 65, 127, bias=True, x_scale=True, residual=True, batch=2),
    FloatGemm(5, 131, 258, "bfloat16", "uint4", "bfloat16", residual=True, weight_left=True),
    FloatGemm(65, 33, 77, _E4M3, _E4M3, x_scale=True, batch=3),
    FloatGemm(9, 40, 134, _E4M3, _E4M3, "float32", residual=True, weight_left=True),
]
"""The same of products that are not plain."""
