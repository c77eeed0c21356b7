"""Attention that computes its queries, keys and values: right, without spills, what it declines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_kernels import assert_right, hopper_target
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.templates.cuda.attention.projected.attention_projected import TEMPLATE
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.projected_attention import ProjectedAttention, projected
from autoq.templates.operators.shared.shared_gemm import SharedGemm
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
BERT = ProjectedAttention(8, 12, 128, 64, 768, quantised_scores=True)
SMALL = [
    ProjectedAttention(1, 2, 128, 32, 400, quantised_scores=True, rescaled_scores=True),
    ProjectedAttention(2, 1, 70, 64, 144, "int8", "int8", "int8", "uint8"),
    ProjectedAttention(1, 3, 19, 32, 48, "uint8", "uint8", "uint8", "int8", True),
]


@needs_nvcc
@pytest.mark.parametrize("workload", SMALL, ids=str)
def test_projected_attention_is_right(workload: ProjectedAttention) -> None:
    least = min(TEMPLATE.space(workload, HOPPER).enumerate(), key=lambda config: config.stages)
    assert_right_emulated(TEMPLATE, workload, least, HOPPER)


@needs_nvcc
def test_berts_kernel_spills_nothing() -> None:
    config = TEMPLATE.default(BERT, HOPPER)
    kernel = compile_kernel(TEMPLATE.build(BERT, config, HOPPER), HOPPER)
    assert kernel.spill_bytes == 0
    assert kernel.launches[0].grid == (96, 1, 1)


def test_what_is_declined() -> None:
    assert TEMPLATE.matches(BERT, HOPPER)
    assert not TEMPLATE.matches(BERT, parse_target("cuda:sm_80"))
    for changes in ({"rows": 129}, {"depth": 48}, {"columns": 776}):
        assert not TEMPLATE.matches(replace(BERT, **changes), HOPPER)


def test_products_and_attention_that_fit_are_one_workload() -> None:
    products, attention = BERT.projection, BERT.attention
    assert projected(products, attention) == BERT
    assert projected(attention, products) is None
    assert projected(replace(products, products=2), attention) is None
    assert projected(replace(products, m=512), attention) is None
    for changes in ({"causal": True}, {"mask_axes": "n"}, {"keys": 64}, {"k_dtype": "int8"},
                    {"y_order": "bhld"}, {"out_dtype": "float32"}):  # fmt: skip
        assert projected(products, replace(attention, **changes)) is None
    assert isinstance(products, SharedGemm) and isinstance(attention, Attention)


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [BERT, replace(BERT, heads=3, rows=100), *SMALL], ids=str)
def test_projected_attention_is_right_on_gpu(workload: ProjectedAttention) -> None:
    target = hopper_target()
    configs = list(TEMPLATE.space(workload, target).enumerate())
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target)
