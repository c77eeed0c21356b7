"""What people call a convolution of a benchmark."""

from __future__ import annotations

from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d


def case_name(workload: Conv2d | FloatConv2d) -> str:
    """The case as people call it: "N8 3x3 56x56x64", with "->256", "s2", "g32", "+residual"."""
    if isinstance(workload, FloatConv2d):
        return f"{_case_name(workload)} {workload.in_dtype}"
    return _case_name(workload)


def _case_name(workload: Conv2d | FloatConv2d) -> str:
    if (workload.r, workload.s, workload.c) == (4, 4, 16):
        return f"N{workload.n} stem 7x7 s2 {2 * workload.h}x{2 * workload.w}x3->{workload.k}"
    text = f"N{workload.n} {workload.r}x{workload.s} {workload.h}x{workload.w}x{workload.c}"
    if workload.k != workload.c:
        text += f"->{workload.k}"
    if workload.stride != (1, 1):
        text += f" s{workload.stride[0]}"
    if workload.groups != 1:
        text += f" g{workload.groups}"
    if isinstance(workload, FloatConv2d):
        return text + (" +residual" if workload.residual else "")
    return text + (" +residual" if workload.epilogue.residual_dtype else "")
