"""Attention on mma.sync: right on the emulator and a GPU, without spills, waits where it must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_workloads import BYTES, NAMED, assert_sample_right, random_attention
from compiled_defaults import compiled_default
from gpu_kernels import assert_right, gpu_target, sampled
from ptx.kernels import run
from with_nvcc import needs_nvcc

from autoq.measure.arrays import random_case, stored_activations
from autoq.measure.check import complaints
from autoq.templates.cuda.attention.attention_mma_sync import TEMPLATE
from autoq.templates.cuda.attention.config import AttentionConfig
from autoq.templates.cuda.attention.cost import registers
from autoq.templates.cuda.attention.plan import AttentionPlan
from autoq.templates.operators.attention import Attention
from autoq.templates.target import parse_target

AMPERE = parse_target("cuda:sm_80")


@needs_nvcc
@pytest.mark.parametrize("seed", range(6))
def test_random_attention_is_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert_sample_right(TEMPLATE, random_attention(rng), rng, seed)


@needs_nvcc
@pytest.mark.parametrize("zero_points", [(0, 0, 0), (3, 0, 0), (0, 200, 9)], ids=str)
def test_zero_points_are_of_the_run(zero_points: tuple[int, int, int]) -> None:
    workload = Attention(1, 2, 20, 70, 20, **BYTES, quantised_scores=True)
    values, constants = random_case(workload, 1)
    names = ("q_zero_point", "k_zero_point", "v_zero_point")
    constants |= dict(zip(names, zero_points, strict=True))
    config = AttentionConfig(1, 2, 32, 2, True, False, True, 1)
    inputs = [*stored_activations(workload, values), *TEMPLATE.pack(workload, config, constants)]
    function = TEMPLATE.build(workload, config, AMPERE)
    (y,) = run(function, AMPERE, inputs, [workload.outputs[0].stored])
    assert complaints([y], workload.reference(values, constants), workload, AMPERE) is None


@needs_nvcc
@pytest.mark.parametrize("hides", [-np.inf, np.finfo(np.float32).min], ids=["infinite", "finite"])
def test_tiles_that_a_mask_hides_as_a_whole(hides: float) -> None:
    """The first keys of a row are hidden, so that its largest score is the least for a while.

    Where what hides is finite, all keys of one row are hidden, and have the same share.
    """
    workload = Attention(1, 1, 16, 96, 16, mask_axes="mn")
    for work in (workload, replace(workload, **BYTES)):
        (*arrays, mask), constants = random_case(work, 2)
        mask = np.where(np.arange(96) < 70, hides, mask).astype(np.float32)
        if np.isfinite(hides):
            mask[..., 3, :] = hides
        for tile_keys, stages in ((32, 3), (96, 1)):
            config = AttentionConfig(1, 1, tile_keys, stages, True, work.floating, False, 1)
            inputs = [*arrays, mask, *TEMPLATE.pack(work, config, constants)]
            function = TEMPLATE.build(work, config, AMPERE)
            (y,) = run(function, AMPERE, inputs, [work.outputs[0].stored])
            expected = work.reference((*arrays, mask), constants)
            assert complaints([y], expected, work, AMPERE) is None


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "arch"), [("vit f16", "sm_80"), ("vit s8", "sm_90a"), ("long 4096 s8", "sm_89")]
)
def test_defaults_compile_without_spills(name: str, arch: str) -> None:
    target, workload = parse_target(f"cuda:{arch}"), NAMED[name]
    kernel, plan = compiled_default(TEMPLATE, workload, target, AttentionPlan)
    assert kernel.registers <= registers(plan, target) + 40


def test_what_it_declines() -> None:
    assert not TEMPLATE.matches(Attention(1, 1, 8, 8, 64), parse_target("cuda:sm_75"))
    assert not TEMPLATE.matches(Attention(1, 1, 8, 8, 264), AMPERE)
    assert not TEMPLATE.matches(Attention(1, 1, 8, 8, 33), AMPERE)
    assert TEMPLATE.matches(Attention(1, 1, 8, 8, 256), AMPERE)
    assert not TEMPLATE.matches(Attention(1, 1, 8, 8, 256, **BYTES), AMPERE)
    for work in (Attention(1, 1, 9, 999, 192, **BYTES), Attention(1, 1, 8, 8, 192, causal=True)):
        assert TEMPLATE.default(work, AMPERE) in TEMPLATE.space(work, AMPERE)


_GPU_CASES = [random_attention(np.random.default_rng(seed)) for seed in range(100, 116)]


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [*_GPU_CASES, NAMED["vit f16"], NAMED["vit s8"]], ids=str)
def test_right_on_gpu(workload: Attention) -> None:
    target = gpu_target()
    configs = [TEMPLATE.default(workload, target)]
    configs += sampled(TEMPLATE, workload, target, seed=3, count=3)
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target, seed=9)
