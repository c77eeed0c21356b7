"""Sparse attention on a GPU under random masks, and without headroom, every output element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_kernels import assert_right, gpu_target, sampled

from autoq.templates.cuda.sparse_attention.config import FusedConfig, FusedTiling
from autoq.templates.cuda.sparse_attention.sparse_attention_fused import TEMPLATE
from autoq.templates.operators.sparse_attention import ORDERS, SparseAttention
from autoq.templates.sparse.structure import Structure

pytestmark = pytest.mark.gpu

LONG = SparseAttention(1, 2, 200, 2100, 64, Structure(5250, 210, 300))


def random_workload(rng: np.random.Generator) -> SparseAttention:
    """Of up to 300 queries and 900 keys, under a mask of any density."""
    queries, keys = int(rng.integers(1, 300)), int(rng.integers(1, 900))
    longest = int(rng.integers(0, keys + 1))
    mean = int(rng.integers(0, longest + 1))
    return SparseAttention(
        batch=int(rng.integers(1, 4)),
        heads=int(rng.integers(1, 4)),
        queries=queries,
        keys=keys,
        depth=8 * int(rng.integers(1, 17)),
        structure=Structure(-(-queries // 8) * mean, mean, longest),
        dtype=str(rng.choice(["float16", "bfloat16"])),
        softmax_bits=int(rng.choice([8, 16])),
        qkv_bits=int(rng.choice([4, 8])),
        order=str(rng.choice(ORDERS)),
    )


@pytest.mark.parametrize("seed", range(8))
def test_outputs_are_right_under_any_mask(seed: int) -> None:
    target, workload = gpu_target(), random_workload(np.random.default_rng(seed))
    configs = [TEMPLATE.default(workload, target), *sampled(TEMPLATE, workload, target, seed, 2)]
    assert_right(TEMPLATE, workload, [(config, target) for config in configs], target, seed)


@pytest.mark.parametrize("headroom", [0, 2])
@pytest.mark.parametrize("bits", [8, 16])
def test_outputs_are_right_with_any_headroom(headroom: int, bits: int) -> None:
    """Of rows so long that sums are shifted many times."""
    target, workload = gpu_target(), replace(LONG, softmax_bits=bits)
    config = replace(TEMPLATE.default(workload, target), headroom=headroom)
    assert_right(TEMPLATE, workload, [(config, target)], target)


@pytest.mark.parametrize(("batch", "items"), [(1, 40), (4, 160), (8, 320)])
def test_outputs_are_right_where_blocks_hold_a_device(batch: int, items: int) -> None:
    """Of one item each, of two, and of more than two, for which another kernel makes bytes."""
    target = gpu_target()
    workload = SparseAttention(batch, 8, 2560, 1000, 64, Structure(320 * 60, 60, 90))
    config = FusedConfig(16, 4, 512, 3, 1, 1)
    if config not in TEMPLATE.space(workload, target):
        pytest.skip("blocks of this size do not fit")
    tiling = FusedTiling(workload, config)
    assert tiling.blocks == items
    one_stage = len(TEMPLATE.program(workload, config, target).stages) == 1
    assert one_stage == (target.compute_capability >= 90 and items <= 2 * target.units)
    assert_right(TEMPLATE, workload, [(config, target)], target)
