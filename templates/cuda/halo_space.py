"""The configurations of conv2d_halo: knob values, rules, model features and an analytic default."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping

from autoq.search.space import Space
from autoq.templates.cuda.halo_layout import HaloConvConfig, HaloLayout
from autoq.templates.cuda.halo_tile import WIDTH, HaloTile
from autoq.templates.movement import ITEM_BYTES
from autoq.templates.target import Target
from autoq.templates.tiles.swizzle import ROW_BYTES
from autoq.templates.tiles.tma import MAX_BOX
from autoq.templates.tiles.wgmma import K_BYTES, SHAPES_N
from autoq.templates.workload import Conv2d

# Registers of a consumer that the epilogue, descriptors and indices need beside accumulators.
_OTHER_REGISTERS = 56

# Bytes a cycle and multiprocessor from the L2, measured as 7 TB/s on an H200.
_FILL_RATE = 31

# Shared-memory bytes a cycle that wgmma can read.
_SMEM_RATE = 128

# Multiply-adds of 8-bit operands a cycle and multiprocessor.
_MULTIPLY_RATE = 4096

# Instructions of the epilogue per output, over 128 lanes; and cycles to start a tile.
_EPILOGUE_CYCLES = 10 / 128
_TILE_LATENCY = 600


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _knobs(workload: Conv2d) -> dict[str, tuple]:
    p, q, k = workload.p, workload.q, workload.k
    heights = {_ceil(p, parts) for parts in range(1, 9)} | {1, 2, 3, 4, 8, 16, 24, 32}
    widths = {WIDTH} | {_ceil(q, parts) for parts in (1, 2, 3)}
    rows = [size for size in ROW_BYTES if size <= max(16, 2 * workload.c - 1)]
    most_n = _ceil(k, 16) * 16
    block_n = {n for n in (16, 32, 48, 64, 96, 128, 192, 256) if n <= most_n}
    block_n |= {most_n} if most_n in SHAPES_N else set()
    steps = {HaloTile(workload, False, 1, 8, 8, size).steps for size in rows}
    return {
        "flat": (False, True),
        "tile_n": tuple(n for n in (1, 2, 3, 4, 8) if n <= workload.n),
        "tile_h": tuple(sorted(h for h in heights if h <= _ceil(p, 8) * 8)),
        "tile_w": tuple(sorted(widths)),
        "row_bytes": tuple(rows),
        "block_n": tuple(sorted(block_n)),
        "consumers": (1, 2, 3),
        "cooperative": (True, False),
        "halo_stages": (1, 2, 3, 4, 6, 8),
        "stages": (0, 2, 3, 4, 6, 8),
        "steps_per_stage": tuple(
            d for d in (1, 2, 3, 4, 5, 7) if any(count % d == 0 for count in steps)
        ),
        "channels_outer": (False, True),
    }


def _constraints(workload: Conv2d, target: Target) -> tuple[Callable[[HaloConvConfig], bool], ...]:
    """Named rules, the cheap ones first."""

    def layout(config: HaloConvConfig) -> HaloLayout:
        return HaloLayout(workload, config, target.units)

    def tile_shape(config: HaloConvConfig) -> bool:
        """a box tile is 8 wide and whole groups of 8 rows, a flat one no taller than the output"""
        if config.flat:
            return config.tile_h <= workload.p and config.tile_w <= workload.q
        return config.tile_w == WIDTH and config.tile_h % 8 == 0

    def epilogue_order(config: HaloConvConfig) -> bool:
        """the order of blocks and channel groups matters where there are several of both"""
        several = layout(config).blocks_per_consumer > 1 and config.block_n > 64
        return several or not config.channels_outer

    def lone_consumer(config: HaloConvConfig) -> bool:
        """one consumer has nobody to take turns with"""
        return config.cooperative or config.consumers > 1

    def weight_ring(config: HaloConvConfig) -> bool:
        """a weight stage holds a divisor of the steps; resident weights have no stages"""
        if config.resident:
            return config.steps_per_stage == 1
        return layout(config).tile.steps % config.steps_per_stage == 0

    def channel_waste(config: HaloConvConfig) -> bool:
        """a third of a chunk of channels may be zeros at most"""
        padded = _ceil(workload.c, config.row_bytes) * config.row_bytes
        return 3 * workload.c >= 2 * padded

    def tma_box(config: HaloConvConfig) -> bool:
        """a TMA box has at most 256 elements along every dimension"""
        tile = layout(config).tile
        return max(tile.halo_width, tile.halo_height) <= MAX_BOX

    def whole_blocks(config: HaloConvConfig) -> bool:
        """cooperative consumers share a tile's 64-row blocks evenly"""
        return not config.cooperative or layout(config).tile.blocks % config.consumers == 0

    def registers(config: HaloConvConfig) -> bool:
        """accumulators, epilogue and addresses of up to 4 blocks fit a consumer's registers"""
        built = layout(config)
        if built.blocks_per_consumer > 4:
            return False
        return built.accumulators + _OTHER_REGISTERS <= built.registers.consumer

    def halo_slots(config: HaloConvConfig) -> bool:
        """a slot is released a chunk late; unordered consumers must find their own slots again"""
        built = layout(config)
        if built.tile.chunks > 1 and config.halo_stages < 2:
            return False
        unordered = built.tiles_in_flight > 1 and not built.ordered
        return not unordered or config.halo_stages % (config.consumers * built.tile.chunks) == 0

    def resident_weights(config: HaloConvConfig) -> bool:
        """a block with resident weights keeps one tile of channels"""
        built = layout(config)
        return not config.resident or built.n_tiles <= min(target.units, built.work)

    def shared_memory(config: HaloConvConfig) -> bool:
        """halo slots, weights and barriers fit the shared memory of a block"""
        return layout(config).smem_bytes <= target.smem_bytes

    best = _most_useful(workload)

    def useful_rows(config: HaloConvConfig) -> bool:
        """the tile computes at most twice as many unused rows as the best tile shape"""
        return layout(config).tile.useful >= 0.5 * best

    return (
        tile_shape, lone_consumer, weight_ring, channel_waste, tma_box, whole_blocks, registers,
        epilogue_order, halo_slots, resident_weights, useful_rows, shared_memory,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _most_useful(workload: Conv2d) -> float:
    knobs = _knobs(workload)
    shares = [0.0]
    for flat, images, height, width in itertools.product(
        knobs["flat"], knobs["tile_n"], knobs["tile_h"], knobs["tile_w"]
    ):
        if flat or (width == WIDTH and height % 8 == 0):
            shares.append(HaloTile(workload, flat, images, height, width, 64).useful)
    return max(shares)


def features(layout: HaloLayout) -> Mapping[str, float]:
    """Derived features of a configuration for the cost model."""
    tile, config = layout.tile, layout.config
    outputs = tile.blocks * 64 * config.block_n
    streamed = 0 if config.resident else tile.reduction * config.block_n
    return {
        "waves": layout.waves,
        "last_wave": layout.work / (layout.waves * layout.grid),
        "useful": tile.useful,
        "useful_n": layout.workload.k / (layout.n_tiles * config.block_n),
        "smem_bytes": layout.smem_bytes,
        "fill_bytes": tile.load_bytes * tile.chunks + streamed,
        "instructions": tile.blocks * tile.reduction // K_BYTES,
        "accumulators": layout.accumulators,
        "outputs": outputs,
        "multiplies_per_byte": outputs * tile.reduction
        / (tile.load_bytes * tile.chunks + streamed),
        "estimated_cycles": estimated_cycles(layout),
    }  # fmt: skip


def estimated_cycles(layout: HaloLayout) -> float:
    """Cycles of the busiest block from the rates of tensor core, shared memory, L2 and ALU."""
    tile, config = layout.tile, layout.config
    instructions = tile.blocks * tile.reduction / K_BYTES
    multiply = 64 * config.block_n * K_BYTES / _MULTIPLY_RATE
    operands = (64 + config.block_n) * K_BYTES / _SMEM_RATE
    tensor = instructions * max(multiply, operands)
    weights = tile.reduction * config.block_n
    output_bytes = ITEM_BYTES[layout.workload.epilogue.out_dtype]
    outputs = tile.blocks * 64 * config.block_n
    fill = tile.load_bytes * tile.chunks + (0 if config.resident else weights)
    fill = (fill + outputs * tile.useful * output_bytes) / _FILL_RATE
    epilogue = outputs * _EPILOGUE_CYCLES
    if config.consumers == 1:
        # One warpgroup fills a quarter of the issue slots less than two that overlap.
        each = tensor + 2 * epilogue
    else:
        each = tensor + epilogue if config.cooperative else max(tensor, epilogue)
    slots = config.halo_stages / tile.chunks
    stall = 0.0 if slots >= 2 * layout.tiles_in_flight else 0.5 * fill
    start = _TILE_LATENCY + (weights if config.resident else 0) / _FILL_RATE
    return start + layout.waves * (max(each, fill) + stall)


def halo_space(workload: Conv2d, target: Target) -> Space[HaloConvConfig]:
    """Every legal configuration of a workload."""
    return Space(
        HaloConvConfig,
        _knobs(workload),
        _constraints(workload, target),
        lambda config: features(HaloLayout(workload, config, target.units)),
    )


def _candidates(workload: Conv2d) -> Iterator[HaloConvConfig]:
    """Configurations that a default is chosen from."""
    knobs = _knobs(workload)
    rows = [size for size in (64, 128, 32, 16) if size in knobs["row_bytes"]]
    tiles = itertools.product(knobs["flat"], (1, 2, 4), knobs["tile_h"], knobs["tile_w"], rows)
    tiles = [tile for tile in tiles if tile[1] <= workload.n]
    slots = ((2, 0, 1), (4, 0, 1), (6, 0, 1), (2, 4, 1), (4, 4, 1))
    for tile, block_n, team, ring in itertools.product(
        tiles, knobs["block_n"], ((2, True), (2, False), (1, True)), slots
    ):
        yield HaloConvConfig(*tile, block_n, *team, *ring, False)


@functools.lru_cache(maxsize=256)
def default_config(workload: Conv2d, target: Target) -> HaloConvConfig | None:
    """The candidate with the fewest estimated cycles; None when none is legal."""
    rules = _constraints(workload, target)
    legal = [c for c in _candidates(workload) if all(rule(c) for rule in rules)]
    return min(
        legal,
        key=lambda config: estimated_cycles(HaloLayout(workload, config, target.units)),
        default=None,
    )
