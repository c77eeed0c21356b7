"""Kernels that are right on a GPU are right on the emulator, whole outputs compared."""

from __future__ import annotations

import pytest
from with_nvcc import needs_nvcc

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.registry import matching
from autoq.templates.target import parse_target
from autoq.templates.workload import Workload
from ptx.kernels import assert_right_emulated

pytestmark = needs_nvcc

CASES = {
    "sm_75 int8": ("sm_75", Conv2d(2, 9, 9, 24, 20, 3, 3, (1, 1), (1, 1, 1, 1))),
    "sm_75 int4": (
        "sm_75",
        Conv2d(1, 9, 7, 32, 20, 3, 3, in_dtype="uint4", weight_dtype="int4", zero_point_border=True,
               padding=(1, 1, 1, 1), epilogue=Epilogue("uint4")),
    ),
    "sm_80 residual": (
        "sm_80",
        Conv2d(3, 13, 11, 32, 40, 3, 3, (2, 1), (1, 1, 1, 1), in_dtype="uint8",
               zero_point_border=True, epilogue=Epilogue("int8", "int8", True)),
    ),
    "sm_86 groups": ("sm_86", Conv2d(1, 11, 11, 32, 64, 3, 3, groups=2)),
    "sm_90a product": ("sm_90a", Gemm(130, 72, 144, in_dtype="uint8", epilogue=Epilogue("int32"))),
    "sm_90a float product": ("sm_90a", FloatGemm(70, 72, 136, "float16", "int4")),
    "sm_90a convolution": ("sm_90a", Conv2d(2, 9, 9, 32, 40, 3, 3, padding=(1, 1, 1, 1))),
    "sm_90a residual": (
        "sm_90a",
        Conv2d(2, 9, 7, 32, 48, 3, 3, (1, 1), (1, 1, 1, 1), epilogue=Epilogue("int8", "int8")),
    ),
    "sm_90a strides": ("sm_90a", Conv2d(2, 13, 15, 48, 40, 3, 3, (2, 1), (1, 2, 0, 1))),
    "sm_89 pool": ("sm_89", Pool2d("max", 2, 9, 9, 24, 3, 3, (2, 2))),
}  # fmt: skip


@pytest.mark.parametrize(("arch", "workload"), CASES.values(), ids=CASES)
def test_default(arch: str, workload: Workload) -> None:
    target = parse_target(f"cuda:{arch}")
    template = matching(workload, target)[0]
    config = template.default(workload, target)
    assert_right_emulated(template, workload, config, target)
