"""Estimated time of a grouped convolution's configuration, and features for the cost model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoq.templates.cuda.grouped_tile import UNIT, GroupedTile, group_units
from autoq.templates.target import Target
from autoq.templates.tiles.weights import ceil_div

# Guesses where it does not say measured.
_CLOCK = 1.7e9
_REGISTER_FILE = 65536
_MOST_THREADS = 2048
_MOST_BLOCKS = 32
_SMEM_BYTES = 227 << 10
_RESERVED_SMEM_BYTES = 1024
_SECTOR_BYTES = 32
_L2_BYTES_A_CLOCK = 32.0
_SMEM_BYTES_A_CLOCK = 128.0
_ISSUES_A_CLOCK = 4.0
_MMA_CLOCKS = 1.4
_BLOCK_CLOCKS = 2500.0


def estimated_seconds(tile: GroupedTile, target: Target) -> float:
    """Roughly the seconds, by the slowest of memory, L2, instructions and tensor cores."""
    conv = tile.workload
    resident = residence(tile)
    here = ceil_div(tile.blocks, target.units)
    busy = here * max(_block_clocks(tile).values())
    rounds = ceil_div(here, resident)
    clocks = busy + (_BLOCK_CLOCKS if rounds == 1 else _BLOCK_CLOCKS * (1 + rounds / 4))
    return max(conv.bytes / target.memory_rate, clocks / _CLOCK)


def residence(tile: GroupedTile) -> int:
    """Blocks that share a multiprocessor."""
    return max(1, min(
        _SMEM_BYTES // (tile.smem_bytes + _RESERVED_SMEM_BYTES),
        _REGISTER_FILE // (tile.registers * tile.threads),
        _MOST_THREADS // tile.threads,
        _MOST_BLOCKS,
    ))  # fmt: skip


def _block_clocks(tile: GroupedTile) -> dict[str, float]:
    """Clocks that a block takes of each of a multiprocessor's resources."""
    conv, config = tile.workload, tile.config
    warps = tile.threads / 32
    rows = config.rows * warps
    pairs = ceil_div(conv.s, 2) * group_units(conv)
    fresh = min(conv.r, conv.stride[0]) if conv.dilation[0] == 1 else conv.r
    outputs = tile.outputs * config.channels
    copied = tile.halo_bytes
    moved = (copied + outputs) * _sector_share(tile)
    instructions = rows * (conv.r * pairs * 2 + fresh * pairs + 34) + warps * (
        150 + 4 * conv.r * pairs
    )
    instructions += (copied + outputs) / (UNIT * 32) * 8
    return {
        "l2": moved / _L2_BYTES_A_CLOCK,
        "shared memory": (copied + 2 * outputs + rows * fresh * pairs * 512) / _SMEM_BYTES_A_CLOCK,
        "issue": instructions / _ISSUES_A_CLOCK,
        "tensor": rows * conv.r * pairs * 2 * _MMA_CLOCKS,
    }


def _sector_share(tile: GroupedTile) -> float:
    """Bytes of the sectors that a tile's accesses touch, to the bytes of its pixels."""
    channels = tile.config.channels
    if channels == tile.workload.c:
        return 1.0
    return ceil_div(channels, _SECTOR_BYTES) * _SECTOR_BYTES / channels


def features(tile: GroupedTile, target: Target) -> Mapping[str, float]:
    """Derived quantities, the same keys for every configuration."""
    conv = tile.workload
    resident = residence(tile)
    waves = tile.blocks / (target.units * resident)
    return {
        "threads": tile.threads,
        "smem_bytes": tile.smem_bytes,
        "registers": tile.registers,
        "blocks": tile.blocks,
        "resident_warps": resident * tile.threads / 32,
        "waves": waves,
        "last_wave": waves / math.ceil(waves),
        "useful": conv.n * conv.p * conv.q * conv.k
        / (tile.blocks * tile.outputs * tile.config.channels),
        "halo": tile.halo_bytes / (tile.outputs * tile.config.channels),
        "estimated_seconds": estimated_seconds(tile, target),
    }  # fmt: skip
