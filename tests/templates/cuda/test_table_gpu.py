"""Epilogues that look their outputs up, every template, every element, on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_kernels import compiled, gpu_target, sampled

from autoq.measure.arrays import random_case
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.runtime.cuda.driver import Device
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target
from autoq.templates.workload import Workload

pytestmark = pytest.mark.gpu

SIGNED, UNSIGNED = Epilogue("int8", table=True), Epilogue("uint8", table=True)
_SAME = {"padding": (1, 1, 1, 1)}
WORKLOADS: list[Workload] = [
    Conv2d(2, 29, 31, 16, 96, 1, 1, in_dtype="uint8", epilogue=UNSIGNED),
    Conv2d(3, 14, 14, 112, 160, 1, 1, epilogue=SIGNED),
    Conv2d(3, 14, 15, 64, 72, 3, 3, **_SAME, zero_point_border=True, epilogue=UNSIGNED),
    Conv2d(2, 21, 21, 32, 64, 3, 3, (2, 2), **_SAME, in_dtype="uint8", epilogue=SIGNED),
    Conv2d(2, 13, 15, 144, 144, 5, 5, (2, 2), (2, 2, 2, 2), groups=144, in_dtype="uint8",
           zero_point_border=True, epilogue=UNSIGNED),
    Conv2d(8, 9, 9, 32, 32, 1, 1, out_layout="NHWCnc", epilogue=SIGNED),
    Conv2d(8, 1, 1, 96, 4, 1, 1, in_dtype="uint8", epilogue=UNSIGNED),
    Conv2d(8, 1, 1, 4, 96, 1, 1, in_dtype="uint8", epilogue=UNSIGNED),
    Conv2d(2, 17, 16, 64, 64, 3, 3, **_SAME, epilogue=Epilogue("uint8", "int8", True, table=True)),
    Gemm(130, 40, 64, in_dtype="uint8", epilogue=SIGNED),
]  # fmt: skip
CUDA = [template for template in TEMPLATES if not template.name.endswith("_cpu")]


# What some GPU computes: the one at hand may decline it.
KNOWN = [parse_target(f"cuda:{arch}") for arch in ("sm_80", "sm_90a")]
CASES = [
    (template, workload)
    for workload in WORKLOADS
    for template in CUDA
    if any(template.matches(workload, target) for target in KNOWN)
]


@pytest.mark.parametrize(
    ("template", "workload"), CASES, ids=lambda case: getattr(case, "name", None) or str(case)
)
def test_every_element_is_exact(template: Template, workload: Workload) -> None:
    target = gpu_target()
    if not template.matches(workload, target):
        pytest.skip("another template's workload")
    configs: list[Any] = [template.default(workload, target)]
    configs += sampled(template, workload, target, 13, 2)
    kernels = compiled(template, workload, [(config, target) for config in configs], target)
    activations, constants = random_case(workload, seed=7)
    expected = workload.reference_in_threads(activations, constants, 8)
    bench = CudaBench(Device(), activations, expected)
    for config, kernel in zip(configs, kernels, strict=True):
        candidate = bench.load(kernel, template.pack(workload, config, constants))
        for poison in (0x55, 0xAA):
            wrong = complaints(candidate.run_over(poison), expected, workload, target)
            assert not wrong, f"{config}: {wrong}"
