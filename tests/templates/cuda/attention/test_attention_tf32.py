"""Attention of float32 on tensor cores: right on the emulator and a GPU, as exact as float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attention_workloads import assert_sample_right, random_attention
from compiled_defaults import compiled_default
from gpu_kernels import assert_right, gpu_target, sampled
from ptx.kernels import assert_right_emulated, run
from with_nvcc import needs_nvcc

from autoq.measure.arrays import random_case
from autoq.templates.cuda.attention.attention_mma_sync import TEMPLATE as HALVES
from autoq.templates.cuda.attention.tf32.attention_tf32 import TEMPLATE
from autoq.templates.cuda.attention.tf32.config import Tf32AttentionConfig
from autoq.templates.cuda.attention.tf32.plan import Tf32AttentionPlan
from autoq.templates.operators.attention import Attention
from autoq.templates.target import parse_target

AMPERE = parse_target("cuda:sm_80")
FLOAT32 = dict.fromkeys(("q_dtype", "k_dtype", "v_dtype", "out_dtype"), "float32")
SIDE_BY_SIDE = {f"{name}_order": "blhd" for name in "qkvy"}
BERT = Attention(8, 12, 128, 128, 64, **FLOAT32, **SIDE_BY_SIDE)


def random_float32(rng: np.random.Generator) -> Attention:
    """Attention of random lengths, orders, masks and odd depths, to floats or their bytes."""
    work = random_attention(rng, longest=100)
    while not work.floating:
        work = random_attention(rng, longest=100)
    work = replace(work, depth=int(rng.integers(1, 100)), **FLOAT32)
    return work.by_range() if rng.random() < 0.5 else work


@needs_nvcc
@pytest.mark.parametrize("seed", range(6))
def test_random_attention_is_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert_sample_right(TEMPLATE, random_float32(rng), rng, seed)


@needs_nvcc
@pytest.mark.parametrize("holds", [False, True], ids=["reads", "holds"])
def test_errors_are_those_of_float32(holds: bool) -> None:
    """Against float64, where a single product of tf32 errs by 2^-11 of each factor."""
    workload = Attention(1, 2, 20, 72, 68, **FLOAT32, mask_axes="n")
    arrays, constants = random_case(workload, 5)
    config = Tf32AttentionConfig(1, 32, 2, holds, 1)
    inputs = [*arrays, *TEMPLATE.pack(workload, config, constants)]
    function = TEMPLATE.build(workload, config, AMPERE)
    (y,) = run(function, AMPERE, inputs, [workload.outputs[0].stored])
    q, k, v, mask = (np.asarray(array, np.float64) for array in arrays)
    scores = q @ k.swapaxes(-1, -2) * float(constants["scalars"][0]) + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    exact = powers / powers.sum(-1, keepdims=True) @ v
    error = np.abs(y - exact).max() / np.sqrt((exact**2).mean())
    assert error < 2.0**-18
    single = workload.reference(arrays, constants)[0] - exact
    assert np.abs(y - exact).mean() < 8 * np.abs(single).mean()


@needs_nvcc
@pytest.mark.parametrize("hides", [-np.inf, np.finfo(np.float32).min], ids=["infinite", "finite"])
def test_tiles_that_a_mask_hides_as_a_whole(hides: float) -> None:
    """The first keys of a row are hidden; where what hides is finite, all keys of one row are."""
    workload = Attention(1, 1, 16, 96, 16, **FLOAT32, mask_axes="mn")
    (*arrays, mask), constants = random_case(workload, 2)
    mask = np.where(np.arange(96) < 70, hides, mask).astype(np.float32)
    if np.isfinite(hides):
        mask[..., 3, :] = hides
    for tile_keys, stages in ((32, 3), (96, 1)):
        config = Tf32AttentionConfig(1, tile_keys, stages, True, 1)
        case = ((*arrays, mask), constants)
        assert_right_emulated(TEMPLATE, workload, config, AMPERE, case=case)


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "arch"),
    [
        (workload, arch)
        for workload, archs in (
            (BERT, ("sm_80", "sm_90a")),
            (replace(BERT, mask_axes="bn"), ("sm_86", "sm_90a")),
            (replace(BERT, queries=300, keys=300, depth=192), ("sm_80", "sm_89")),
        )
        for arch in archs
    ],
    ids=str,
)
def test_defaults_compile_without_spills(workload: Attention, arch: str) -> None:
    target = parse_target(f"cuda:{arch}")
    compiled_default(TEMPLATE, workload, target, Tf32AttentionPlan)


def test_what_it_declines() -> None:
    assert TEMPLATE.matches(BERT, AMPERE)
    assert not TEMPLATE.matches(BERT, parse_target("cuda:sm_75"))
    assert not TEMPLATE.matches(replace(BERT, depth=200), AMPERE)
    halves = Attention(1, 1, 8, 8, 64)
    assert not TEMPLATE.matches(halves, AMPERE)
    assert HALVES.matches(halves, AMPERE)
    assert not HALVES.matches(BERT, AMPERE)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "workload",
    [BERT, *(random_float32(np.random.default_rng(seed)) for seed in range(100, 110))],
    ids=str,
)
def test_right_on_gpu(workload: Attention) -> None:
    target = gpu_target()
    configs = [TEMPLATE.default(workload, target)]
    configs += sampled(TEMPLATE, workload, target, seed=3, count=3)
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target, seed=9)
