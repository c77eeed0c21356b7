"""The convolutions of ResNet-50 at 224x224, as `check_kernels.py` and `bench_conv.py` take them."""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.operators.gemm import Gemm

STAGES = ((56, 64, 256), (28, 128, 512), (14, 256, 1024), (7, 512, 2048))
"""Height and width, channels of the 3x3 convolution, channels of the stage."""


def convolutions(n: int) -> list[Conv2d | Gemm]:
    """The distinct products of one batch size, in the order of the network."""
    plain = Epilogue("uint8")
    add = Epilogue("uint8", "uint8", True)
    first = Conv2d(n, 112, 112, 16, 64, 4, 4, (1, 1), (2, 2, 1, 1), in_dtype="uint8",
                   zero_point_border=True, epilogue=plain)  # fmt: skip
    cases: list[Conv2d | Gemm] = [first]
    entering = 64
    for index, (size, middle, wide) in enumerate(STAGES):
        stride = 1 if index == 0 else 2
        before = size * stride

        def conv(h: int, c: int, k: int, taps: int, step: int, epilogue: Epilogue) -> Conv2d:
            pad = taps // 2
            return Conv2d(n, h, h, c, k, taps, taps, (step, step), (pad,) * 4, in_dtype="uint8",
                          epilogue=epilogue)  # fmt: skip

        cases += [
            conv(before, entering, middle, 1, 1, plain),
            conv(before, middle, middle, 3, stride, plain),
            conv(size, middle, wide, 1, 1, add),
            conv(before, entering, wide, 1, stride, plain),
            conv(size, wide, middle, 1, 1, plain),
            conv(size, middle, middle, 3, 1, plain),
        ]
        entering = wide
    cases.append(Gemm(n, 1000, 2048, in_dtype="uint8", epilogue=plain))
    return list(dict.fromkeys(cases))


CASES = [case for n in (8, 128) for case in convolutions(n)]


def float_convolutions(n: int) -> list[FloatConv2d]:
    """The same in float16, the first one over blocks of 2x2 pixels too."""
    cases = []
    for case in convolutions(n):
        if isinstance(case, Conv2d):
            residual = case.epilogue.residual_dtype is not None
            cases.append(
                FloatConv2d(
                    n, case.h, case.w, case.c, case.k, case.r, case.s, case.stride, case.padding,
                    bias=True, activation="relu", residual=residual, residual_first=residual,
                )
            )  # fmt: skip
    return cases
