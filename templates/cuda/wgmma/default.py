"""An untuned configuration of the wgmma pipeline: the legal one with the least estimated time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoq.errors import ConfigError
from autoq.search.space import Space
from autoq.templates.cuda.device.launch.input_once import default_input_once
from autoq.templates.cuda.device.weights import MOST_CHANNELS, ceil_div
from autoq.templates.cuda.wgmma.config import PERSISTENT
from autoq.templates.cuda.wgmma.cost import untuned_seconds
from autoq.templates.cuda.wgmma.problem import Problem

_MOST_STAGES = 8
_SEARCHED_WIDTHS = (80, 160)
"""Left to searches: an H200 took 8.8 us for 1576 x 768 x 3072 in tiles of 80 channels, which the
estimate likes best, 8.5 in those of 96 and 7.7 in the best of 160."""
_MOST_ACCUMULATORS = 176
"""Of a thread. Tiles with 192 are left to searches too: one was timed so far, 128 x 192 in turn."""
_TRIED = (
    "m_blocks", "tile", "block_n", "team", "blocks_per_unit", "weights_stay",
)  # fmt: skip


def _reduction(problem: Problem, knobs: Mapping[str, Sequence[Any]]) -> tuple[int, int]:
    """Row bytes that pad the channels little and are wide; sub-tiles that fill 128 bytes.

    A row costs TMA and multiplication about as much as 16 more bytes would.
    """
    size = problem.channel_bytes
    group = problem.workload.epilogue.scale_group
    rows = [b for b in knobs["row_bytes"] if not group or (b > 16 and group % b == 0)]
    row_bytes = min(rows, key=lambda b: (ceil_div(size, b) * (b + 16), -b))
    used = problem.taps * ceil_div(size, row_bytes)
    least = 2 if row_bytes == 16 else 1
    choices = [
        n
        for n in knobs["per_stage"]
        if n >= least and n * row_bytes <= 128 and group % (n * row_bytes) == 0
    ]
    per_stage = min(choices, key=lambda n: (ceil_div(used, n) * n, -n))
    return row_bytes, per_stage


def _candidates(problem: Problem, space: Space[Any]) -> Iterator[Any]:
    """Without clusters and split reductions, which no layer of ResNet-50 gained by (H200)."""
    knobs = space.knobs
    row_bytes, per_stage = _reduction(problem, knobs)
    tried = {name: values for name, values in knobs.items() if name in _TRIED}
    tried["block_n"] = [n for n in knobs["block_n"] if n not in _SEARCHED_WIDTHS]
    for values in itertools.product(*tried.values()):
        chosen = dict(zip(tried, values, strict=True))
        for stages in sorted(knobs["stages"], reverse=True):
            config = space.config_type(
                row_bytes=row_bytes,
                per_stage=per_stage,
                stages=stages,
                grid=PERSISTENT,
                group=8,
                channels_outer=True,
                residual_early=knobs["residual_early"][0] and not knobs["residual_ahead"][0],
                residual_ahead=knobs["residual_ahead"][0] and chosen["block_n"] % 64 == 0,
                most_channels=knobs["most_channels"][0],
                **chosen,
            )
            if not config.bounds_channels:
                config = replace(config, most_channels=MOST_CHANNELS)
            short = config.team.k_groups == 1 and stages <= _MOST_STAGES
            if short and config.accumulators <= _MOST_ACCUMULATORS and space.legal(config):
                if not config.weights_stay or _staying_pays(problem, config):
                    yield config
                break


def _staying_pays(problem: Problem, config: Any) -> bool:
    """Four stages are left beside the weights, and a team has tiles to use them again.

    With fewer an H200 lost up to half (14x14, 1024 -> 512 at N = 128: 32 us against 22).
    """
    teams = problem.resident(config) * config.teams
    return config.stages >= 4 and 2 * problem.tiles(config) >= 3 * teams


def default_config(problem: Problem, space: Space[Any]) -> Any:
    """The candidate with the least estimate, ties to the smaller tile.

    Raises ConfigError when nothing is legal.
    """
    best = min(
        _candidates(problem, space),
        key=lambda c: (untuned_seconds(problem, c), c.block_m * c.block_n),
        default=None,
    )
    if best is None:
        best = next(space.enumerate(), None)
    if best is None:
        raise ConfigError(f"no legal configuration for {problem.workload}")
    return replace(best, input_once=default_input_once(problem.workload))
