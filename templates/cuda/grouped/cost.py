"""Estimated time of a grouped convolution's configuration, and features for the cost model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.grouped.tile import (
    UNIT,
    GroupedTile,
    group_units,
    narrow,
)
from autoq.templates.target import Target

# Fitted to 1080 times of 58 layers on an H200, and to what choosing by them costs; instructions
# were counted in SASS before. The first three are the H200's of the fit; spaces and estimates of
# every architecture rest on them, although sm_86 and sm_89 hold fewer threads and blocks.
_FITTED_CLOCK = 1.75e9
_FITTED_THREADS = 2048
_FITTED_BLOCKS = 32
# What a piece of a row moves at least: two sectors of the L2.
_PIECE_BYTES = 64
_L2_BYTES_A_CLOCK = 26.0
_SMEM_BYTES_A_CLOCK = 79.0
# Of 4 schedulers.
_ISSUES_A_CLOCK = 3.2
_MMA_CLOCKS = 1.9
# From launch to the first tile's arrival, and from a tile's request to its arrival.
_START_CLOCKS = 2160.0
_ARRIVAL_CLOCKS = 240.0
# What a block loses around a tile while its warps wait for each other.
_BARRIER_CLOCKS = 510.0
# Instructions a clock that one warp issues while it waits for nothing but its own results.
_WARP_ISSUES = 0.22
_SHARPNESS = 3.7
# Of a warp: before its first tile, and around each.
_START_INSTRUCTIONS = 146
_TILE_INSTRUCTIONS = 58
# Of a copy of 16 bytes a lane, in or out.
_COPY_INSTRUCTIONS = 8.6
# Conversion, scale, rounding, zero point and half of a pack.
_OUTPUT_INSTRUCTIONS = 3.9


def estimated_seconds(tile: GroupedTile, target: Target) -> float:
    """Roughly the seconds: tiles a block takes in turn, each as long as what is slowest in it."""
    conv, config = tile.workload, tile.config
    resident = config.blocks or residence(tile, target)
    tiles = tile.tiles * tile.slabs
    here = min(resident, ceil_div(tiles, target.units))
    busy = _together(*_tile_clocks(tile).values())
    alone = max(busy, _tile_instructions(tile) / (tile.threads / 32) / _WARP_ISSUES)
    alone += _BARRIER_CLOCKS
    if config.stages == 1:
        alone += _ARRIVAL_CLOCKS * _piece_share(tile)
    turns = ceil_div(tiles, target.units * here)
    if config.blocks:
        turns = ceil_div(tile.tiles, tile.runs(target.units))
    clocks = _START_CLOCKS + turns * max(here * busy, alone)
    starts = here * (1 if config.blocks else turns)
    clocks += starts * _START_INSTRUCTIONS * tile.threads / 32 / _ISSUES_A_CLOCK
    return _together(conv.bytes / target.memory_rate, clocks / _FITTED_CLOCK)


def _together(*times: float) -> float:
    """Time of what goes on at once: the longest, and some of what is nearly as long."""
    return sum(time**_SHARPNESS for time in times) ** (1 / _SHARPNESS)


def residence(tile: GroupedTile, target: Target) -> int:
    """Blocks that share a multiprocessor."""
    return max(1, min(
        # A block can have all of a multiprocessor's shared memory but what is reserved for it.
        target.unit_smem_bytes // (tile.smem_bytes + target.reserved_smem_bytes),
        target.schedulers * tile.scheduler_warps(target) // (tile.threads // 32),
        _FITTED_THREADS // tile.threads,
        _FITTED_BLOCKS,
    ))  # fmt: skip


def _tile_clocks(tile: GroupedTile) -> dict[str, float]:
    """Clocks that a tile takes of each of a multiprocessor's resources."""
    conv, config = tile.workload, tile.config
    pairs = ceil_div(conv.s, 2) * group_units(conv)
    outputs = tile.outputs * config.channels
    moved = (tile.halo_bytes + outputs) * _piece_share(tile)
    staged = tile.halo_bytes + 2 * outputs + _fragment_rows(tile) * pairs * 512
    return {
        "l2": moved / _L2_BYTES_A_CLOCK,
        "shared memory": staged / _SMEM_BYTES_A_CLOCK,
        "issue": _tile_instructions(tile) / _ISSUES_A_CLOCK,
        "tensor": config.rows * tile.threads / 32 * _products(tile) * _MMA_CLOCKS,
    }


def _tile_instructions(tile: GroupedTile) -> float:
    """Instructions of all warps for a tile."""
    conv, config = tile.workload, tile.config
    warps = tile.threads / 32
    pairs = ceil_div(conv.s, 2) * group_units(conv)
    rows = _products(tile) + 2 + 8 * _OUTPUT_INSTRUCTIONS
    # ldmatrix, and what makes two taps of a word.
    fragments = _fragment_rows(tile) * pairs * (5 if narrow(conv) else 1)
    weights = 4 * conv.r * pairs if tile.parts > 1 else 0
    copies = (tile.halo_bytes + tile.outputs * config.channels) / (UNIT * 32)
    return (
        warps * (config.rows * rows + weights + _TILE_INSTRUCTIONS)
        + fragments
        + copies * _COPY_INSTRUCTIONS
    )


def _products(tile: GroupedTile) -> int:
    """mma.sync of a warp for an output row of two strips."""
    conv = tile.workload
    if narrow(conv):
        return conv.r * ceil_div(conv.s, 4) * 2
    return conv.r * ceil_div(conv.s, 2) * group_units(conv) * 2


def _fragment_rows(tile: GroupedTile) -> float:
    """Input rows that the warps of a tile read: a strip's first row reads all of the filter's."""
    conv = tile.workload
    fresh = min(conv.r, conv.stride[0]) if conv.dilation[0] == 1 else conv.r
    return tile.threads / 32 * (tile.config.rows * fresh + max(0, conv.r - fresh))


def _piece_share(tile: GroupedTile) -> float:
    """Bytes that a tile's accesses move, to the bytes of its pixels."""
    channels = tile.config.channels
    if channels == tile.workload.c:
        return 1.0
    return ceil_div(channels, _PIECE_BYTES) * _PIECE_BYTES / channels


def features(tile: GroupedTile, target: Target) -> Mapping[str, float]:
    """Derived quantities, the same keys for every configuration."""
    conv = tile.workload
    resident = residence(tile, target)
    blocks = tile.runs(target.units) * tile.slabs
    waves = blocks / (target.units * resident)
    return {
        "threads": tile.threads,
        "smem_bytes": tile.smem_bytes,
        "registers": tile.registers,
        "blocks": blocks,
        "resident_warps": resident * tile.threads / 32,
        "waves": waves,
        "last_wave": waves / math.ceil(waves),
        "useful": conv.n * conv.p * conv.q * conv.k
        / (tile.tiles * tile.slabs * tile.outputs * tile.config.channels),
        "halo": tile.halo_bytes / (tile.outputs * tile.config.channels),
        "estimated_seconds": estimated_seconds(tile, target),
    }  # fmt: skip
