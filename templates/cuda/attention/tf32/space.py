"""The space of attention of float32: knobs and the rules of a legal configuration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autoq.search.space import Space
from autoq.templates.cuda.attention.tf32.config import Tf32AttentionConfig
from autoq.templates.cuda.attention.tf32.cost import estimate, registers
from autoq.templates.cuda.attention.tf32.plan import Tf32AttentionPlan
from autoq.templates.cuda.device.launch.occupancy import resource_rules, thread_rule
from autoq.templates.cuda.device.planned_space import least, planned_space
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

Rule = Callable[[Tf32AttentionConfig], bool]
_TILE_KEYS = (16, 32, 64, 128)
_UNIT_KEYS = 8
"""Keys of a tile of accumulators."""


def space(workload: Attention, target: Target) -> Space[Tf32AttentionConfig]:
    """Tiles and pipelines that compile for the target without spills."""
    return planned_space(
        Tf32AttentionConfig,
        _knobs(workload),
        lambda config: Tf32AttentionPlan(workload, config, target),
        lambda plan_of: _rules(workload, target, plan_of),
    )


def default(workload: Attention, target: Target) -> Tf32AttentionConfig:
    """The legal configuration of least estimated time."""
    legal = space(workload, target)
    return least(legal, _candidates(workload), lambda config: estimate(workload, config, target))


def blocks_meet(workload: Attention, target: Target) -> bool:
    """Whether all blocks of some configuration run at once, to find a range together."""
    legal = space(workload, target)
    return any(config in legal for config in _candidates(workload))


def _candidates(workload: Attention) -> Iterator[Tf32AttentionConfig]:
    """Untuned configurations; registers are left for several blocks only where these must meet."""
    knobs = dict(_knobs(workload))
    if not workload.quantises:
        knobs["blocks_per_sm"] = (1,)
    return (Tf32AttentionConfig(*values) for values in itertools.product(*knobs.values()))


def _knobs(workload: Attention) -> dict[str, Sequence[Any]]:
    """Values of the knobs, without tiles that another one of all keys makes needless."""
    whole = ceil_div(workload.keys, _UNIT_KEYS) * _UNIT_KEYS
    tiles = {keys for keys in _TILE_KEYS if keys < whole}
    if whole <= _TILE_KEYS[-1]:
        tiles.add(whole)
    return {
        "warps": (1, 2, 4, 8),
        "tile_keys": tuple(sorted(tiles)),
        "stages": (1, 2, 3),
        "holds_queries": (False, True),
        "blocks_per_sm": (1, 2, 3, 4),
    }


def _rules(
    workload: Attention, target: Target,
    plan_of: Callable[[Tf32AttentionConfig], Tf32AttentionPlan],
) -> list[Rule]:  # fmt: skip
    def rows_within_queries(config: Tf32AttentionConfig) -> bool:
        """A block has less than twice the queries there are, or is one warp of 16 rows."""
        return config.rows < 2 * workload.queries or config.warps == 1

    def stages_are_used(config: Tf32AttentionConfig) -> bool:
        """One stage for one tile of keys; of several, at least two and not more than tiles."""
        tiles = plan_of(config).tiles
        return config.stages == 1 if tiles == 1 else 2 <= config.stages <= max(2, tiles)

    def blocks_run_at_once(config: Tf32AttentionConfig) -> bool:
        """Blocks that find a range together are no more than run at once."""
        return not workload.quantises or plan_of(config).blocks <= (
            config.blocks_per_sm * target.units
        )

    return [
        rows_within_queries,
        stages_are_used,
        *resource_rules(plan_of, registers, target),
        thread_rule(target),
        blocks_run_at_once,
    ]
