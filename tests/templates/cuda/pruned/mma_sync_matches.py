"""What kernels of tiles on mma.sync take and decline alike."""

from __future__ import annotations

from dataclasses import replace

from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target


def assert_takes_tiles_alone(template: Template, integers: Gemm, floats: FloatGemm) -> None:
    """Both products on sm_80 to sm_89; no other GPU, shape, output or operator."""
    for arch in ("sm_80", "sm_86", "sm_89"):
        assert template.matches(integers, parse_target(f"cuda:{arch}"))
        assert template.matches(floats, parse_target(f"cuda:{arch}"))
    for arch in ("sm_75", "sm_90a"):
        assert not template.matches(integers, parse_target(f"cuda:{arch}"))
    known = integers.sparsity
    assert known is not None
    others = (
        integers.dense, replace(integers, k=200), replace(integers, epilogue=Epilogue("int4")),
        replace(integers, sparsity=replace(known, granularity=512)),
        Conv2d(2, 7, 9, 64, 100, 3, 3, padding=(1, 1, 1, 1), sparsity=known),
    )  # fmt: skip
    assert not any(template.matches(one, parse_target("cuda:sm_80")) for one in others)
