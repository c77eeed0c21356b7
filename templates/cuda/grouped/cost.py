"""Estimated time of a grouped convolution's configuration, and features for the cost model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoq.search.lanes import choose, least, most
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.grouped.tiling import (
    UNIT,
    GroupedTiling,
    group_units,
    narrow,
)
from autoq.templates.hardware import FITTED_CLOCK_HZ
from autoq.templates.target import Target

# Fitted to 1080 times of 58 layers on an H200, and to what choosing by them costs; instructions
# were counted in SASS before. These two are the H200's of the fit, as its clock is; spaces and
# estimates of every architecture rest on them, although sm_86 and sm_89 hold fewer.
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


def estimated_seconds(tiling: GroupedTiling, target: Target) -> float:
    """Roughly the seconds: tiles a block takes in turn, each as long as what is slowest in it."""
    conv, config = tiling.workload, tiling.config
    resident = config.blocks_per_unit or residence(tiling, target)
    tiles = tiling.tiles * tiling.slabs
    here = least(resident, ceil_div(tiles, target.units))
    busy = _together(*_tile_clocks(tiling).values())
    alone = most(busy, _tile_instructions(tiling) / (tiling.threads / 32) / _WARP_ISSUES)
    alone += _BARRIER_CLOCKS
    alone += choose(config.stages == 1, _ARRIVAL_CLOCKS * _piece_share(tiling), 0.0)
    turns = ceil_div(tiles, target.units * here)
    if config.blocks_per_unit:
        turns = ceil_div(tiling.tiles, tiling.runs(target.units))
    clocks = _START_CLOCKS + turns * most(here * busy, alone)
    starts = here * (1 if config.blocks_per_unit else turns)
    clocks += starts * _START_INSTRUCTIONS * tiling.threads / 32 / _ISSUES_A_CLOCK
    return _together(conv.bytes / target.memory_rate, clocks / FITTED_CLOCK_HZ)


def _together(*times: float) -> float:
    """Time of what goes on at once: the longest, and some of what is nearly as long."""
    return sum(time**_SHARPNESS for time in times) ** (1 / _SHARPNESS)


def residence(tiling: GroupedTiling, target: Target) -> int:
    """Blocks that share a multiprocessor."""
    return most(1, least(
        # A block can have all of a multiprocessor's shared memory but what is reserved for it.
        target.unit_smem_bytes // (tiling.smem_bytes + target.reserved_smem_bytes),
        target.schedulers * tiling.scheduler_warps(target) // (tiling.threads // 32),
        _FITTED_THREADS // tiling.threads,
        _FITTED_BLOCKS,
    ))  # fmt: skip


def _tile_clocks(tiling: GroupedTiling) -> dict[str, float]:
    """Clocks that a tile takes of each of a multiprocessor's resources."""
    conv, config = tiling.workload, tiling.config
    pairs = ceil_div(conv.s, 2) * group_units(conv)
    outputs = tiling.outputs * config.channels
    moved = (tiling.halo_bytes + outputs) * _piece_share(tiling)
    staged = tiling.halo_bytes + 2 * outputs + _fragment_rows(tiling) * pairs * 512
    return {
        "l2": moved / _L2_BYTES_A_CLOCK,
        "shared memory": staged / _SMEM_BYTES_A_CLOCK,
        "issue": _tile_instructions(tiling) / _ISSUES_A_CLOCK,
        "tensor": config.rows * tiling.threads / 32 * _products(tiling) * _MMA_CLOCKS,
    }


def _tile_instructions(tiling: GroupedTiling) -> float:
    """Instructions of all warps for a tile."""
    conv, config = tiling.workload, tiling.config
    warps = tiling.threads / 32
    pairs = ceil_div(conv.s, 2) * group_units(conv)
    rows = _products(tiling) + 2 + 8 * _OUTPUT_INSTRUCTIONS
    # ldmatrix, and what makes two taps of a word.
    fragments = _fragment_rows(tiling) * pairs * (5 if narrow(conv) else 1)
    weights = 4 * conv.r * pairs if tiling.parts > 1 else 0
    copies = (tiling.halo_bytes + tiling.outputs * config.channels) / (UNIT * 32)
    return (
        warps * (config.rows * rows + weights + _TILE_INSTRUCTIONS)
        + fragments
        + copies * _COPY_INSTRUCTIONS
    )


def _products(tiling: GroupedTiling) -> int:
    """mma.sync of a warp for an output row of two strips."""
    conv = tiling.workload
    if narrow(conv):
        return conv.r * ceil_div(conv.s, 4) * 2
    return conv.r * ceil_div(conv.s, 2) * group_units(conv) * 2


def _fragment_rows(tiling: GroupedTiling) -> float:
    """Input rows that the warps of a tile read: a strip's first row reads all of the filter's."""
    conv = tiling.workload
    fresh = min(conv.r, conv.stride[0]) if conv.dilation[0] == 1 else conv.r
    return tiling.threads / 32 * (tiling.config.rows * fresh + max(0, conv.r - fresh))


def _piece_share(tiling: GroupedTiling) -> float:
    """Bytes that a tile's accesses move, to the bytes of its pixels."""
    channels = tiling.config.channels
    moved = ceil_div(channels, _PIECE_BYTES) * _PIECE_BYTES / channels
    return choose(channels == tiling.workload.c, 1.0, moved)


def features(tiling: GroupedTiling, target: Target) -> Mapping[str, float]:
    """Derived quantities, the same keys for every configuration."""
    conv, config = tiling.workload, tiling.config
    resident = residence(tiling, target)
    blocks = tiling.runs(target.units) * tiling.slabs
    waves = blocks / (target.units * resident)
    shared = config.blocks_per_unit or resident
    return {
        "threads": tiling.threads,
        "smem_bytes": tiling.smem_bytes,
        "registers": tiling.registers,
        "register_room": target.register_file / (shared * tiling.threads) - tiling.registers,
        "blocks": blocks,
        "resident_warps": resident * tiling.threads / 32,
        "waves": waves,
        "last_wave": waves / math.ceil(waves),
        "useful": conv.n * conv.p * conv.q * conv.k
        / (tiling.tiles * tiling.slabs * tiling.outputs * config.channels),
        "halo": tiling.halo_bytes / (tiling.outputs * config.channels),
        "seconds_estimate": estimated_seconds(tiling, target),
    }  # fmt: skip
