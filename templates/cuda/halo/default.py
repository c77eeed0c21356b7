"""Untuned configurations of the halo convolutions: the fewest estimated cycles of a few."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from autoq.errors import ConfigError
from autoq.templates.cuda.device.launch.input_once import default_input_once
from autoq.templates.cuda.device.launch.team import Team
from autoq.templates.cuda.halo.config import (
    HaloConfig,
    HaloConvConfig,
    ResidentWeights,
    WeightRing,
)
from autoq.templates.cuda.halo.cost import estimated_cycles
from autoq.templates.cuda.halo.space import Rule, channel_tiles, constraints, row_sizes, tile_shapes
from autoq.templates.cuda.halo.tile import HaloTile
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.cuda.halo.tiling import HaloTiling
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target

TRIED_TEAMS = Team(2, True), Team(2, False), Team(1, True), Team(3, True)

_SLOTS = (8, 6, 4, 3, 2, 1)

# Two stages of weights leave the tensor core waiting: 42 us instead of 27 for 128 x 7x7x512 on an
# H200.
_STAGES = (8, 6, 4, 3)


def _shapes(workload: Conv2d) -> list[TileShape]:
    """The least wasteful shape of each tiling and number of blocks."""
    best: dict[tuple[bool, int], tuple[float, TileShape]] = {}
    for shape in tile_shapes(workload):
        tile = HaloTile(workload, shape, 16)
        cost = tile.tiles * (tile.blocks * 64 + tile.halo_rows / 8)
        at = (tile.shape.flat, tile.blocks)
        if at not in best or cost < best[at][0]:
            best[at] = cost, shape
    return [shape for _, shape in best.values()]


def _rings(
    tile: HaloTile, block_n: int, in_flight: int, bytes: int
) -> Iterator[list[tuple[int, ResidentWeights | WeightRing]]]:
    """(halo slots, weights) in `bytes` of shared memory, the deepest first.

    One list with resident weights, one each with a step and several steps of weights a stage.
    """
    rooms = {count: bytes - count * tile.slot_bytes for count in _SLOTS}
    resident = tile.reduction * block_n
    yield [
        (count, ResidentWeights())
        for count, room in rooms.items()
        if count >= (in_flight + 1) * tile.chunks and resident <= room
    ]
    for steps in sorted({1, *(d for d in (2, 3) if tile.steps % d == 0)}):
        stage = steps * tile.step_bytes * block_n
        yield [
            (count, WeightRing(stages, steps))
            for count, room in rooms.items()
            for stages in _STAGES
            if count <= 3 * tile.chunks and stages * stage <= room
        ]


def candidates(
    tiling_of: Callable[[Any], HaloTiling],
    make: Callable[..., HaloConfig],
    tiles: Iterable[HaloTile],
    channel_tiles: Sequence[int],
    teams: Sequence[Team],
    rules: Sequence[Rule],
    smem_bytes: int,
) -> Iterator[HaloTiling]:
    """Legal tilings: the deepest ring of each kind for every tile and team.

    make(tile=, row_bytes=, block_n=, team=, ..., turns=): a configuration.
    """
    for tile, block_n, team in itertools.product(tiles, channel_tiles, teams):
        in_flight = team.tiles
        for rings in _rings(tile, block_n, in_flight, smem_bytes):
            for slots, weights in rings:
                config = make(
                    tile=tile.shape,
                    row_bytes=tile.row_bytes,
                    block_n=block_n,
                    team=team,
                    halo_stages=slots,
                    weights=weights,
                    blocks_per_unit=1,
                    turns=in_flight > 1,
                    cluster=1,
                )
                tiling = tiling_of(config)
                if not tiling.fits_registers:
                    break
                if all(rule(config) for rule in rules):
                    yield tiling
                    break


def _preference(tiling: HaloTiling) -> tuple[float, ...]:
    """Smaller is better: cycles, then wide rows, then small stages."""
    return estimated_cycles(tiling), -tiling.tile.row_bytes, tiling.stage_bytes


def fastest(tilings: Iterable[HaloTiling], workload: Conv2d) -> Any:
    """The configuration that `_preference` puts first; ConfigError when there is none."""
    best = min(tilings, key=_preference, default=None)
    if best is None:
        raise ConfigError(f"no legal halo configuration for {workload}")
    return replace(best.config, input_once=default_input_once(workload))


@functools.lru_cache(maxsize=256)
def default_config(workload: Conv2d, target: Target) -> HaloConvConfig:
    """The candidate of conv2d_halo with the fewest estimated cycles.

    Raises ConfigError when nothing is legal.
    """
    tiles = [
        HaloTile(workload, shape, row_bytes)
        for shape, row_bytes in itertools.product(_shapes(workload), row_sizes(workload)[:-3:-1])
    ]
    found = candidates(
        lambda config: HaloTiling(workload, config, target.units),
        functools.partial(HaloConvConfig, channels_outer=False),
        tiles,
        channel_tiles(workload),
        (*TRIED_TEAMS, Team(3, False)),
        constraints(workload, target),
        target.smem_bytes,
    )
    return fastest(found, workload)
