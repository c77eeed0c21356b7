"""The space of a batched product on mma.sync: knobs and the rules of a legal configuration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from autoq.search.space import Space
from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.launch.occupancy import resource_rules, thread_rule
from autoq.templates.cuda.device.planned_space import least, planned_space
from autoq.templates.cuda.mma_sync.batched.config import BatchedSyncConfig
from autoq.templates.cuda.mma_sync.batched.cost import estimate, features, registers
from autoq.templates.cuda.mma_sync.batched.plan import BatchedSyncPlan
from autoq.templates.cuda.mma_sync.config import COL_TILE, K_TILE_BYTES, ROW_TILE, UNIT_BYTES
from autoq.templates.cuda.mma_sync.plan import has_cp_async
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

Rule = Callable[[BatchedSyncConfig], bool]

# (BLK_ROW_WARPS, BLK_COL_WARPS, WARP_ROW_TILES, WARP_COL_TILES) of untuned tiles.
_DEFAULT_TILES = (
    (2, 2, 4, 8), (4, 1, 2, 8), (2, 2, 2, 8), (4, 1, 1, 8), (2, 1, 2, 8), (2, 1, 1, 8),
    (4, 1, 1, 16), (2, 2, 1, 8), (2, 2, 2, 4), (4, 1, 1, 4), (2, 1, 2, 4), (2, 1, 1, 4),
    (2, 2, 1, 16), (4, 1, 1, 16), (1, 4, 1, 8), (2, 2, 2, 16), (1, 2, 1, 4), (1, 2, 1, 2),
    (2, 1, 1, 2),
)  # fmt: skip


def space(workload: BatchedGemm, target: Target) -> Space[BatchedSyncConfig]:
    """Tiles and pipelines that compile for the target and waste no whole tile."""
    return planned_space(
        BatchedSyncConfig,
        _knobs(workload, target),
        lambda config: BatchedSyncPlan(workload, config, target),
        lambda plan_of: _rules(workload, target, plan_of),
        lambda config: features(workload, config, target),
    )


def default(workload: BatchedGemm, target: Target) -> BatchedSyncConfig:
    """The legal candidate of least estimated time."""
    legal = space(workload, target)
    candidates = (
        BatchedSyncConfig(*tile, chunk, stages, staged, 1, verbatim=verbatim)
        for tile, chunk, stages, staged, verbatim in itertools.product(
            _DEFAULT_TILES, (2, 1, 4), (5, 4, 3, 2), (False, True), _verbatim(workload, target)
        )
    )
    return least(legal, candidates, lambda config: estimate(workload, config, target))


def _knobs(workload: BatchedGemm, target: Target) -> dict[str, Sequence[Any]]:
    """Values of the knobs, without those that no configuration of the workload could have."""
    reduction = workload.k * element(workload.in_dtype).bytes

    def wide(values: Sequence[int], tile: int, extent: int) -> tuple[int, ...]:
        """Values whose tiles are less than half outside, and the least one."""
        return tuple(v for v in values if v * tile < 2 * max(extent, 2 * tile) or v == values[0])

    return {
        "BLK_ROW_WARPS": wide((1, 2, 4, 8), ROW_TILE, workload.m),
        "BLK_COL_WARPS": wide((1, 2, 4), 2 * COL_TILE, workload.n),
        "WARP_ROW_TILES": wide((1, 2, 3, 4, 8), ROW_TILE, workload.m),
        "WARP_COL_TILES": wide((2, 4, 8, 16), COL_TILE, workload.n),
        "CHUNK": wide((1, 2, 4), K_TILE_BYTES, reduction),
        "stages": (2, 3, 4, 5, 6) if has_cp_async(target) else (2,),
        "staged": (False, True),
        "blocks_per_sm": (1, 2, 3, 4, 6, 8),
        "verbatim": _verbatim(workload, target),
    }


def _verbatim(workload: BatchedGemm, target: Target) -> tuple[bool, ...]:
    """Rows that lie one behind the other in memory may lie so in shared memory too.

    Those that start at whole units come as well stage by stage. An array of whole units is read in
    such alone.
    """
    row_bytes = workload.k * element(workload.in_dtype).bytes
    whole = row_bytes * workload.m * workload.products % UNIT_BYTES == 0
    follow = workload.row_places(workload.x_order, 0)[1] == workload.k
    unaligned = row_bytes % UNIT_BYTES != 0
    taken = follow and whole and unaligned and has_cp_async(target)
    return (False, True) if taken else (False,)


def _rules(
    workload: BatchedGemm, target: Target, plan_of: Callable[[BatchedSyncConfig], BatchedSyncPlan]
) -> list[Rule]:
    def warps_fill_the_schedulers(config: BatchedSyncConfig) -> bool:
        """A block has 2 to 16 warps."""
        return 64 <= config.threads <= 512

    def tile_within_output(config: BatchedSyncConfig) -> bool:
        """A tile reaches less than twice as far as the matrices, or is a least one."""
        rows = config.block_m < 2 * max(workload.m, 2 * ROW_TILE)
        return rows and config.block_n < 2 * max(workload.n, 2 * COL_TILE)

    def chunk_within_reduction(config: BatchedSyncConfig) -> bool:
        """Less than half of a stage lies beyond the reduction."""
        reduction = workload.k * element(workload.in_dtype).bytes
        return config.block_k < 2 * max(reduction, K_TILE_BYTES)

    def stages_are_used(config: BatchedSyncConfig) -> bool:
        """There are at most as many stages as steps of the reduction, or two.

        One more, which takes no room, where all steps are asked for before the first is waited for.
        """
        return config.stages <= max(2, plan_of(config).steps + config.verbatim)

    def waiting_copies_take_two_stages(config: BatchedSyncConfig) -> bool:
        """Copies that wait in registers fill one stage while the other multiplies."""
        return config.stages == 2 or plan_of(config).asynchronous

    return [
        warps_fill_the_schedulers,
        tile_within_output,
        chunk_within_reduction,
        stages_are_used,
        waiting_copies_take_two_stages,
        *resource_rules(plan_of, registers, target),
        thread_rule(target),
    ]
