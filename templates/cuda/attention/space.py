"""The space of attention on mma.sync: knobs and the rules of a legal configuration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from autoq.search.space import Space
from autoq.templates.arrays.element import element
from autoq.templates.cuda.attention.config import AttentionConfig
from autoq.templates.cuda.attention.cost import (
    estimate,
    features,
    least_registers,
    registers,
)
from autoq.templates.cuda.attention.plan import STEP_BYTES, AttentionPlan
from autoq.templates.cuda.device.launch.occupancy import register_limit, resource_rules, thread_rule
from autoq.templates.cuda.device.planned_space import planned_space
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

Rule = Callable[[AttentionConfig], bool]
_TILE_KEYS = (32, 64, 96, 128)
_TILES = (2, 3, 4)
"""Counts of tiles that have all keys with little beyond them."""
_MOST_AT_ONCE = 256
"""Keys that a warp may hold the scores of, all of a row."""


def space(workload: Attention, target: Target) -> Space[AttentionConfig]:
    """Tiles and pipelines that compile for the target and spill a few words at most."""
    return planned_space(
        AttentionConfig,
        _knobs(workload),
        lambda config: AttentionPlan(workload, config, target),
        lambda plan_of: _rules(workload, target, plan_of),
        lambda config: features(workload, config, target),
    )


def default(workload: Attention, target: Target) -> AttentionConfig:
    """The legal configuration of least estimated time, of those that spill nothing.

    One with a single warp only where there is no other: they take longer than is estimated.
    """
    legal = space(workload, target)
    knobs = dict(_knobs(workload), blocks_per_sm=(1,))
    candidates = (AttentionConfig(*values) for values in itertools.product(*knobs.values()))

    def spills(config: AttentionConfig) -> bool:
        needed = registers(AttentionPlan(workload, config, target), target)
        return needed > register_limit(config.threads, config.blocks_per_sm, target)

    return min(
        (config for config in candidates if config in legal and not spills(config)),
        key=lambda config: (config.warps == 1, estimate(workload, config, target)),
    )


def _whole(keys: int, workload: Attention) -> int:
    """Keys of a tile that has so many: a multiple of what one instruction weighs."""
    unit = STEP_BYTES // element(workload.q_dtype).bytes
    return ceil_div(keys, unit) * unit


def _knobs(workload: Attention) -> dict[str, Sequence[Any]]:
    """Values of the knobs, without those that no configuration of the workload could have."""
    whole = _whole(workload.keys, workload)
    tiles = {keys for keys in _TILE_KEYS if keys < whole}
    for count in (1, *_TILES):
        even = _whole(ceil_div(workload.keys, count), workload)
        if min(_TILE_KEYS[0], whole) <= even <= _MOST_AT_ONCE:
            tiles.add(even)
    return {
        "warps": (1, 2, 4, 8),
        "row_tiles": (1, 2),
        "tile_keys": tuple(sorted(tiles)),
        "stages": (1, 2, 3, 4),
        "holds_queries": (False, True),
        "sums_of_products": (False, True) if workload.floating else (False,),
        "keeps_scores": (False,) if workload.floating else (False, True),
        "blocks_per_sm": (1, 2, 3, 4),
    }


def _rules(
    workload: Attention, target: Target, plan_of: Callable[[AttentionConfig], AttentionPlan]
) -> list[Rule]:
    def rows_within_queries(config: AttentionConfig) -> bool:
        """A block has less than twice the queries there are, or is one warp of 16 rows."""
        return config.rows < 2 * workload.queries or config.rows == 16

    def stages_are_used(config: AttentionConfig) -> bool:
        """One stage for one tile of keys; of several, at least two and not more than tiles."""
        tiles = plan_of(config).tiles
        return config.stages == 1 if tiles == 1 else 2 <= config.stages <= max(2, tiles)

    def only_bytes_are_kept(config: AttentionConfig) -> bool:
        """Scores are kept where they are needed twice, and are integers of a byte."""
        return not config.keeps_scores or (plan_of(config).twice and plan_of(config).rounds_last)

    return [
        rows_within_queries,
        stages_are_used,
        only_bytes_are_kept,
        *resource_rules(plan_of, least_registers, target),
        thread_rule(target),
    ]
