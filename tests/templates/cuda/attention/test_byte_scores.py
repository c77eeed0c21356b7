"""Scores of bytes between their bounds, and rows that warps share, on the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_workloads import BYTES
from ptx.kernels import assert_right_emulated, run
from with_nvcc import needs_nvcc

from autoq.measure.arrays import random_case
from autoq.measure.check import complaints
from autoq.templates.attention_scalars import ATTENTION_SCALARS
from autoq.templates.cuda.attention import attention_mma_sync
from autoq.templates.cuda.attention.config import AttentionConfig
from autoq.templates.cuda.attention.wgmma import attention_wgmma_bytes
from autoq.templates.cuda.attention.wgmma.config import WgmmaAttentionConfig
from autoq.templates.cuda.attention.wgmma.plan import WgmmaAttentionPlan
from autoq.templates.operators.attention import Attention
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
WORKLOAD = Attention(1, 2, 20, 70, 32, **BYTES, quantised_scores=True)
SHARED = [AttentionConfig(4, 1, 64, 1, True, False, False, 2, 1),
          AttentionConfig(8, 1, 32, 1, True, False, False, 4, 1),
          AttentionConfig(2, 2, 64, 1, True, False, False, 2, 1)]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("config", SHARED, ids=str)
@pytest.mark.parametrize(
    "changes",
    [{"keys": 120}, {"keys": 120, "causal": True, "depth": 72},
     {"keys": 100, "mask_axes": "mn", "quantised_masked": True},
     {"keys": 100, "mask_axes": "bn", "quantised_scores": False}],
    ids=str,
)  # fmt: skip
def test_rows_that_warps_share(config: AttentionConfig, changes: dict) -> None:
    workload = replace(WORKLOAD, **changes)
    assert attention_mma_sync.TEMPLATE.space(workload, HOPPER).legal(config)
    assert_right_emulated(attention_mma_sync.TEMPLATE, workload, config, HOPPER)


@needs_nvcc
@pytest.mark.parametrize("consumers", [1, 2])
def test_consumers_that_load_their_tile_themselves(consumers: int) -> None:
    workload = replace(WORKLOAD, queries=130)
    config = WgmmaAttentionConfig(consumers, 0, 96, 1, False, False, False, 0, False, 1)
    assert WgmmaAttentionPlan(workload, config, HOPPER).threads == 128 * consumers
    assert_right_emulated(attention_wgmma_bytes.TEMPLATE, workload, config, HOPPER)


@needs_nvcc
@pytest.mark.parametrize(
    "scalars",
    [{"scores_low": -128, "scores_high": 127, "shares_most": 255},
     {"scores_low": -31, "scores_high": 90},
     {"scores_low": -127, "scores_high": 127, "shares_most": 40},
     {"scores_low": -128, "scores_high": 127, "scores_step": 0.9},
     {"scores_low": 7, "scores_high": 7}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_bounds_of_scores_and_shares(scalars: dict[str, float], twice: bool) -> None:
    """Even and odd ones, scores too far apart for any to be the base, and shares that are cut."""
    arrays, constants = random_case(WORKLOAD, 4)
    given = np.array(constants["scalars"])
    for name, value in scalars.items():
        given[ATTENTION_SCALARS.index(name)] = value
    constants = {**constants, "scalars": given}
    mma_sync = AttentionConfig(1, 2, 32, 2, True, False, True, 1, 1) if twice else SHARED[0]
    tile, stages = (64, 2) if twice else (96, 1)
    wgmma = WgmmaAttentionConfig(1, 0, tile, stages, False, False, False, 0, False, 1)
    expected = WORKLOAD.reference(arrays, constants)
    for template, config in (
        (attention_mma_sync.TEMPLATE, mma_sync), (attention_wgmma_bytes.TEMPLATE, wgmma)
    ):  # fmt: skip
        inputs = [*arrays, *template.pack(WORKLOAD, config, constants)]
        function = template.build(WORKLOAD, config, HOPPER)
        (y,) = run(function, HOPPER, inputs, [WORKLOAD.outputs[0].stored])
        assert complaints([y], expected, WORKLOAD, HOPPER) is None
