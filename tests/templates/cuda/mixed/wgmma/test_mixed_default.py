"""The untuned configuration of the mixed-input product: when its reductions are divided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.mixed.wgmma.cost import estimate
from autoq.templates.cuda.mixed.wgmma.float_gemm_wgmma import TEMPLATE
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
FEW_TILES = FloatGemm(16, 4096, 4096, weight_dtype="int4", group=128)


def test_few_tiles_are_divided_into_parts_of_a_cluster():
    config = TEMPLATE.default(FEW_TILES, TARGET)
    assert (config.split_k, config.split_cluster) == (2, True)


@pytest.mark.parametrize("rows", [1, 16, 64])
@pytest.mark.parametrize("columns", [256, 1024, 4096, 8192])
def test_parts_run_at_once(rows, columns):
    workload = replace(FEW_TILES, m=rows, n=columns)
    config = TEMPLATE.default(workload, TARGET)
    blocks = MixedPlan(workload, config).works * config.split_k
    assert config.split_k == 1 or blocks <= TARGET.units_in_clusters(config.split_k)


@pytest.mark.parametrize("rows", [2048, 4096])
def test_tiles_that_fill_the_device_are_not_divided(rows):
    config = TEMPLATE.default(replace(FEW_TILES, m=rows), TARGET)
    assert config.split_k == 1 and not config.stream_k


def test_parts_that_do_not_run_at_once_count_as_two_waves():
    """An H200 runs 30 clusters of four blocks, so that 32 take twice as long, and 66 pairs."""
    config = replace(
        TEMPLATE.default(FEW_TILES, TARGET), split_k=4, consumers=2, k_groups=1, row_blocks=1
    )
    assert MixedPlan(FEW_TILES, config).works == 32
    fewer = replace(FEW_TILES, n=30 * 128)
    assert estimate(FEW_TILES, config, TARGET) > 1.4 * estimate(fewer, config, TARGET)
    pairs = replace(config, split_k=2)
    assert estimate(FEW_TILES, pairs, TARGET) < 1.1 * estimate(fewer, pairs, TARGET)


@needs_nvcc
@pytest.mark.parametrize(
    "workload",
    [
        FloatGemm(16, 520, 2048, weight_dtype="int4", group=128, residual=True),
        FloatGemm(8, 256, 1536, "bfloat16", "int8", "bfloat16", bias=True),
        FloatGemm(3, 136, 2048, "bfloat16", "uint4", "bfloat16", group=64, zero_points=True),
        FloatGemm(20, 264, 1600, "float8_e4m3fn", "float8_e4m3fn", x_scale=True, batch=2),
        FloatGemm(33, 72, 1600, weight_left=True, out_dtype="float32"),
    ],
    ids=str,
)
def test_divided_defaults_are_right(workload):
    config = TEMPLATE.default(workload, TARGET)
    assert config.split_cluster and config.split_k in (4, 8)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)
