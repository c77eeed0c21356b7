"""The space of the mma.sync product: the values of its knobs and the rules of a legal one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from autoq.search.space import Space
from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.launch.occupancy import resource_rules
from autoq.templates.cuda.device.planned_space import planned_space
from autoq.templates.cuda.mixed.mma_sync.config import (
    COLUMN_TILE,
    ROW_TILE,
    Conform,
    MixedSyncConfig,
)
from autoq.templates.cuda.mixed.mma_sync.cost import features
from autoq.templates.cuda.mixed.mma_sync.plan import copies_bypass_registers
from autoq.templates.cuda.mixed.mma_sync.resources import registers
from autoq.templates.cuda.mixed.mma_sync.tiling import MixedSyncTiling
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

BLOCK_M = (8, 16, 32, 64, 128, 256)
BLOCK_N = (32, 64, 128, 256)
BLOCK_K = (64, 128)
MOST_INDICES = 1 << 31
"""What 32 bits index: values of x, y and sums, bytes of the packed weight."""

Rule = Callable[[MixedSyncConfig], bool]
TilingOf = Callable[[MixedSyncConfig], MixedSyncTiling]


def space(workload: FloatGemm, target: Target) -> Space[MixedSyncConfig]:
    """Legal tiles, pipelines and ways of weights to the tensor cores."""
    return planned_space(
        MixedSyncConfig,
        _knobs(workload, target),
        lambda config: MixedSyncTiling(workload, config),
        lambda tiling_of: [
            *_tile_rules(workload, tiling_of),
            *_reduction_rules(workload, target, tiling_of),
            *resource_rules(tiling_of, registers, target),
        ],
        lambda config: features(workload, config, target),
    )


def indexable(workload: FloatGemm) -> bool:
    """Whether every array of the least tile has indices of 32 bits."""
    n, k = (-(-extent // tile) * tile for extent, tile in
            ((workload.n, BLOCK_N[0]), (workload.k, BLOCK_K[0])))  # fmt: skip
    packed_bytes = n * k * element(workload.weight_dtype).bits // 8
    most = max(workload.m * workload.k, workload.m * workload.n, packed_bytes)
    return workload.batch * most < MOST_INDICES


def _knobs(workload: FloatGemm, target: Target) -> dict[str, Sequence[Any]]:
    asynchronous = copies_bypass_registers(workload, target)
    # ptxas 13.0 encodes a cp.async with a cache policy as an illegal instruction for sm_90.
    hinted = asynchronous and target.compute_capability < 90
    return {
        "block_m": BLOCK_M,
        "block_n": BLOCK_N,
        "block_k": BLOCK_K,
        "warps_m": (1, 2, 4),
        "warps_n": (1, 2, 4, 8),
        "stages": (2, 3, 4, 5, 6) if asynchronous else (2,),
        "split_k": (1, 2, 4, 8, 16),
        "group_m": (1, 4, 8, 16),
        "widening": widenings(workload),
        "layout": layouts(workload),
        "weights_once": (False, True) if hinted else (False,),
        "blocks_per_sm": (1, 2, 3),
    }


def widenings(workload: FloatGemm) -> tuple[Widening, ...]:
    """Ways of a workload's weights to floats, the best one first."""
    if not workload.quantised:
        return (Widening.PERMUTE,)
    nibbles = element(workload.weight_dtype).packed
    return (Widening.PERMUTE, Widening.CONVERT, *((Widening.TABLE,) if nibbles else ()))


def layouts(workload: FloatGemm) -> tuple[Conform, ...]:
    """Ways of a workload's weights to the threads that multiply them, the best one first."""
    if not workload.quantised:
        return (Conform.NONE,)
    return (Conform.OFFLINE, Conform.SHUFFLE, Conform.NARROW)


def _tile_rules(workload: FloatGemm, tiling_of: TilingOf) -> list[Rule]:
    def warps_divide_the_tile(config: MixedSyncConfig) -> bool:
        """warps have whole tiles of 16 weight rows, and one tile of 8 rows of x or pairs of them"""
        rows = config.block_n % (ROW_TILE * config.warps_n)
        columns = config.block_m % (COLUMN_TILE * config.warps_m)
        return rows == columns == 0 and (config.column_tiles == 1 or config.column_tiles % 2 == 0)

    def warps_fill_the_schedulers(config: MixedSyncConfig) -> bool:
        """a block has 2 to 16 warps"""
        return 64 <= config.threads <= 512

    def rows_not_wasted(config: MixedSyncConfig) -> bool:
        """less than half of the tiles' rows of x lie outside, but for the least tile"""
        padded = tiling_of(config).m_tiles * config.block_m
        return padded < 2 * workload.m or config.block_m == BLOCK_M[0]

    def weights_not_wasted(config: MixedSyncConfig) -> bool:
        """less than half of the tiles' weight rows lie outside, but for the least tile"""
        return tiling_of(config).padded_n < 2 * workload.n or config.block_n == BLOCK_N[0]

    def weights_have_indices(config: MixedSyncConfig) -> bool:
        """bytes of the padded weight have indices of 32 bits"""
        return tiling_of(config).packed_bytes < MOST_INDICES

    return [
        warps_divide_the_tile,
        warps_fill_the_schedulers,
        rows_not_wasted,
        weights_not_wasted,
        weights_have_indices,
    ]


def _reduction_rules(workload: FloatGemm, target: Target, tiling_of: TilingOf) -> list[Rule]:
    def groups_fit_stages(config: MixedSyncConfig) -> bool:
        """groups divide a stage, or stages a group"""
        group = workload.group
        return not group or group % config.block_k == 0 or config.block_k % group == 0

    def stages_are_used(config: MixedSyncConfig) -> bool:
        """there are at most as many stages as steps of the reduction, or two"""
        return config.stages <= max(2, tiling_of(config).split_steps)

    def parts_have_steps(config: MixedSyncConfig) -> bool:
        """each part of a split reduction has a step"""
        tiling = tiling_of(config)
        return -(-tiling.k_steps // tiling.split_steps) == config.split_k

    def parts_are_wanted(config: MixedSyncConfig) -> bool:
        """a reduction is split where tiles are few: two waves of blocks at most"""
        tiles = tiling_of(config).tiles
        few = tiles * config.split_k <= 2 * target.units
        return config.split_k == 1 or (few and _indexable(workload, config))

    return [groups_fit_stages, stages_are_used, parts_have_steps, parts_are_wanted]


def _indexable(workload: FloatGemm, config: MixedSyncConfig) -> bool:
    return config.split_k * math.prod(workload.y_shape) < MOST_INDICES
