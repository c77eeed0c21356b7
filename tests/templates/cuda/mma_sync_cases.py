"""Workloads that exercise every path of the mma.sync template."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.layout import NHWC, NHWCNC
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm


def _square(n: int, size: int, c: int, k: int, stride: int = 1, **more: object) -> Conv2d:
    return Conv2d(n, size, size, c, k, 3, 3, (stride, stride), (1, 1, 1, 1), **more)


CASES = [
    _square(2, 56, 64, 64),
    _square(3, 14, 256, 256, zero_point_border=True, epilogue=Epilogue("int8", "int8")),
    _square(3, 7, 512, 512, in_dtype="uint8", epilogue=Epilogue("uint8")),
    _square(2, 29, 96, 40, 2, in_dtype="uint8", zero_point_border=True, border_bias=True,
            epilogue=Epilogue("uint8", "int8", True)),
    Conv2d(2, 28, 28, 64, 256, 1, 1, epilogue=Epilogue("int8", "uint8", True)),
    Conv2d(2, 57, 57, 16, 64, 4, 4, (1, 1), (2, 2, 1, 1), in_dtype="uint8",
           zero_point_border=True, epilogue=Epilogue("uint8")),
    Conv2d(1, 19, 23, 12, 30, 5, 3, (1, 2), (2, 0, 3, 2), (2, 1),
           epilogue=Epilogue("float32", "float32")),
    Conv2d(2, 17, 15, 24, 22, 3, 3, (3, 3), (0, 0, 0, 0), (1, 2), epilogue=Epilogue("int32")),
    _square(2, 15, 64, 96, groups=4, in_dtype="uint8", zero_point_border=True,
            epilogue=Epilogue("int8", "float32")),
    _square(2, 13, 24, 30, groups=3, epilogue=Epilogue("float32", "uint8")),
    _square(8, 15, 64, 64, in_layout=NHWCNC, out_layout=NHWCNC, zero_point_border=True,
            epilogue=Epilogue("int8", "uint8", True)),
    _square(16, 13, 96, 48, 2, in_dtype="uint8", in_layout=NHWCNC, epilogue=Epilogue("float32")),
    Conv2d(8, 14, 14, 32, 144, 1, 1, out_layout=NHWCNC, epilogue=Epilogue("uint8", "int8")),
    _square(24, 9, 64, 96, groups=2, in_layout=NHWCNC, out_layout=NHWCNC,
            zero_point_border=True, in_dtype="uint8"),
    Conv2d(2, 31, 31, 4, 33, 7, 7, (2, 2), (3, 3, 3, 3), zero_point_border=True),
    Gemm(8, 1000, 2048, in_dtype="uint8"),
    Gemm(300, 104, 48, epilogue=Epilogue("int8", "int8")),
    Gemm(129, 7, 20, epilogue=Epilogue("float32")),
]  # fmt: skip


def _int4(n: int, size: int, c: int, k: int, sign: str = "", **more: object) -> Conv2d:
    dtypes = {"in_dtype": f"{sign}int4", "weight_dtype": "int4"}
    return _square(n, size, c, k, **{**dtypes, "epilogue": Epilogue(f"{sign}int4"), **more})


INT4_CASES = [
    _int4(2, 28, 128, 128),
    _int4(3, 7, 256, 200, "u", zero_point_border=True, epilogue=Epilogue("uint4", "uint4", True)),
    _int4(2, 15, 24, 37, "u", zero_point_border=True, epilogue=Epilogue("int4", "int4")),
    _int4(2, 13, 48, 44, stride=2, zero_point_border=True, epilogue=Epilogue("uint8", "uint4")),
    _int4(1, 17, 32, 72, "u", groups=4, epilogue=Epilogue("int4", "int8", True)),
    _int4(1, 14, 64, 64, "u", weight_dtype="int8", epilogue=Epilogue("int4", "float32")),
    _int4(1, 14, 64, 52, in_dtype="uint8", zero_point_border=True),
    _square(2, 9, 16, 70, epilogue=Epilogue("uint4", "int4", True)),
    Conv2d(1, 19, 23, 8, 31, 5, 3, (1, 2), (2, 0, 3, 2), (2, 1), in_dtype="int4",
           weight_dtype="int4", epilogue=Epilogue("float32", "int4")),
    Conv2d(1, 31, 31, 16, 33, 7, 7, (2, 2), (3, 3, 3, 3), in_dtype="int4", weight_dtype="int4",
           epilogue=Epilogue("int32")),
    Conv2d(1, 20, 20, 12, 26, 3, 3, groups=1, in_dtype="int8", weight_dtype="int4",
           epilogue=Epilogue("int4")),
    _int4(8, 15, 64, 64, "u", in_layout=NHWCNC, out_layout=NHWCNC, zero_point_border=True,
          epilogue=Epilogue("uint4", "int4", True)),
    _int4(16, 13, 96, 96, groups=3, in_layout=NHWCNC, out_layout=NHWCNC, epilogue=Epilogue("int8")),
    Conv2d(8, 14, 14, 32, 160, 1, 1, in_dtype="uint8", weight_dtype="int4", out_layout=NHWCNC,
           epilogue=Epilogue("uint4", "uint4")),
    Gemm(300, 105, 96, in_dtype="uint4", weight_dtype="int4", epilogue=Epilogue("int4", "uint4")),
    Gemm(8, 1000, 2048, in_dtype="int4", weight_dtype="int4", epilogue=Epilogue("float32")),
]  # fmt: skip
"""Four-bit activations, weights and outputs; odd channels, groups, borders, residuals."""


def random_four_bit(seed: int) -> Conv2d:
    """A convolution of any legal shape in which some array is of 4 bits."""
    rng = np.random.default_rng(seed)
    pick = rng.choice
    in_dtype = str(pick(["int4", "uint4", "int8", "uint8"], p=[0.35, 0.35, 0.15, 0.15]))
    weight_dtype = "int4" if in_dtype in ("int8", "uint8") else str(pick(["int4", "int4", "int8"]))
    residual = pick([None, "int4", "uint4", "int8", "float32"])
    epilogue = Epilogue(
        str(pick(["int4", "uint4", "int8", "float32"])),
        None if residual is None else str(residual),
        bool(residual is not None and rng.integers(2)),
    )
    groups = int(pick([1, 1, 2, 3]))
    r, s = rng.integers(1, 5, 2).tolist()
    group_k = int(rng.integers(1, 70)) if groups == 1 else 2 * int(rng.integers(1, 20))
    padding = tuple(rng.integers(0, 3, 4).tolist())
    return Conv2d(
        n=int(rng.integers(1, 4)),
        h=int(rng.integers(10, 24)),
        w=int(rng.integers(10, 24)),
        c=groups * 8 * int(rng.integers(1, 13)),
        k=groups * group_k,
        r=r,
        s=s,
        stride=tuple(rng.integers(1, 4, 2).tolist()),
        padding=padding,
        dilation=tuple(rng.integers(1, 3, 2).tolist()),
        groups=groups,
        in_dtype=in_dtype,
        weight_dtype=weight_dtype,
        zero_point_border=any(padding) and bool(rng.integers(2)),
        epilogue=epilogue,
    )


def random_blocked(seed: int) -> Conv2d:
    """A convolution of random sizes with NHWCnc on one side or both, of nibbles or bytes."""
    rng = np.random.default_rng(seed)
    r, s, groups = (int(value) for value in rng.integers(1, 4, 3))
    in_layout, out_layout = [(NHWCNC, NHWCNC), (NHWCNC, NHWC), (NHWC, NHWCNC)][seed % 3]
    four_bits = seed % 2 == 1
    blocked_bits = four_bits and seed % 4 == 1
    sizes = 32 if blocked_bits else 16
    padding = tuple(int(value) for value in rng.integers(0, (r, s, r, s)))
    residual = rng.choice(["", "int8", "uint8"])
    if blocked_bits and residual and out_layout == NHWCNC:
        residual = residual.replace("8", "4")
    signs = {layout: rng.choice(["int4", "uint4"] if (layout == NHWC and four_bits) or blocked_bits
                                else ["int8", "uint8"]) for layout in (NHWC, NHWCNC)}  # fmt: skip
    return Conv2d(
        8 * int(rng.integers(1, 4)), *(int(value) for value in rng.integers(4, 15, 2)),
        sizes * groups * int(rng.integers(1, 5)), sizes * groups * int(rng.integers(1, 7)), r, s,
        tuple(int(value) for value in rng.integers(1, 3, 2)), padding,
        tuple(int(value) for value in rng.integers(1, 3, 2)), groups, str(signs[in_layout]),
        "int4" if four_bits and (in_layout == NHWC or blocked_bits) else "int8",
        zero_point_border=any(padding) and bool(rng.integers(2)),
        epilogue=Epilogue(str(signs[out_layout]), str(residual) or None,
                          bool(residual) and bool(rng.integers(2))),
        in_layout=in_layout, out_layout=out_layout,
    )  # fmt: skip


def case_id(case: object) -> str:
    """A readable test name."""
    if isinstance(case, Conv2d | Gemm):
        epilogue = case.epilogue
        dtypes = (case.in_dtype, case.weight_dtype, epilogue.out_dtype, epilogue.residual_dtype)
        return f"{case}-{'-'.join(map(str, dtypes))}"
    return str(case)
