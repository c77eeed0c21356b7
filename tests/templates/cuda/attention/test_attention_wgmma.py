"""Attention on wgmma: right on the emulator and a GPU, without spills, and what it declines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attention_workloads import BYTES, NAMED, random_attention
from compiled_defaults import compiled_default
from gpu_kernels import assert_right, hopper_target, sampled
from ptx.kernels import assert_right_emulated, run
from with_nvcc import needs_nvcc

from autoq.measure.arrays import random_case, stored_activations
from autoq.measure.check import complaints
from autoq.templates.base import Template
from autoq.templates.cuda.attention import attention_mma_sync
from autoq.templates.cuda.attention.wgmma import attention_wgmma, attention_wgmma_bytes
from autoq.templates.cuda.attention.wgmma.config import WgmmaAttentionConfig
from autoq.templates.cuda.attention.wgmma.cost import registers
from autoq.templates.cuda.attention.wgmma.plan import WgmmaAttentionPlan
from autoq.templates.operators.attention import Attention
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
FLOATS, ROUNDED = attention_wgmma.TEMPLATE, attention_wgmma_bytes.TEMPLATE
MMA_SYNC = attention_mma_sync.TEMPLATE
PLAIN = WgmmaAttentionConfig(1, 0, 64, 2, False, False, False, 0, False, 1)


def template_of(workload: Attention) -> Template:
    """The one of the two that takes it."""
    return FLOATS if workload.floating else ROUNDED


def random_workload(seed: int) -> Attention:
    """Whose rows are whole 16-byte units, which tensor maps ask for."""
    return random_attention(np.random.default_rng(seed), float_unit=8, byte_unit=16, longest=300)


@needs_nvcc
@pytest.mark.parametrize("seed", range(8))
def test_random_attention_on_wgmma_is_right(seed: int) -> None:
    workload = random_workload(seed)
    rng = np.random.default_rng(seed)
    template = template_of(workload)
    (config,) = template.space(workload, HOPPER).sample(rng, 1)
    assert_right_emulated(template, workload, config, HOPPER)


@needs_nvcc
@pytest.mark.parametrize("knob", ["keeps_powers", "gives_registers"])
def test_zero_points_on_wgmma_are_of_the_run(knob: str) -> None:
    workload, config = Attention(1, 2, 20, 70, 32, **BYTES, quantised_scores=True), PLAIN
    config = replace(config, **{knob: True})
    function = ROUNDED.build(workload, config, HOPPER)
    values, constants = random_case(workload, 1)
    names = ("q_zero_point", "k_zero_point", "v_zero_point")
    for zero_points in ((0, 0, 0), (3, 0, 0), (0, 200, 9)):
        constants |= dict(zip(names, zero_points, strict=True))
        inputs = [
            *stored_activations(workload, values),
            *ROUNDED.pack(workload, config, constants),
        ]
        (y,) = run(function, HOPPER, inputs, [workload.outputs[0].stored])
        assert complaints([y], workload.reference(values, constants), workload, HOPPER) is None


@needs_nvcc
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("cubics", [0, 4])
def test_tiles_of_wgmma_that_a_mask_hides_as_a_whole(cubics: int, ahead: bool) -> None:
    """The first keys of all rows, and all keys of one row.

    Where what hides is finite, that row gives all keys the same share; otherwise it is NaN.
    """
    workload = Attention(1, 1, 16, 96, 16, mask_axes="mn")
    config = replace(PLAIN, cubics=cubics, ahead=ahead)
    function = FLOATS.build(workload, config, HOPPER)
    for hides in (-np.inf, np.finfo(np.float32).min):
        (*arrays, mask), constants = random_case(workload, 2)
        mask = np.where(np.arange(96) < 70, np.float32(hides), mask)
        mask[..., 3, :] = hides
        inputs = [*arrays, mask, *FLOATS.pack(workload, config, constants)]
        (y,) = run(function, HOPPER, inputs, [workload.outputs[0].stored])
        (expected,) = workload.reference((*arrays, mask), constants)
        assert np.isnan(expected[0, 0, 3]).all() == np.isinf(hides)
        assert np.isnan(y[0, 0, 3]).all() == np.isinf(hides)
        seen = np.isfinite(expected)
        y, expected = np.where(seen, y, 0), np.where(seen, expected, 0)
        assert complaints([y.astype(expected.dtype)], [expected], workload, HOPPER) is None


@needs_nvcc
@pytest.mark.parametrize(
    "name", ["vit f16", "vit s8", "bert 384 f16", "bert 384 s8", "swin s8", "long 4096x128 f16"]
)
def test_defaults_on_wgmma_compile_without_spills(name: str) -> None:
    workload = NAMED[name]
    _, plan = compiled_default(template_of(workload), workload, HOPPER, WgmmaAttentionPlan)
    assert registers(plan) <= plan.registers.consumer


@needs_nvcc
@pytest.mark.parametrize(
    ("keys", "depth", "options"),
    [(282, 64, {"causal": True}), (423, 64, {}), (297, 128, {"causal": True, "mask_axes": "bn"})],
)
def test_untuned_bytes_of_crowded_threads_compile_without_spills(
    keys: int, depth: int, options: dict[str, Any]
) -> None:
    """Kept powers leave few registers; with a mask ptxas puts products one behind the other."""
    workload = Attention(1, 9, keys, keys, depth, **BYTES, quantised_scores=True, **options)
    compiled_default(ROUNDED, workload, HOPPER, WgmmaAttentionPlan)


@pytest.mark.parametrize(("heads", "small"), [(9, 0), (12, 1)])
def test_untuned_bytes_are_balanced(heads: int, small: int) -> None:
    """On 132 multiprocessors, 432 tiles of rows are two rounds, 576 two and a part of one."""
    types, orders = ("int8",) * 4, dict.fromkeys(("q_order", "k_order", "v_order"), "blhd")
    work = Attention(8, heads, 384, 384, 64, *types, **orders, quantised_scores=True)
    config = ROUNDED.default(work, HOPPER)
    assert config.persistent and config.keeps_powers and config.ahead
    assert (config.consumers, config.small) == (2, small)
    assert ROUNDED.preference_of(work, HOPPER) > MMA_SYNC.preference_of(work, HOPPER)
    few = replace(work, queries=64, keys=64)
    assert ROUNDED.preference_of(few, HOPPER) < MMA_SYNC.preference_of(few, HOPPER)


def test_what_wgmma_declines() -> None:
    assert not FLOATS.matches(Attention(1, 1, 8, 8, 64), parse_target("cuda:sm_80"))
    assert not FLOATS.matches(Attention(1, 1, 8, 8, 200), HOPPER)
    assert not FLOATS.matches(Attention(1, 1, 8, 8, 36), HOPPER)
    assert not ROUNDED.matches(Attention(1, 1, 8, 8, 40, **BYTES), HOPPER)
    assert not ROUNDED.matches(Attention(1, 1, 8, 8, 64), HOPPER)
    assert not FLOATS.matches(Attention(1, 1, 8, 8, 64, **BYTES), HOPPER)
    for work in (
        Attention(1, 1, 9, 999, 192, **BYTES, quantised_scores=True, mask_axes="bhmn"),
        Attention(1, 1, 8, 8, 192, causal=True, mask_axes="bhmn"),
        Attention(3, 2, 1, 1, 8),
    ):
        template = template_of(work)
        assert template.matches(work, HOPPER)
        assert template.default(work, HOPPER) in template.space(work, HOPPER)


@needs_nvcc
def test_small_blocks_compute_the_last_pairs() -> None:
    """On three multiprocessors, some tiles of 64 rows are in blocks of one consumer.

    Of bytes a block computes several; then consumers without rows leave what others share, or two
    of them share rows, each with half of the keys.
    """
    three = replace(HOPPER, units=3)
    once = replace(PLAIN, consumers=3, small=1, gives_registers=True)
    lasting = replace(once, keeps_powers=True, ahead=True, persistent=True)
    rounded = {**BYTES, "quantised_scores": True}
    for workload, config in (
        (Attention(1, 5, 260, 100, 64), once),
        (Attention(1, 5, 260, 100, 64, **rounded), lasting),
        (Attention(1, 5, 200, 100, 64, **rounded), replace(lasting, consumers=2)),
    ):
        assert config in template_of(workload).space(workload, three)
        plan = WgmmaAttentionPlan(workload, config, three)
        assert 0 < plan.full_pairs < 5 and plan.shares_rows == (config.consumers == 2)
        assert_right_emulated(template_of(workload), workload, config, three)


_GPU_CASES = [random_workload(seed) for seed in range(200, 216)]


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [*_GPU_CASES, NAMED["vit f16"], NAMED["vit s8"]], ids=str)
def test_wgmma_is_right_on_gpu(workload: Attention) -> None:
    target = hopper_target()
    template = template_of(workload)
    configs = [template.default(workload, target)]
    configs += sampled(template, workload, target, seed=3, count=3)
    assert_right(template, workload, [(config, target) for config in configs], target, seed=9)
