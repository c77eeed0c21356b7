"""An untuned configuration of the wgmma pipeline: the legal one with the least estimated time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autoq.errors import ConfigError
from autoq.search.space import Space
from autoq.templates.cuda.device.launch.input_once import default_input_once
from autoq.templates.cuda.device.weights import MOST_CHANNELS, ceil_div
from autoq.templates.cuda.wgmma.config import PERSISTENT
from autoq.templates.cuda.wgmma.cost import untuned_seconds
from autoq.templates.cuda.wgmma.problem import Problem

_MOST_STAGES = 8
_SEARCHED = (80, 144, 160)
"""Left to searches: an H200 took 8.8 us for 1576 x 768 x 3072 in tiles of 80 channels, which the
estimate likes best, 8.5 in those of 96 and 7.7 in the best of 160."""
_MOST_ACCUMULATORS = 176
"""The most accumulators of a thread. Tiles with 192 are left to searches too: one was timed so far,
128 x 192 in turn."""
_SAME = 1e-9
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


def _candidates(problem: Problem, space: Space[Any]) -> np.ndarray:
    """Codes of what is tried, int64 [n], each with as many stages as are legal.

    Without clusters and split reductions, which no layer of ResNet-50 gained by (H200).
    """
    knobs = space.knobs
    names = list(knobs)
    tried = [name for name in names if name in _TRIED]
    places = [
        [i for i, value in enumerate(knobs[name]) if name != "block_n" or value not in _SEARCHED]
        for name in tried
    ]
    grid = [axis.ravel() for axis in np.meshgrid(*places, indexing="ij")]
    wanted = vars(_untried(problem, space, {name: knobs[name][0] for name in tried}))
    rows = np.tile([_place(space, name, wanted[name]) for name in names], (len(grid[0]), 1))
    rows[:, [names.index(name) for name in tried]] = np.stack(grid, axis=1)

    def choose_where(chosen: np.ndarray, name: str, value: Any) -> np.ndarray:
        """The rows with a value of a knob in some of them, without those that cannot have it."""
        rows[chosen, names.index(name)] = _place(space, name, value)
        return rows[(rows >= 0).all(axis=1)]

    whole = np.array([width % 64 == 0 for width in knobs["block_n"]])
    rows = choose_where(~whole[rows[:, names.index("block_n")]], "residual_ahead", False)
    bounded = space.values(space.codes_at(rows), lambda one: one.bounds_channels)
    rows = choose_where(bounded == 0, "most_channels", MOST_CHANNELS)
    small = space.values(space.codes_at(rows), _is_small)
    return _deepest(space, rows[small != 0])


def _untried(problem: Problem, space: Space[Any], tried: Mapping[str, Any]) -> Any:
    """A configuration whose knobs have what all candidates have, but for the tried ones."""
    knobs = space.knobs
    row_bytes, per_stage = _reduction(problem, knobs)
    # Tiles that are held until all are done are large, and leave no registers for residuals.
    waits = knobs["residual_early"][0] and not problem.workload.epilogue.by_range
    return space.config_type(
        row_bytes=row_bytes,
        per_stage=per_stage,
        stages=knobs["stages"][0],
        grid=PERSISTENT,
        group=8,
        channels_outer=True,
        residual_early=waits and not knobs["residual_ahead"][0],
        residual_ahead=knobs["residual_ahead"][0],
        most_channels=knobs["most_channels"][0],
        **tried,
    )


def _place(space: Space[Any], name: str, value: Any) -> int:
    """Where a value stands in a knob's list; -1 where it does not."""
    found = space.place(name, value)
    return -1 if found is None else found


def _is_small(config: Any) -> bool:
    return config.team.k_groups == 1 and config.accumulators <= _MOST_ACCUMULATORS


def _deepest(space: Space[Any], rows: np.ndarray) -> np.ndarray:
    """Codes of knob positions [n, knobs] with the most stages that are legal, in their order."""
    knob = list(space.knobs).index("stages")
    depths = sorted((n for n in space.knobs["stages"] if n <= _MOST_STAGES), reverse=True)
    found = np.full(len(rows), -1)
    for depth in depths:
        left = np.flatnonzero(found < 0)
        rows[left, knob] = _place(space, "stages", depth)
        codes = space.codes_at(rows[left])
        legal = space.legal_codes(codes)
        found[left[legal]] = codes[legal]
    return found[found >= 0]


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
    codes = _candidates(problem, space)
    paid = space.values(codes, lambda one: not one.weights_stay or _staying_pays(problem, one))
    codes = codes[paid != 0]
    seconds = space.values(codes, lambda one: untuned_seconds(problem, one))
    # Over many configurations at once a time may differ in its last digits from that of one.
    near = codes[seconds <= seconds.min(initial=np.inf) * (1 + _SAME)].tolist()
    best = min(
        map(space.config, near),
        key=lambda c: (untuned_seconds(problem, c), c.block_m * c.block_n),
        default=None,
    )
    if best is None:
        best = next(space.enumerate(), None)
    if best is None:
        raise ConfigError(f"no legal configuration for {problem.workload}")
    return replace(best, input_once=default_input_once(problem.workload))
