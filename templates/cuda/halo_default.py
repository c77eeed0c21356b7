"""An untuned configuration of conv2d_halo: the candidate with the fewest estimated cycles."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from autoq.errors import ConfigError
from autoq.templates.cuda.halo_cost import estimated_cycles
from autoq.templates.cuda.halo_layout import HaloConvConfig, HaloLayout
from autoq.templates.cuda.halo_space import channel_tiles, constraints, row_sizes, tile_shapes
from autoq.templates.cuda.halo_tile import HaloTile
from autoq.templates.target import Target
from autoq.templates.workload import Conv2d

_TEAMS = ((2, True), (2, False), (1, True), (3, True))

_SLOTS = (8, 6, 4, 3, 2, 1)

_STAGES = (8, 6, 4, 3, 2)


def _shapes(workload: Conv2d) -> list[tuple[bool, int, int, int]]:
    """The least wasteful shape of each tiling and number of blocks."""
    best: dict[tuple[bool, int], tuple[float, tuple[bool, int, int, int]]] = {}
    for shape in tile_shapes(workload):
        tile = HaloTile(workload, *shape, 16)
        cost = tile.tiles * (tile.blocks * 64 + tile.halo_rows / 8)
        at = (tile.flat, tile.blocks)
        if at not in best or cost < best[at][0]:
            best[at] = cost, shape
    return [shape for _, shape in best.values()]


def _rings(
    tile: HaloTile, block_n: int, in_flight: int, bytes: int
) -> Iterator[tuple[int, tuple[int, int]]]:
    """(halo slots, weights) in `bytes` of shared memory: resident ones, the deepest rings."""
    resident = tile.reduction * block_n
    stage = tile.step_bytes * block_n
    for count in _SLOTS:
        room = bytes - count * tile.slot_bytes
        if count >= (in_flight + 1) * tile.chunks and resident <= room:
            yield count, (0, 1)
    for count in _SLOTS:
        room = bytes - count * tile.slot_bytes
        if count <= 3 * tile.chunks:
            yield from ((count, (stages, 1)) for stages in _STAGES if stages * stage <= room)


def _candidates(workload: Conv2d, target: Target) -> Iterator[HaloConvConfig]:
    """Legal configurations: one ring for every tile and team."""
    rules = constraints(workload, target)
    for shape, row_bytes in itertools.product(_shapes(workload), row_sizes(workload)[-2:]):
        tile = HaloTile(workload, *shape, row_bytes)
        for block_n, team in itertools.product(channel_tiles(workload), _TEAMS):
            in_flight = 1 if team[1] else team[0]
            if tile.blocks % team[0] if team[1] else tile.blocks > 4:
                continue
            if tile.blocks // (1 if in_flight > 1 else team[0]) * block_n > 4 * 128:
                continue
            for slots, weights in _rings(tile, block_n, in_flight, target.smem_bytes):
                config = HaloConvConfig(shape, row_bytes, block_n, team, slots, weights, 1, False)
                if all(rule(config) for rule in rules):
                    yield config
                    break


@functools.lru_cache(maxsize=256)
def default_config(workload: Conv2d, target: Target) -> HaloConvConfig:
    """The candidate with the fewest estimated cycles.

    Raises ConfigError when nothing is legal.
    """
    best = min(
        _candidates(workload, target),
        key=lambda config: estimated_cycles(HaloLayout(workload, config, target.units)),
        default=None,
    )
    if best is None:
        raise ConfigError(f"conv2d_halo has no legal configuration for {workload}")
    return best
