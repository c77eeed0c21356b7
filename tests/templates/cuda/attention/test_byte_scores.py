"""Scores of bytes between bounds of every kind, on the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from attention_workloads import BYTES
from ptx.kernels import run
from with_nvcc import needs_nvcc

from autoq.measure.arrays import random_case
from autoq.measure.check import complaints
from autoq.templates.base import Template
from autoq.templates.cuda.attention import attention_mma_sync
from autoq.templates.cuda.attention.config import AttentionConfig
from autoq.templates.cuda.attention.wgmma import attention_wgmma_bytes
from autoq.templates.cuda.attention.wgmma.config import WgmmaAttentionConfig
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.attention_scalars import ATTENTION_SCALARS
from autoq.templates.target import parse_target
from autoq.templates.workload import Constants

HOPPER = parse_target("cuda:sm_90a")
WORKLOAD = Attention(1, 2, 20, 70, 32, **BYTES, quantised_scores=True)
MMA_SYNC, WGMMA = attention_mma_sync.TEMPLATE, attention_wgmma_bytes.TEMPLATE
CONFIGS = [
    (MMA_SYNC, AttentionConfig(1, 2, 32, 2, True, False, True, 1)),
    (WGMMA, WgmmaAttentionConfig(1, 0, 96, 1, False, False, False, 0, False, 1)),
    (WGMMA, WgmmaAttentionConfig(1, 0, 64, 2, False, False, False, 0, False, 1)),
    (WGMMA, WgmmaAttentionConfig(1, 0, 64, 2, False, False, True, 0, True, 1)),
]


def changed(constants: Constants, scalars: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Scalars of a case with some by name as they are given."""
    found = np.array(constants["scalars"])
    for name, value in scalars.items():
        found[ATTENTION_SCALARS.index(name)] = value
    return {"scalars": found}


def assert_right(
    arrays: Sequence[np.ndarray],
    constants: Constants,
    template: Template,
    config: AttentionConfig | WgmmaAttentionConfig,
) -> None:
    """Every output element is, on the emulator."""
    expected = WORKLOAD.reference(arrays, constants)
    inputs = [*arrays, *template.pack(WORKLOAD, config, constants)]
    function = template.build(WORKLOAD, config, HOPPER)
    (y,) = run(function, HOPPER, inputs, [WORKLOAD.outputs[0].stored])
    assert complaints([y], expected, WORKLOAD, HOPPER) is None


@needs_nvcc
@pytest.mark.parametrize(("template", "config"), CONFIGS)
@pytest.mark.parametrize(
    "scalars",
    [{"scores_low": -128, "scores_high": 127, "shares_most": 255},
     {"scores_low": -31, "scores_high": 90},
     {"scores_low": -127, "scores_high": 127, "shares_most": 40},
     {"scores_low": -128, "scores_high": 127, "scores_step": 0.9},
     {"scores_low": 7, "scores_high": 7}],
    ids=str,
)  # fmt: skip
def test_bounds_of_scores_and_shares(
    scalars: dict[str, float], template: Template, config: AttentionConfig | WgmmaAttentionConfig
) -> None:
    """Even and odd ones, scores too far apart for any to be the base, and shares that are cut."""
    arrays, constants = random_case(WORKLOAD, 4)
    assert_right(arrays, {**constants, **changed(constants, scalars)}, template, config)


@needs_nvcc
@pytest.mark.parametrize(("template", "config"), CONFIGS)
@pytest.mark.parametrize("low", [-32, -31])
def test_ties_of_scores_go_to_even_numbers(
    low: int, template: Template, config: AttentionConfig | WgmmaAttentionConfig
) -> None:
    """Half of all scores are ties, which a step of 0.3 makes visible."""
    (q, k, v), constants = random_case(WORKLOAD, 5)
    q, k = 119 + q.astype(int) % 5 - 2, 131 + k.astype(int) % 5 - 2
    arrays = (q.astype(np.uint8), k.astype(np.uint8), v)
    scalars = {"scale": 0.5, "scores_low": low, "scores_step": 0.3}
    assert_right(arrays, {**constants, **changed(constants, scalars)}, template, config)
