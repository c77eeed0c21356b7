"""Depthwise and grouped convolutions of mobile networks, ResNeXt-50 and RegNets, for benchmarks."""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d

# Height and width, channels, groups, filter size, stride.
_DEPTHWISE = (
    (112, 32, 32, 3, 1), (112, 96, 96, 3, 2), (56, 144, 144, 3, 1), (28, 192, 192, 3, 1),
    (14, 576, 576, 3, 1), (7, 960, 960, 3, 1), (14, 672, 672, 5, 1), (28, 240, 240, 5, 2),
)  # fmt: skip
_GROUPED = (
    (56, 128, 32, 3, 1), (28, 256, 32, 3, 1), (14, 512, 32, 3, 1), (7, 1024, 32, 3, 1),
    (28, 128, 8, 3, 1), (28, 192, 4, 3, 1),
)  # fmt: skip


def convolutions(n: int) -> list[Conv2d]:
    """Of one batch size, uint8 in and out: depthwise ones, then those of ResNeXt-50 and RegNets."""
    return [
        Conv2d(n, size, size, c, c, taps, taps, (stride, stride), (taps // 2,) * 4, groups=groups,
               in_dtype="uint8", epilogue=Epilogue("uint8"))
        for size, c, groups, taps, stride in (*_DEPTHWISE, *_GROUPED)
    ]  # fmt: skip


def float_convolutions(n: int) -> list[FloatConv2d]:
    """The same in float16 with ReLU, and the 7x7 ones of ConvNeXt-Tiny without."""
    cases = [
        FloatConv2d(case.n, case.h, case.w, case.c, case.k, case.r, case.s, case.stride,
                    case.padding, bias=True, activation="relu", groups=case.groups)
        for case in convolutions(n)
    ]  # fmt: skip
    cases += [
        FloatConv2d(n, size, size, c, c, 7, 7, padding=(3,) * 4, bias=True, groups=c)
        for size, c in ((56, 96), (28, 192), (14, 384), (7, 768))
    ]
    return cases
