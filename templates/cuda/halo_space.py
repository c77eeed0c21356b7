"""The configurations of conv2d_halo: knob values, rules, model features and an analytic default."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from autoq.search.space import Space
from autoq.templates.cuda.halo_layout import HaloConvConfig, HaloLayout
from autoq.templates.cuda.halo_tile import WIDTH, HaloTile
from autoq.templates.cuda.wgmma_config import RESERVED_BYTES
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

# Instructions of the epilogue per output, over 128 lanes.
_EPILOGUE_CYCLES = 10 / 128

# Cycles from a TMA request to its barrier, and of a commit group's barriers and fences.
_LOAD_LATENCY = 1000
_GROUP_CYCLES = 40


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@functools.lru_cache(maxsize=256)
def tile_shapes(workload: Conv2d) -> tuple[tuple[bool, int, int, int], ...]:
    """(flat, images, height, width) that TMA can load and that waste little.

    Box tiles are 8 wide and whole groups of 8 rows, flat ones no larger than the output; a TMA
    box has at most 256 elements along a dimension; a tile computes at most twice as many unused
    rows as the best one.
    """
    p, q = workload.p, workload.q
    heights = {_ceil(p, parts) for parts in range(1, 9)} | {1, 2, 3, 4, 8, 16, 24, 32}
    widths = {WIDTH} | {_ceil(q, parts) for parts in (1, 2, 3)}
    useful = {}
    for flat, images, height, width in itertools.product(
        (False, True), (1, 2, 3, 4, 8), sorted(heights), sorted(widths)
    ):
        fits = height <= p and width <= q
        if images > workload.n or not (fits if flat else width == WIDTH and height % 8 == 0):
            continue
        tile = HaloTile(workload, flat, images, height, width, 16)
        if height < _ceil(p, 8) * 8 + 8 and max(tile.halo_width, tile.halo_height) <= MAX_BOX:
            useful[flat, images, height, width] = tile.useful
    best = max(useful.values(), default=0.0)
    return tuple(shape for shape, share in useful.items() if share >= 0.5 * best)


def _row_sizes(workload: Conv2d) -> tuple[int, ...]:
    """Row widths whose last chunk leaves at most a third of the channels zero."""
    c = workload.c
    return tuple(size for size in ROW_BYTES if 3 * c >= 2 * _ceil(c, size) * size)


def _knobs(workload: Conv2d) -> dict[str, tuple]:
    most_n = _ceil(workload.k, 16) * 16
    block_n = {n for n in (16, 32, 48, 64, 96, 128, 192, 256) if n <= most_n}
    block_n |= {most_n} if most_n in SHAPES_N else set()
    rows = _row_sizes(workload)
    steps = {HaloTile(workload, False, 1, 8, 8, size).steps for size in rows}
    return {
        "tile": tile_shapes(workload),
        "row_bytes": rows,
        "block_n": tuple(sorted(block_n)),
        "consumers": (1, 2, 3),
        "cooperative": (True, False),
        "halo_stages": (1, 2, 3, 4, 6, 8),
        "stages": (0, 2, 3, 4, 6, 8),
        "steps_per_stage": tuple(
            d for d in (1, 2, 3, 4, 5, 7) if any(count % d == 0 for count in steps)
        ),
        "blocks_per_unit": (1, 2),
        "channels_outer": (False, True) if most_n > 64 else (False,),
    }


def _constraints(workload: Conv2d, target: Target) -> tuple[Callable[[HaloConvConfig], bool], ...]:
    """Named rules, the cheap ones first."""

    def layout(config: HaloConvConfig) -> HaloLayout:
        return HaloLayout(workload, config, target.units)

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
        most = target.units * config.blocks_per_unit
        return not config.resident or built.n_tiles <= min(most, built.work)

    def shared_memory(config: HaloConvConfig) -> bool:
        """halo slots, weights and barriers fit the shared memory of a block"""
        each = (target.smem_bytes + RESERVED_BYTES) // config.blocks_per_unit - RESERVED_BYTES
        return layout(config).smem_bytes <= each

    return (
        lone_consumer, weight_ring, whole_blocks, registers, epilogue_order, halo_slots,
        resident_weights, shared_memory,
    )  # fmt: skip


def features(layout: HaloLayout) -> Mapping[str, float]:
    """Derived features of a configuration for the cost model."""
    tile, config = layout.tile, layout.config
    outputs = tile.blocks * 64 * config.block_n
    streamed = 0 if config.resident else tile.reduction * config.block_n
    return {
        "flat": tile.flat,
        "images": tile.images,
        "height": tile.height,
        "width": tile.width,
        "blocks_per_consumer": layout.blocks_per_consumer,
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
    groups = tile.chunks * (1 if config.resident else layout.stages_per_chunk)
    tensor = instructions * max(multiply, operands) + groups * _GROUP_CYCLES
    outputs = tile.blocks * 64 * config.block_n
    epilogue = outputs * _EPILOGUE_CYCLES

    weights = tile.reduction * config.block_n
    streamed = 0 if config.resident else weights
    loaded = tile.load_bytes * tile.chunks + streamed
    in_flight = config.halo_stages * tile.load_bytes + config.stages * layout.stage_bytes
    fill = loaded / min(_FILL_RATE, in_flight / _LOAD_LATENCY)
    fill += outputs * tile.useful * ITEM_BYTES[layout.workload.epilogue.out_dtype] / _FILL_RATE

    if config.consumers == 1:
        # Nothing overlaps a lone warpgroup's epilogue, and it fills half of the issue slots.
        each = tensor + 2 * epilogue
    else:
        each = tensor + epilogue if config.cooperative else max(tensor, epilogue)
    tail = epilogue * (1 if config.cooperative else layout.tiles_in_flight)
    start = 2 * _LOAD_LATENCY + (weights if config.resident else 0) / _FILL_RATE + tail
    if layout.tiles_in_flight > layout.waves:
        each = tensor * layout.tiles_in_flight  # the other consumers have no tile
    return start + layout.waves * max(each, fill)


def halo_space(workload: Conv2d, target: Target) -> Space[HaloConvConfig]:
    """Every legal configuration of a workload."""
    return Space(
        HaloConvConfig,
        _knobs(workload),
        _constraints(workload, target),
        lambda config: features(HaloLayout(workload, config, target.units)),
    )


def _rings(workload: Conv2d, tile: HaloTile, teams: int) -> Iterator[tuple[int, int]]:
    """(halo slots, weight stages), the ones with more in flight first, resident weights first."""
    slots = (8, 6, 4, 3, 2, 1)
    for count in slots:
        if count >= (teams + 1) * tile.chunks:
            yield count, 0
    for count in slots:
        for stages in (8, 6, 4, 3, 2):
            if count <= 3 * tile.chunks:
                yield count, stages


def _candidates(
    workload: Conv2d, target: Target, rules: Sequence[Callable[[HaloConvConfig], bool]]
) -> Iterator[HaloConvConfig]:
    """Legal configurations that a default is chosen from: one ring for every tile and team."""
    knobs = _knobs(workload)
    teams = ((2, True), (2, False), (1, True), (3, True))
    for shape, row_bytes, block_n, (consumers, cooperative) in itertools.product(
        knobs["tile"], knobs["row_bytes"], knobs["block_n"], teams
    ):
        tile = HaloTile(workload, *shape, row_bytes)
        if tile.blocks % consumers if cooperative else tile.blocks > 4:
            continue
        if tile.blocks * block_n > 4 * 3 * 128:
            continue
        in_flight = 1 if cooperative else consumers
        for halo_stages, stages in _rings(workload, tile, in_flight):
            config = HaloConvConfig(
                shape, row_bytes, block_n, consumers, cooperative, halo_stages, stages, 1, 1, False
            )
            if all(rule(config) for rule in rules):
                yield config
                break


@functools.lru_cache(maxsize=256)
def default_config(workload: Conv2d, target: Target) -> HaloConvConfig | None:
    """The candidate with the fewest estimated cycles; None when none is legal."""
    candidates = _candidates(workload, target, _constraints(workload, target))
    return min(
        candidates,
        key=lambda config: estimated_cycles(HaloLayout(workload, config, target.units)),
        default=None,
    )
