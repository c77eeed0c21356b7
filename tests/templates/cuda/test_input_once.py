"""Inputs that the L2 cache gives up first: where that is a knob, where a default, and exact."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from halo_check import TARGET, wrong_among
from wgmma_cases import EPILOGUES

from autoq.kernel.lowering import cuda_source, lower
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.input_once import default_input_once, input_once_values
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import matching

THREE = Conv2d(3, 13, 13, 64, 80, 3, 3, padding=(1, 1, 1, 1), in_dtype="uint8",
               epilogue=Epilogue("uint8"))  # fmt: skip
RESIDUAL = Conv2d(3, 13, 13, 64, 128, 1, 1, epilogue=EPILOGUES["u8+s8 requantised"])
CASES = [
    (template, workload)
    for workload in (THREE, RESIDUAL)
    for template in matching(workload, TARGET)
    if "input_once" in template.space(workload, TARGET).knobs
]


def case_id(case: object) -> str:
    return case.name if isinstance(case, Template) else str(case)


def marked(template: Template, workload: Conv2d) -> Any:
    """The default with its inputs marked."""
    return dataclasses.replace(template.default(workload, TARGET), input_once=True)


def pointwise(size: int, c: int, k: int, residual: str | None = None) -> Conv2d:
    """A layer of ResNet-50 at batch 128."""
    return Conv2d(128, size, size, c, k, 1, 1, epilogue=Epilogue("int8", residual))


@pytest.mark.parametrize(
    "workload, knob, default",
    [
        (dataclasses.replace(pointwise(28, 128, 128), n=8), False, False),  # all fits
        (pointwise(28, 128, 128), False, False),
        (pointwise(28, 128, 256), True, False),  # 38.5 MB fit as well
        (pointwise(56, 64, 64), True, True),  # 25.7 MB in, 25.7 MB out
        (pointwise(28, 512, 128), True, True),
        (pointwise(56, 64, 256), True, False),  # the output alone is 103 MB
        (pointwise(28, 128, 512, "int8"), True, False),  # 51 MB out
        (pointwise(14, 256, 1024, "int8"), True, True),  # 6.4 + 25.7 MB in, 25.7 MB out
    ],
    ids=str,
)
def test_where_it_is_a_knob_and_where_the_default(
    workload: Conv2d, knob: bool, default: bool
) -> None:
    assert input_once_values(workload) == ((False, True) if knob else (False,))
    assert default_input_once(workload) == default
    for template in matching(workload, TARGET):
        values = template.space(workload, TARGET).knobs.get("input_once")
        if values is not None:
            config: Any = template.default(workload, TARGET)
            assert values == input_once_values(workload)
            assert config.input_once == default and template.space(workload, TARGET).legal(config)


def test_every_template_that_loads_by_tma_has_the_knob() -> None:
    assert {template.name for template, _ in CASES} == {
        "gemm_wgmma", "conv2d_im2col", "conv2d_tap", "conv2d_halo", "conv2d_swapped",
        "conv2d_swapped_im2col",
    }  # fmt: skip


@pytest.mark.parametrize("template, workload", [CASES[0], *CASES[4:6]], ids=case_id)
def test_the_mark_reaches_loads_of_activations(template: Template, workload: Conv2d) -> None:
    config = marked(template, workload)
    source = cuda_source(lower(template.build(workload, config, TARGET), TARGET), TARGET)
    hinted = source.rsplit('extern "C" __global__', 1)[1].count("cache_hint")
    assert hinted >= 1 + getattr(config, "residual_ahead", False)


def test_without_the_mark_there_is_no_policy() -> None:
    template, workload = CASES[0]
    config = template.default(workload, TARGET)
    lowered = lower(template.build(workload, config, TARGET), TARGET)
    assert "cache_hint" not in cuda_source(lowered, TARGET)


@pytest.mark.gpu
@pytest.mark.parametrize("template, workload", CASES, ids=case_id)
def test_every_element_is_exact(template: Template, workload: Conv2d) -> None:
    assert not wrong_among(template, workload, [marked(template, workload)])
