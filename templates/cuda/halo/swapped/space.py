"""The configurations of conv2d_swapped: knob values, rules and an analytic default."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from autoq.search.space import Space
from autoq.templates.cuda.device.launch.team import Team
from autoq.templates.cuda.device.memory.tma import MAX_BOX
from autoq.templates.cuda.halo.cost import features
from autoq.templates.cuda.halo.default import TRIED_TEAMS, candidates, fastest
from autoq.templates.cuda.halo.space import (
    SMALLEST_WEIGHTS,
    Rule,
    common_rules,
    ring_knobs,
    row_sizes,
)
from autoq.templates.cuda.halo.swapped.tile import SwappedTile
from autoq.templates.cuda.halo.swapped.tiling import SwappedConvConfig, SwappedTiling
from autoq.templates.cuda.halo.tile import WIDTH
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target

_IMAGES = (8, 16, 32)
"""Images of a tile that has several: whole groups of eight columns."""


def _fitting_shapes(workload: Conv2d) -> Iterator[TileShape]:
    """Boxes and flat rows of one image, rows of several."""
    p, q = workload.p, workload.q
    heights = {-(-p // parts) for parts in range(1, 9)} | {1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32}
    for height in sorted(height for height in heights if height <= p):
        yield TileShape(False, 1, height, WIDTH)
        yield TileShape(True, 1, height, q)
    for images in _IMAGES:
        if images < workload.n + 8:
            for width in sorted({q, -(-q // 2), -(-q // 4)}):
                yield TileShape(True, images, 1, width)


@functools.lru_cache(maxsize=256)
def tile_shapes(workload: Conv2d) -> tuple[TileShape, ...]:
    """The tiles that one wgmma's columns can hold.

    Box tiles are 8 wide, flat ones of several rows as wide as the output. A tile computes at most
    twice as many unused columns as the best one.
    """
    useful = {}
    for shape in _fitting_shapes(workload):
        tile = SwappedTile(workload, shape, 16)
        if tile.columns and max(tile.halo_width, tile.halo_height) <= MAX_BOX:
            useful[shape] = tile.useful
    best = max(useful.values(), default=0.0)
    return tuple(shape for shape, share in useful.items() if share >= 0.5 * best)


def channel_tiles(workload: Conv2d) -> tuple[int, ...]:
    """Output channels of a tile: whole 64-row blocks up to k."""
    return tuple(n for n in (64, 128, 192, 256) if n < workload.k + 64)


def _constraints(workload: Conv2d, target: Target) -> tuple[Rule, ...]:
    @functools.lru_cache(maxsize=16)
    def tiling_of(config: SwappedConvConfig) -> SwappedTiling:
        return SwappedTiling(workload, config, target.units)

    return common_rules(tiling_of, target)


def is_served(workload: Conv2d, target: Target) -> bool:
    """Whether any configuration is legal: the smallest one of a tile decides for that tile."""
    rules = _constraints(workload, target)
    for shape, row_bytes in itertools.product(tile_shapes(workload), row_sizes(workload)):
        slots = 2 if workload.c > row_bytes else 1
        for weights in SMALLEST_WEIGHTS:
            config = SwappedConvConfig(
                shape, row_bytes, 64, Team(1, True), slots, weights, 1, False, 1, store_stages=1
            )
            if all(rule(config) for rule in rules):
                return True
    return False


def swapped_space(workload: Conv2d, target: Target) -> Space[SwappedConvConfig]:
    """Every legal configuration of a workload."""
    knobs = {
        **ring_knobs(workload),
        "tile": tile_shapes(workload),
        "block_n": channel_tiles(workload),
        "store_stages": (1, 2),
    }
    return Space(
        SwappedConvConfig,
        knobs,
        _constraints(workload, target),
        lambda config: features(SwappedTiling(workload, config, target.units)),
    )


@functools.lru_cache(maxsize=256)
def default_config(workload: Conv2d, target: Target) -> SwappedConvConfig:
    """The candidate with the fewest estimated cycles; ConfigError when nothing is legal."""
    tiles = [
        SwappedTile(workload, shape, row_bytes)
        for shape, row_bytes in itertools.product(
            tile_shapes(workload), row_sizes(workload)[:-3:-1]
        )
    ]
    found = candidates(
        lambda config: SwappedTiling(workload, config, target.units),
        functools.partial(SwappedConvConfig, store_stages=1),
        tiles,
        channel_tiles(workload),
        TRIED_TEAMS,
        _constraints(workload, target),
        target.smem_bytes,
    )
    return fastest(found, workload)
