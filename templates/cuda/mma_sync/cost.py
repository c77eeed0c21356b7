"""Estimated time of an mma.sync configuration, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.search.lanes import choose, least, most
from autoq.templates.cuda.device.launch.occupancy import smem_margin
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.mma_sync.config import UNIT_BYTES
from autoq.templates.cuda.mma_sync.plan import copies_bypass_registers
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling
from autoq.templates.hardware import GUESSED_CLOCK_HZ, L2_BYTES_A_CLOCK, SMEM_BYTES_A_CLOCK
from autoq.templates.target import Target

# Addresses, loop counters and predicates beside accumulators and fragments, by ptxas's reports.
_OTHER_REGISTERS = 40

# Of one multiprocessor: guesses, none of them measured.
_BLOCK_CLOCKS = 1500.0
# Rows padded instead of swizzled took 1.06 to 1.6 times as long in six pairs on an H200.
_PADDED_ROWS = 1.3
# Of a product of nibbles that the compiler emulates, the clocks by those of one of bytes; bytes of
# a tile that a multiprocessor unpacks in a clock, and how much longer that takes of those that
# waited in shared memory. With these, estimates of nineteen recorded spaces of nibbles rank as
# their times do, and 38 pairs of untuned choices are told apart (H200).
_EMULATED_PRODUCTS = 48.0
_UNPACKED_BYTES_A_CLOCK = 32.0
_STAGED_UNPACKING = 1.5


def tiling_seconds(tiling: MmaSyncTiling, target: Target) -> float:
    """Estimated time of a configuration."""
    return _estimated_clocks(tiling, target) / GUESSED_CLOCK_HZ


def _resident(tiling: MmaSyncTiling, target: Target) -> int:
    """Blocks that share a multiprocessor, as far as there are so many."""
    config = tiling.config
    by_smem = target.smem_bytes // (tiling.smem_bytes + smem_margin(target))
    needed = config.threads * registers(tiling, target)
    blocks = ceil_div(tiling.tiles_m * tiling.tiles_n, target.units)
    return most(1, least(by_smem, target.register_file // needed, blocks))


def _estimated_clocks(tiling: MmaSyncTiling, target: Target) -> float:
    """Clocks by the slowest of tensor cores, L2, shared memory and unpacking, and how busy each is.

    Four warps, or two stages of loads under way in each of several blocks, hide latency.
    """
    config, resident = tiling.config, _resident(tiling, target)
    multiplies = target.int8_rate / 2 / target.units / GUESSED_CLOCK_HZ
    if config.compute == "s4" and not target.has_int4_mma:
        multiplies /= _EMULATED_PRODUCTS
    warps = config.threads // 32
    taps = tiling.weight_rows // config.block_n
    pixels = tiling.pixel_rows / taps
    read = pixels / (2 if tiling.unpacks_pixels else 1)
    read += config.block_n / (2 if tiling.unpacks_weights else 1)
    unpacked = pixels * tiling.unpacks_pixels + config.block_n * tiling.unpacks_weights
    unpacked *= _STAGED_UNPACKING if config.compute == "s8_staged" else 1.0
    per_byte = most(
        config.block_m * config.block_n / multiplies,
        read / L2_BYTES_A_CLOCK,
        warps * (config.warp_m * read_again(tiling) + config.warp_n) / SMEM_BYTES_A_CLOCK,
        unpacked / _UNPACKED_BYTES_A_CLOCK,
    )
    under_way = most(1, least(config.stages, tiling.steps) - 1)
    idle = most(1.0, 4 / (warps * resident), 3 / (under_way * resident))
    slow = choose(config.swizzle, 1.0, _PADDED_ROWS)
    depth = tiling.steps * config.block_k * taps
    clocks = depth * per_byte * idle * slow + _BLOCK_CLOCKS / resident
    waves = ceil_div(tiling.tiles_m * tiling.tiles_n, target.units * resident)
    return waves * resident * clocks


def registers(tiling: MmaSyncTiling, target: Target) -> int:
    """Estimate of the registers a thread needs."""
    config = tiling.config
    copies = ceil_div(tiling.pixel_rows * tiling.pieces_per_stage, config.threads)
    sums = 2 if tiling.conv.epilogue.scale_group else 1
    found = sums * config.accumulators + _fragment_registers(tiling) + 2 * copies
    if not copies_bypass_registers(config, target):
        units = tiling.weight_rows * tiling.weight_row_bytes // UNIT_BYTES
        found += copies * tiling.piece_read // 4 + ceil_div(units, config.threads) * 4
    return found + _OTHER_REGISTERS


def _fragment_registers(tiling: MmaSyncTiling) -> int:
    """Registers of pixels and weights that multiply, and of those that are read ahead."""
    config = tiling.config
    counts = tiling.fragment_counts
    if counts is None:
        fragments = config.WARP_ROW_TILES * 4 + config.WARP_COL_TILES * 2
        return fragments * least(config.CHUNK, 2)
    pairs, _, _ = counts
    return 2 * pairs + 2 * config.WARP_COL_TILES * 2


def features(tiling: MmaSyncTiling, target: Target) -> Mapping[str, float]:
    """Derived features of a configuration."""
    conv, config = tiling.conv, tiling.config
    blocks = tiling.tiles_m * tiling.tiles_n
    taps = tiling.weight_rows // config.block_n
    computed = blocks * config.block_m * config.block_n * tiling.steps * config.block_k * taps
    filled = blocks * tiling.steps * (tiling.pixel_rows + tiling.weight_rows) * config.block_k
    values = conv.operations / 2 * tiling.group_bytes / tiling.group_c
    return {
        "threads": config.threads,
        "block_m": config.block_m,
        "block_n": config.block_n,
        "smem_bytes": tiling.smem_bytes,
        "registers": registers(tiling, target),
        "blocks": blocks,
        "waves": blocks / (target.units * config.blocks_per_sm),
        "last_wave": blocks / (_waves(tiling, target) * target.units * config.blocks_per_sm),
        "useful": values / computed,
        "multiplies_per_fill_byte": computed / filled,
        "multiplies_per_fragment_byte": config.warp_m * config.warp_n
        / (config.warp_m * read_again(tiling) + config.warp_n),
        "steps": tiling.steps,
        "seconds_estimate": tiling_seconds(tiling, target),
    }  # fmt: skip


def read_again(tiling: MmaSyncTiling) -> float:
    """Share of a warp's pixel fragments that are read from shared memory, not held."""
    counts = tiling.fragment_counts
    if counts is None:
        return 1.0
    _, loaded, used = counts
    return loaded / used


def _waves(tiling: MmaSyncTiling, target: Target) -> int:
    blocks = tiling.tiles_m * tiling.tiles_n
    return ceil_div(blocks, target.units * tiling.config.blocks_per_sm)
