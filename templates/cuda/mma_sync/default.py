"""The untuned choice of the mma.sync convolution: the configuration of least estimated time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from autoq.templates.cuda.device.launch.occupancy import smem_margin
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.plan import copies_bypass_registers
from autoq.templates.cuda.mma_sync.space import (
    compute_types,
    read_again,
    registers,
    space,
)
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling, as_conv2d
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

# Of one multiprocessor: guesses, none of them measured. The clock only turns the estimate's clocks
# into seconds and back; choices of every architecture rest on this one, so it is not the target's.
_NOMINAL_CLOCK = 1.5e9
_L2_BYTES_A_CLOCK = 40.0
_SMEM_BYTES_A_CLOCK = 128.0
_BLOCK_CLOCKS = 1500.0
# Rows padded instead of swizzled took 1.06 to 1.6 times as long in six pairs on an H200.
_PADDED_ROWS = 1.3

# (BLK_ROW_WARPS, BLK_COL_WARPS, WARP_ROW_TILES, WARP_COL_TILES) from large tiles to small ones.
_DEFAULT_TILES = (
    (2, 2, 4, 8), (4, 2, 2, 8), (2, 2, 2, 8), (4, 1, 2, 8), (2, 1, 2, 8), (4, 1, 1, 8),
    (2, 1, 1, 8), (2, 2, 2, 4), (4, 1, 2, 4), (2, 2, 1, 4), (4, 1, 2, 2), (2, 1, 1, 4),
    (2, 1, 1, 2), (1, 2, 1, 2),
)  # fmt: skip


def default(workload: Conv2d | Gemm, target: Target) -> MmaSyncConfig:
    """The legal candidate of least estimated time."""
    conv = as_conv2d(workload)
    legal = space(workload, target)
    return min(
        (
            config
            for config in _default_candidates(compute_types(conv, target)[0], target)
            if config in legal
        ),
        key=lambda config: _estimated_clocks(MmaSyncTiling(conv, config), target),
    )


def _default_candidates(compute: str, target: Target) -> Iterator[MmaSyncConfig]:
    """Swizzled tiles, with fragments held in registers too where copies need none."""
    for tile, chunk, stages in itertools.product(_DEFAULT_TILES, (2, 1, 4), (4, 3, 2)):
        plain = MmaSyncConfig(*tile, chunk, False, stages, True, 1, compute)
        yield plain
        if copies_bypass_registers(plain, target) and chunk < 4:
            for columns, images in itertools.product((1, 2, 4), (False, True)):
                yield replace(plain, duplicates="register", box_columns=columns, images=images)


def estimated_seconds(workload: Conv2d | Gemm, config: MmaSyncConfig, target: Target) -> float:
    """Estimated time, the same in every layout of the activations."""
    return _estimated_clocks(MmaSyncTiling(as_conv2d(workload), config), target) / _NOMINAL_CLOCK


def _resident(tiling: MmaSyncTiling, target: Target) -> int:
    """Blocks that share a multiprocessor, as far as there are so many."""
    config = tiling.config
    by_smem = target.smem_bytes // (tiling.smem_bytes + smem_margin(target))
    needed = config.threads * registers(tiling, target)
    blocks = ceil_div(tiling.tiles_m * tiling.tiles_n, target.units)
    return max(1, min(by_smem, target.register_file // needed, blocks))


def _estimated_clocks(tiling: MmaSyncTiling, target: Target) -> float:
    """Clocks by the slowest of tensor cores, L2 and shared memory, and how well they are kept busy.

    Four warps, or two stages of loads under way in each of several blocks, hide latency.
    """
    config, resident = tiling.config, _resident(tiling, target)
    multiplies = target.int8_rate / 2 / target.units / _NOMINAL_CLOCK
    warps = config.threads // 32
    taps = tiling.weight_rows // config.block_n
    read = tiling.pixel_rows / taps / (2 if tiling.unpacks_pixels else 1)
    read += config.block_n / (2 if tiling.unpacks_weights else 1)
    per_byte = max(
        config.block_m * config.block_n / multiplies,
        read / _L2_BYTES_A_CLOCK,
        warps * (config.warp_m * read_again(tiling) + config.warp_n) / _SMEM_BYTES_A_CLOCK,
    )
    under_way = max(1, min(config.stages, tiling.steps) - 1)
    idle = max(1.0, 4 / (warps * resident), 3 / (under_way * resident))
    slow = 1.0 if config.swizzle else _PADDED_ROWS
    depth = tiling.steps * config.block_k * taps
    clocks = depth * per_byte * idle * slow + _BLOCK_CLOCKS / resident
    waves = ceil_div(tiling.tiles_m * tiling.tiles_n, target.units * resident)
    return waves * resident * clocks
