"""Outputs of attention of bytes whose bounds are those of their type, and of some within it."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.measure.arrays import random_case
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.base import Template
from autoq.templates.cuda.attention import attention_mma_sync
from autoq.templates.cuda.attention.wgmma import attention_wgmma_bytes
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.attention_scalars import ATTENTION_SCALARS
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
STEEP = 4.0
"""How much the outputs of a random case are spread, beyond both ends of a byte."""


@needs_nvcc
@pytest.mark.parametrize(
    "template",
    [attention_mma_sync.TEMPLATE, attention_wgmma_bytes.TEMPLATE],
    ids=lambda template: template.name,
)
@pytest.mark.parametrize("out_dtype", ["int8", "uint8"])
@pytest.mark.parametrize("place, inside", [(0, 0), (100, 0), (127, 0), (255, 0), (128, 1)])
def test_outputs_are_clamped(template: Template, out_dtype: str, place: int, inside: int) -> None:
    """place: of the zero point above the type's least; inside: how far bounds are within it."""
    workload = Attention(
        1, 2, 70, 40, 32, "uint8", "int8", "uint8", out_dtype, quantised_scores=True
    )
    arrays, constants = random_case(workload, 3)
    scalars = np.array(constants["scalars"])
    given = {
        "scores_low": -120.0, "scores_high": 135.0, "scores_step": 0.05,
        "low": inside - place, "high": 255 - inside - place,
        "zero_point": INTEGER_RANGE[out_dtype][0] + place,
    }  # fmt: skip
    scalars[ATTENTION_SCALARS.index("out_scale")] *= STEEP
    for name, value in given.items():
        scalars[ATTENTION_SCALARS.index(name)] = value
    case = arrays, {**constants, "scalars": scalars}
    (expected,) = workload.reference(*case)
    values = expected.astype(int) - given["zero_point"]
    if place in (100, 127, 128):
        assert values.min() == given["low"] and values.max() == given["high"], "both bounds are met"
    config = template.default(workload, HOPPER)
    assert_right_emulated(template, workload, config, HOPPER, modes=("eager",), case=case)
