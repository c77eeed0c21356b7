"""Mixed-input kernels on the emulator: every output element, eager and late, of knobs and forms.

Each case has a knob that changes what threads do, with tails of rows, of weight rows and of k.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.mixed.conversion import GroupScale
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.float_gemm_wgmma import TEMPLATE
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CONFIG = MixedConfig(
    block_m=32, consumers=1, k_groups=1, row_blocks=1, steps=1, stages=4, cluster=1, group_m=4
)  # fmt: skip
E4M3 = "float8_e4m3fn"
GROUPS = FloatGemm(72, 200, 512, "bfloat16", "uint4", "bfloat16", group=128, zero_points=True)

# Workload, knobs other than those of CONFIG, multiprocessors.
CASES: list[tuple[FloatGemm, dict[str, Any], int]] = [
    (FloatGemm(60, 200, 200, bias=True, activation="gelu"), {"block_m": 16, "row_blocks": 2}, 132),
    (FloatGemm(44, 72, 200, out_dtype="float32", weight_left=True), {"block_m": 48}, 132),
    (FloatGemm(56, 100, 136, "bfloat16", "bfloat16", "float32"), {"cluster": 2}, 132),
    (FloatGemm(216, 72, 200, "bfloat16", "int4", "float16", weight_left=True),
     {"block_m": 112}, 2),
    (GROUPS, {"group_scale": GroupScale.SUM, "steps": 2, "consumers": 2, "k_groups": 2}, 132),
    (replace(GROUPS, group=32), {"group_scale": GroupScale.SUM}, 132),
    (FloatGemm(60, 200, 256, weight_dtype="int4", group=64), {"widening": Widening.SUBNORMAL}, 132),
    (replace(GROUPS, group=256, zero_points=False), {"group_scale": GroupScale.SUM}, 3),
    (FloatGemm(72, 200, 600), {"split_k": 3, "cluster": 2, "weights_once": True}, 132),
    (FloatGemm(72, 200, 600), {"split_k": 2, "split_cluster": True, "consumers": 2}, 132),
    (replace(GROUPS, k=1024),
     {"split_k": 4, "split_cluster": True, "consumers": 2, "k_groups": 2, "row_blocks": 2}, 132),
    (FloatGemm(72, 264, 600), {"stream_k": True}, 4),
    (FloatGemm(200, 264, 600, weight_left=True),
     {"stream_k": True, "cluster": 2, "block_m": 48}, 8),
    (FloatGemm(60, 56, 640, batch=2), {"stream_k": True, "consumers": 2, "k_groups": 2}, 132),
    (FloatGemm(100, 296, 400, bias=True), {"consumers": 2, "teams": 2}, 2),
    (FloatGemm(136, 488, 200, "bfloat16", "int8", "bfloat16", weight_left=True),
     {"consumers": 2, "teams": 2, "cluster": 2, "row_blocks": 2, "stages": 3}, 4),
    (FloatGemm(100, 300, 200, out_dtype="float32"), {"consumers": 2, "teams": 2}, 1),
    (replace(GROUPS, n=456), {"group_scale": GroupScale.SUM, "consumers": 4, "teams": 2}, 2),
    (FloatGemm(60, 56, 208, E4M3, E4M3, x_scale=True, residual=True, batch=2), {}, 132),
    (FloatGemm(52, 70, 208, E4M3, E4M3, "float32", bias=True, activation="relu", residual=True,
               weight_left=True), {}, 132),
    # Residuals: several slices and row blocks, tiles in turn, groups, teams, and divided sums.
    (FloatGemm(216, 232, 136, weight_dtype="float16", residual=True, bias=True),
     {"block_m": 144, "row_blocks": 2, "consumers": 2, "stages": 3}, 1),
    (FloatGemm(200, 136, 136, "bfloat16", "bfloat16", "float32", residual=True),
     {"block_m": 64}, 2),
    (FloatGemm(100, 296, 400, residual=True, residual_first=True, activation="relu"),
     {"consumers": 2, "teams": 2}, 2),
    (FloatGemm(136, 72, 304, "bfloat16", "int8", "bfloat16", residual=True, weight_left=True),
     {"consumers": 2, "k_groups": 2, "block_m": 80}, 1),
    (FloatGemm(72, 264, 600, residual=True), {"stream_k": True}, 4),
    (FloatGemm(72, 200, 600, residual=True), {"split_k": 3}, 132),
    (FloatGemm(144, 200, 600, residual=True, out_dtype="float32"),
     {"split_k": 2, "split_cluster": True, "consumers": 2, "block_m": 144}, 132),
    (FloatGemm(200, 296, 656, E4M3, E4M3, x_scale=True),
     {"consumers": 2, "turns": True, "row_blocks": 2}, 2),
    (FloatGemm(100, 300, 200, "float16", "float16", "float32"),
     {"consumers": 3, "turns": True, "stages": 5}, 1),
    (FloatGemm(136, 488, 200, "bfloat16", "bfloat16", "bfloat16", weight_left=True),
     {"consumers": 2, "turns": True, "cluster": 2, "stages": 3, "turns_back": True,
      "group_m": 1}, 4),
    # Three consumers of as many rows of x as they have registers for.
    (FloatGemm(296, 328, 200, "bfloat16", "uint8", "bfloat16", weight_left=True),
     {"consumers": 3, "block_m": 192, "stages": 4, "widening": Widening.MASK}, 3),
    (FloatGemm(392, 600, 136, weight_dtype="int4"),
     {"consumers": 3, "block_m": 192, "stages": 4, "cluster": 2}, 2),
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("workload, knobs, units", CASES, ids=str)
def test_every_element_is_right(workload: FloatGemm, knobs: dict[str, Any], units: int) -> None:
    target, config = TARGET.of_units(units), replace(CONFIG, **knobs)
    assert TEMPLATE.matches(workload, target)
    assert TEMPLATE.space(workload, target).rejection(config) is None
    assert_right_emulated(TEMPLATE, workload, config, target)
