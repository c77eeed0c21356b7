"""The legal configurations of the register-tiled CPU convolution and its untuned choice."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from autoq.search.space import Space
from autoq.templates.cpu.conv.config import ConvConfig
from autoq.templates.cpu.conv.cost import cost_features, estimated_cycles
from autoq.templates.cpu.conv.tiling import ConvTiling
from autoq.templates.cpu.dot import Dot
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target

_MOST_TILE_SIZES = 6
_LARGEST_TILE = 28
_VECTORS = (1, 2, 3, 4, 6, 8)


def conv_space(conv: Conv2d, dot: Dot, target: Target) -> Space[ConvConfig]:
    """Configurations of a normalised convolution on a CPU target."""
    registers = 32 if target.avx512 else 16
    filters = conv.k if dot.depthwise else conv.k // conv.groups
    vectors = -(-filters // dot.lanes)
    most_tiles = vectors * (1 if dot.depthwise else conv.groups)
    knobs = {
        "lanes": (dot.lanes,),
        "tile_p": _tile_sizes(conv.p),
        "tile_q": _tile_sizes(conv.q),
        "vectors": tuple(value for value in _VECTORS if value <= vectors),
        "rows": _halvings(conv.p),
        "channel_tasks": tuple(1 << i for i in range(most_tiles.bit_length())),
        "channels_outer": (True, False),
    }
    rules = _rules(conv, dot, registers)

    def features(config: ConvConfig) -> dict[str, float]:
        return cost_features(ConvTiling(conv, config, dot), target.units)

    return Space(ConvConfig, knobs, rules, features)


def _rules(conv: Conv2d, dot: Dot, registers: int) -> tuple[Callable[[ConvConfig], bool], ...]:
    temporary = 0 if dot.fused else 1

    def fits_registers(config: ConvConfig) -> bool:
        """accumulators, weights and one pixel must fit the vector registers"""
        sums = 2 if conv.epilogue.scale_group else 1
        used = sums * config.pixels * config.vectors + config.vectors + 1 + temporary
        return used <= registers

    def tile_within_rows(config: ConvConfig) -> bool:
        """a register tile must not be taller than a task's rows"""
        return config.tile_p <= config.rows

    def tasks_have_channels(config: ConvConfig) -> bool:
        """every channel task must get a channel tile"""
        tiling = ConvTiling(conv, config, dot)
        return config.channel_tasks <= tiling.groups * tiling.channel_tiles

    return fits_registers, tile_within_rows, tasks_have_channels


def _tile_sizes(extent: int) -> tuple[int, ...]:
    """Tile sizes that cover `extent` with the fewest repeated outputs, large ones first."""

    def repeated(size: int) -> tuple[float, int]:
        return (round(-(-extent // size) * size / extent, 2), -size)

    sizes = sorted(range(1, min(extent, _LARGEST_TILE) + 1), key=repeated)
    small = [size for size in (1, 2, 4) if size <= extent]
    return tuple(sorted({*sizes[:_MOST_TILE_SIZES], *small}))


def _halvings(extent: int) -> tuple[int, ...]:
    """`extent` rows in 1, 2, 4, ... blocks, at most 256."""
    blocks = (1 << i for i in range(9))
    return tuple(sorted({-(-extent // count) for count in blocks}))


@functools.lru_cache(maxsize=1024)
def fastest_estimate(conv: Conv2d, dot: Dot, target: Target) -> ConvConfig:
    """The legal configuration with the least estimated cycles."""
    space = conv_space(conv, dot, target)
    grid = np.meshgrid(*space.knobs.values(), indexing="ij")
    knobs = dict(zip(space.knobs, map(np.ravel, grid), strict=True))
    for rule in space.constraints:
        legal = rule(ConvConfig(**knobs))
        knobs = {name: values[legal] for name, values in knobs.items()}
    cycles = estimated_cycles(ConvTiling(conv, ConvConfig(**knobs), dot), target.units)
    best = np.argmin(cycles)
    return ConvConfig(**{name: values[best].item() for name, values in knobs.items()})
