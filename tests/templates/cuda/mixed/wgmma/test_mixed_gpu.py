"""Mixed-input products on a GPU, every output element against numpy, over poisoned output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_kernels import assert_right, hopper_target, sampled
from mixed_cases import CASES, FORMS

from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.float_gemm_wgmma import TEMPLATE
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

pytestmark = pytest.mark.gpu

TARGET = parse_target("cuda:sm_90a")
SAMPLES = 2


@pytest.mark.parametrize("workload", [*CASES, *FORMS], ids=repr)
def test_every_element_is_right(workload: FloatGemm) -> None:
    target = hopper_target()
    configs = [TEMPLATE.default(workload, TARGET)]
    configs += sampled(TEMPLATE, workload, TARGET, 11, SAMPLES)
    assert_right(TEMPLATE, workload, [(config, TARGET) for config in configs], target)


PARTS = MixedConfig(
    block_m=32, consumers=2, k_groups=1, row_blocks=1, steps=1, stages=4, cluster=1, group_m=4,
    split_k=2, split_cluster=True,
)  # fmt: skip
NIBBLES = FloatGemm(60, 712, 4096, weight_dtype="int4", group=128, bias=True)


@pytest.mark.parametrize(
    "workload, knobs",
    [
        (FloatGemm(440, 1000, 1000, "bfloat16", out_dtype="float32"), {}),
        (FloatGemm(184, 520, 2048, batch=2, weight_left=True), {"split_k": 4, "row_blocks": 2}),
        (NIBBLES, {"split_k": 8, "consumers": 4, "k_groups": 2}),
        (NIBBLES, {"widening": Widening.SUBNORMAL}),
        (replace(NIBBLES, weight_dtype="uint4", group=32), {"widening": Widening.SUBNORMAL}),
    ],
    ids=str,
)
def test_parts_of_a_cluster_are_right(workload: FloatGemm, knobs: dict[str, Any]) -> None:
    config = replace(PARTS, **knobs)
    assert TEMPLATE.space(workload, TARGET).rejection(config) is None
    assert_right(TEMPLATE, workload, [(config, TARGET)], hopper_target())


E4M3 = "float8_e4m3fn"
TURNS = MixedConfig(
    block_m=64, consumers=2, k_groups=1, row_blocks=2, steps=1, stages=5, cluster=1, group_m=4,
    turns=True,
)  # fmt: skip


@pytest.mark.parametrize(
    "workload, knobs",
    [
        (FloatGemm(2136, 1416, 1040, E4M3, E4M3, x_scale=True), {"turns_back": True}),
        (FloatGemm(2136, 1416, 1040, E4M3, E4M3, "float32", x_scale=True), {}),
        (FloatGemm(1500, 1416, 520, "float16", "float16", bias=True, activation="gelu"),
         {"consumers": 3, "row_blocks": 1, "block_m": 32}),
        (FloatGemm(1504, 1500, 520, "bfloat16", "bfloat16", "float32", weight_left=True),
         {"cluster": 2, "block_m": 128, "stages": 4}),
    ],
    ids=str,
)  # fmt: skip
def test_consumers_in_turn_are_right(workload: FloatGemm, knobs: dict[str, Any]) -> None:
    """Blocks have several tiles, so that each consumer has more than one turn."""
    config = replace(TURNS, **knobs)
    assert TEMPLATE.matches(workload, TARGET)
    assert TEMPLATE.space(workload, TARGET).rejection(config) is None
    assert_right(TEMPLATE, workload, [(config, TARGET)], hopper_target())
