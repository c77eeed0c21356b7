"""The configurations of conv2d_halo: knob values and the rules of a legal one."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from autoq.search.space import Space
from autoq.templates.cuda.device.launch.input_once import input_once_values
from autoq.templates.cuda.device.launch.team import Team
from autoq.templates.cuda.device.memory.swizzle import ROW_BYTES
from autoq.templates.cuda.device.memory.tma import MAX_BOX
from autoq.templates.cuda.device.mma.wgmma import INTEGER_N
from autoq.templates.cuda.halo.config import (
    HaloConfig,
    HaloConvConfig,
    ResidentWeights,
    WeightRing,
)
from autoq.templates.cuda.halo.cost import features
from autoq.templates.cuda.halo.tile import BLOCK_ROWS, WIDTH, HaloTile
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.cuda.halo.tiling import MOST_BLOCKS, HaloTiling
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target

Rule = Callable[[Any], bool]

_IMAGES = (1, 2, 3, 4, 8)

STAGES = (2, 3, 4, 6, 8)

PARTS = tuple(ResidentWeights(steps) for steps in (1, 2, 3, 5, 9))
"""Resident weights in parts of so many steps."""

SMALLEST_WEIGHTS = WeightRing(2, 1), ResidentWeights()
"""The ways to hold weights of which one takes the least shared memory."""

TEAMS = tuple(Team(n, True) for n in (1, 2, 3)) + tuple(Team(n, False) for n in (2, 3))

# Parts of resident weights, each with a barrier.
_MOST_PARTS = 36


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _divides_among_consumers(blocks: int) -> bool:
    """Whether 1 to 3 consumers can hold that many blocks, each the same number."""
    return any(blocks % n == 0 and blocks // n <= MOST_BLOCKS for n in (1, 2, 3))


def _fitting_shapes(workload: Conv2d) -> Iterator[tuple[TileShape, int]]:
    """Shapes that TMA can load and consumers can hold, and the blocks of each.

    Box tiles are 8 wide and whole groups of 8 rows, flat ones no larger than the output; a TMA
    box has at most 256 elements along a dimension.
    """
    p, q = workload.p, workload.q
    above = (workload.r - 1) * workload.dilation[0]
    beside = (workload.s - 1) * workload.dilation[1]
    heights = sorted({_ceil(p, parts) for parts in range(1, 9)} | {1, 2, 3, 4, 8, 16, 24, 32})
    widths = sorted({WIDTH} | {_ceil(q, parts) for parts in (1, 2, 3)})
    boxes = [(False, h, WIDTH) for h in heights if h % 8 == 0 and h < p + 8]
    rows = [(True, h, w) for h in heights for w in widths if h <= p and w <= q]
    for flat, height, width in boxes + rows:
        pitch = width + beside
        if max(pitch, height + above) > MAX_BOX:
            continue
        used = (height - 1) * pitch + width if flat else height * WIDTH
        for images in _IMAGES:
            blocks = images * _ceil(used, BLOCK_ROWS)
            if images <= workload.n and _divides_among_consumers(blocks):
                yield TileShape(flat, images, height, width), blocks


@functools.lru_cache(maxsize=256)
def tile_shapes(workload: Conv2d) -> tuple[TileShape, ...]:
    """The tiles worth trying.

    A tile computes at most twice as many unused rows as the best one, and no other of its tiling
    and number of blocks wastes less with a halo as small.
    """
    n, p, q = workload.n, workload.p, workload.q
    above = (workload.r - 1) * workload.dilation[0]
    beside = (workload.s - 1) * workload.dilation[1]
    rivals: dict[tuple[bool, int], list[tuple[int, int, TileShape]]] = {}
    for shape, blocks in _fitting_shapes(workload):
        tiles = _ceil(n, shape.images) * _ceil(p, shape.height) * _ceil(q, shape.width)
        halo_rows = shape.images * (shape.height + above) * (shape.width + beside)
        rivals.setdefault((shape.flat, blocks), []).append((tiles, halo_rows, shape))
    kept: list[tuple[int, TileShape]] = []
    for (_, blocks), same in rivals.items():
        least = None
        for tiles, halo_rows, shape in sorted(same):
            if least is None or halo_rows < least:
                least = halo_rows
                kept.append((tiles * blocks, shape))
    best = min((computed for computed, _ in kept), default=0)
    return tuple(sorted(shape for computed, shape in kept if computed <= 2 * best))


def row_sizes(workload: Conv2d) -> tuple[int, ...]:
    """Row widths whose last chunk leaves at most a third of the channels zero."""
    c = workload.c
    return tuple(size for size in ROW_BYTES if 3 * c >= 2 * _ceil(c, size) * size)


def channel_tiles(workload: Conv2d) -> tuple[int, ...]:
    """Output channels of a tile: multiples of 16 up to k."""
    most = _ceil(workload.k, 16) * 16
    widths = {n for n in (16, 32, 48, 64, 96, 128, 192, 256) if n <= most}
    return tuple(sorted(widths | ({most} & set(INTEGER_N))))


def ring_knobs(workload: Conv2d) -> dict[str, tuple]:
    """Values of the knobs that say how a tile is fed and by how many consumers multiplied."""
    rows = row_sizes(workload)
    steps = {HaloTile(workload, TileShape(False, 1, 8, 8), size).steps for size in rows}
    divisors = [d for d in (1, 2, 3, 4, 5, 7) if any(count % d == 0 for count in steps)]
    rings = itertools.product(STAGES, divisors)
    return {
        "row_bytes": rows,
        "team": TEAMS,
        "halo_stages": (1, 2, 3, 4, 6, 8),
        "weights": (ResidentWeights(), *PARTS, *itertools.starmap(WeightRing, rings)),
        "blocks_per_unit": (1, 2),
        "turns": (False, True),
        "cluster": (1, 2),
        "input_once": input_once_values(workload),
    }


def _knobs(workload: Conv2d) -> dict[str, tuple]:
    block_n = channel_tiles(workload)
    return {
        **ring_knobs(workload),
        "tile": tile_shapes(workload),
        "block_n": block_n,
        "channels_outer": (False, True) if block_n[-1] > 64 else (False,),
    }


def common_rules(tiling_of: Callable[[Any], HaloTiling], target: Target) -> tuple[Rule, ...]:
    """Named rules of both halo convolutions, the cheap ones first."""

    def weight_ring(config: HaloConfig) -> bool:
        """a weight stage holds a divisor of the steps of a chunk, a part any of a tile's"""
        built = tiling_of(config)
        if config.in_parts:
            fits = config.steps_together <= built.steps_per_tile
            return fits and built.weight_barriers <= _MOST_PARTS
        return built.tile.steps % config.steps_together == 0

    def turns(config: HaloConfig) -> bool:
        """consumers of a tile each take turns if they like, and must where they stream weights"""
        several = not config.cooperative and config.consumers > 1
        if several and not config.resident:
            return config.turns
        return several or not config.turns

    def registers(config: HaloConfig) -> bool:
        """consumers share a tile's blocks evenly, and their accumulators fit the registers"""
        return tiling_of(config).fits_registers

    def halo_slots(config: HaloConfig) -> bool:
        """a slot is released a chunk late; unordered consumers must find their own slots again"""
        built = tiling_of(config)
        if built.tile.chunks > 1 and config.halo_stages < 2:
            return False
        unordered = config.teams > 1 and not config.turns
        return not unordered or config.halo_stages % (config.consumers * built.tile.chunks) == 0

    def resident_weights(config: HaloConfig) -> bool:
        """a block with resident weights keeps one tile of channels"""
        built = tiling_of(config)
        most = target.units * config.blocks_per_unit
        blocks = built.n_tiles * config.cluster
        return not config.resident or blocks <= min(most, built.work)

    def cluster(config: HaloConfig) -> bool:
        """blocks of a cluster load equal parts of a step's weights"""
        built = tiling_of(config)
        return config.cluster == 1 or (
            config.cluster <= target.units and built.weight_parts % config.cluster == 0
        )

    def shared_memory(config: HaloConfig) -> bool:
        """halo slots, weights and barriers fit the shared memory of a block"""
        each = target.unit_smem_bytes // config.blocks_per_unit - target.reserved_smem_bytes
        return tiling_of(config).smem_bytes <= each

    return weight_ring, turns, registers, halo_slots, resident_weights, cluster, shared_memory


def constraints(workload: Conv2d, target: Target) -> tuple[Rule, ...]:
    """Named rules of conv2d_halo."""

    @functools.lru_cache(maxsize=16)
    def tiling_of(config: HaloConvConfig) -> HaloTiling:
        return HaloTiling(workload, config, target.units)

    def epilogue_order(config: HaloConvConfig) -> bool:
        """the order of blocks and channel groups matters where there are several of both"""
        several = tiling_of(config).blocks_per_consumer > 1 and config.block_n > 64
        return several or not config.channels_outer

    return *common_rules(tiling_of, target), epilogue_order


def is_served(workload: Conv2d, target: Target) -> bool:
    """Whether any configuration is legal: the smallest one of a tile decides for that tile."""
    rules = constraints(workload, target)
    for shape, row_bytes, consumers in itertools.product(
        tile_shapes(workload), row_sizes(workload), (1, 2, 3)
    ):
        slots = 2 if workload.c > row_bytes else 1
        for weights in SMALLEST_WEIGHTS:
            config = HaloConvConfig(
                shape, row_bytes, 16, Team(consumers, True), slots, weights, 1, False, 1,
                channels_outer=False,
            )  # fmt: skip
            if all(rule(config) for rule in rules):
                return True
    return False


def halo_space(workload: Conv2d, target: Target) -> Space[HaloConvConfig]:
    """Every legal configuration of a workload."""
    return Space(
        HaloConvConfig,
        _knobs(workload),
        constraints(workload, target),
        lambda config: features(HaloTiling(workload, config, target.units)),
    )
