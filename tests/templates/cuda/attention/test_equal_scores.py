"""Rows of equal scores, whose shares lie beside a tie: all of them round as the model's do."""

from __future__ import annotations

import numpy as np
import pytest
from attention_workloads import BYTES
from ptx.kernels import run
from with_nvcc import needs_nvcc

from autoq.measure.arrays import random_case
from autoq.templates.base import Template
from autoq.templates.cuda.attention import attention_mma_sync
from autoq.templates.cuda.attention.wgmma import attention_wgmma_bytes
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.attention_scalars import ATTENTION_SCALARS
from autoq.templates.target import parse_target
from autoq.templates.workload import Arrays, Constants

HOPPER = parse_target("cuda:sm_90a")
WORKLOAD = Attention(
    1, 1, 16, 24, 16, "int8", "int8", "uint8", "uint8", mask_axes="n",
    quantised_scores=True, quantised_masked=True,
)  # fmt: skip


def assert_the_same_bytes(
    template: Template, workload: Attention, arrays: Arrays, constants: Constants,
    given: dict[str, float],
) -> None:  # fmt: skip
    """Fail unless the default gives the reference's bytes, with these scalars among the others."""
    scalars = np.array(constants["scalars"])
    for name, value in given.items():
        scalars[ATTENTION_SCALARS.index(name)] = value
    constants = {**constants, "scalars": scalars}
    config = template.default(workload, HOPPER)
    inputs = [*arrays, *template.pack(workload, config, constants)]
    function = template.build(workload, config, HOPPER)
    (y,) = run(function, HOPPER, inputs, [workload.outputs[0].stored])
    np.testing.assert_array_equal(y, workload.reference(arrays, constants)[0])


@needs_nvcc
@pytest.mark.parametrize(
    "template",
    [attention_mma_sync.TEMPLATE, attention_wgmma_bytes.TEMPLATE],
    ids=lambda template: template.name,
)
def test_equal_shares_round_as_the_models(template: Template) -> None:
    """Ten keys, whose share of 0.1 is 25.499998 steps of 0.0039215689."""
    (q, k, v, mask), constants = random_case(WORKLOAD, 3)
    step = float(np.finfo(np.float32).max) / 255
    given = {
        "masked_step": step,
        "masked_low": -255,
        "masked_high": 0,
        "shares_step": 0.003921568859368563,
    }
    mask = np.where(np.arange(24) < 10, np.float32(0), np.finfo(np.float32).min).reshape(mask.shape)
    arrays = (q, k, v, mask.astype(np.float32))
    assert_the_same_bytes(template, WORKLOAD, arrays, constants, given)


@needs_nvcc
@pytest.mark.parametrize("lower", [-121, -120])
@pytest.mark.parametrize(
    "template",
    [attention_mma_sync.TEMPLATE, attention_wgmma_bytes.TEMPLATE],
    ids=lambda template: template.name,
)
def test_equal_shares_of_small_scores_round_so_too(template: Template, lower: int) -> None:
    """Scores whose powers need no largest one, from an odd bound and from an even one."""
    workload = Attention(1, 1, 64, 10, 16, **BYTES, quantised_scores=True)
    (q, k, v), constants = random_case(workload, 3)
    arrays = (q, np.repeat(k[:, :, :1], 10, axis=2), v)
    given = {
        "scores_low": lower, "scores_high": lower + 255, "scores_step": 0.13,
        "shares_step": 0.003921568859368563, "shares_most": 255,
    }  # fmt: skip
    assert_the_same_bytes(template, workload, arrays, constants, given)
