"""The space of a batched product on wgmma: knobs and the rules of a legal configuration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from autoq.search.space import Space
from autoq.templates.cuda.batched.config import WARPGROUP_COLUMNS, BatchedWgmmaConfig
from autoq.templates.cuda.batched.cost import estimate, features, registers
from autoq.templates.cuda.batched.plan import BatchedWgmmaPlan
from autoq.templates.cuda.device.launch.occupancy import resource_rules, thread_rule
from autoq.templates.cuda.device.planned_space import least, planned_space
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

Rule = Callable[[BatchedWgmmaConfig], bool]

MOST_COLUMNS = 4
"""Most parts of 64 columns of a block that has whole rows of y, and most side by side."""
_ROWS = (16, 32, 48, 64, 96, 128, 192)
_ROW_UNIT, _MOST_ROWS = 16, 256
_TILES = (1, 2, 3, 4)
"""Counts of tiles that have all rows with little beyond them."""
_MOST_WARPGROUPS = 8


def space(workload: BatchedGemm, target: Target) -> Space[BatchedWgmmaConfig]:
    """Tiles and pipelines that compile for the target and waste no whole tile."""
    return planned_space(
        BatchedWgmmaConfig,
        _knobs(workload),
        lambda config: BatchedWgmmaPlan(workload, config, target),
        lambda plan_of: _rules(workload, target, plan_of),
        lambda config: features(workload, config, target),
    )


def default(workload: BatchedGemm, target: Target) -> BatchedWgmmaConfig:
    """The legal configuration of least estimated time, with room for one block."""
    legal = space(workload, target)
    knobs = {**_knobs(workload), "cluster": (1,), "blocks_per_sm": (1,)}
    candidates = (BatchedWgmmaConfig(*values) for values in itertools.product(*knobs.values()))
    return least(legal, candidates, lambda config: estimate(workload, config, target))


def _knobs(workload: BatchedGemm) -> dict[str, Sequence[Any]]:
    """Values of the knobs, without those that no configuration of the workload could have."""
    whole = ceil_div(workload.m, _ROW_UNIT) * _ROW_UNIT
    rows = {rows for rows in _ROWS if rows <= whole} | {min(whole, _ROW_UNIT)}
    for count in _TILES:
        even = ceil_div(ceil_div(workload.m, count), _ROW_UNIT) * _ROW_UNIT
        if even <= _MOST_ROWS:
            rows.add(even)
    parts = ceil_div(workload.n, WARPGROUP_COLUMNS)
    return {
        "columns": tuple(range(1, MOST_COLUMNS + 1)),
        "passes": (1, 2, 3, 4, 6) if parts > 1 else (1,),
        "row_groups": (1, 2, 3, 4),
        "rows": tuple(sorted(rows)),
        "stages": (1, 2, 3, 4, 6),
        "cluster": (1, 2),
        "blocks_per_sm": (1, 2, 3, 4, 5, 6, 8),
    }


def _rules(
    workload: BatchedGemm, target: Target,
    plan_of: Callable[[BatchedWgmmaConfig], BatchedWgmmaPlan],
) -> list[Rule]:  # fmt: skip
    def warpgroups_are_few(config: BatchedWgmmaConfig) -> bool:
        """A block has 1 to 8 warpgroups."""
        return config.warpgroups <= _MOST_WARPGROUPS

    def warpgroups_are_used(config: BatchedWgmmaConfig) -> bool:
        """No warpgroup of a pair's first block is without rows, or in any pass without columns."""
        rows = config.block_m - config.rows < workload.m
        return rows and config.block_n - WARPGROUP_COLUMNS < workload.n

    def passes_share_a_stage(config: BatchedWgmmaConfig) -> bool:
        """Warpgroups go on to other columns where the reduction is one step."""
        return config.passes == 1 or plan_of(config).steps == 1

    def rows_are_whole(config: BatchedWgmmaConfig) -> bool:
        """A block has whole rows of y where these are no whole 16-byte units."""
        return plan_of(config).boxes or config.block_n >= workload.n

    def stages_are_used(config: BatchedWgmmaConfig) -> bool:
        """One stage for one step of the reduction; of several, at least two, at most as many."""
        steps = plan_of(config).steps
        return config.stages == 1 if steps == 1 else 2 <= config.stages <= steps

    def clusters_share_other(config: BatchedWgmmaConfig) -> bool:
        """Blocks of a cluster have rows of one pair, and load each stage once."""
        plan = plan_of(config)
        return config.cluster == 1 or (
            plan.tiles_m % config.cluster == 0 and config.stages == plan.steps
        )

    return [
        warpgroups_are_few,
        warpgroups_are_used,
        passes_share_a_stage,
        rows_are_whole,
        stages_are_used,
        clusters_share_other,
        *resource_rules(plan_of, registers, target),
        thread_rule(target),
    ]
