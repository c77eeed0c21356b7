"""Estimated time of a 2:4 sparse product's configuration on mma.sp, and features of it."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.device.launch.occupancy import wave_features
from autoq.templates.cuda.pruned.two_four_mma_sync.config import (
    FRAGMENT_BYTES,
    STEPS,
    WARP_BLOCKS,
    TwoFourMmaTiling,
)
from autoq.templates.hardware import GUESSED_CLOCK_HZ, L2_BYTES_A_CLOCK, SMEM_BYTES_A_CLOCK
from autoq.templates.target import Target

# Of one multiprocessor: guesses, none of them measured.
_BLOCK_CLOCKS = 1500.0
_VALUE_CLOCKS = 0.05
_STAGE_LATENCY = 800.0
_NOT_HIDDEN = 0.2
"""Of what is not the slowest, where one block is alone."""
_WARPS_THAT_HIDE = 8


def estimated_seconds(tiling: TwoFourMmaTiling, target: Target) -> float:
    """Roughly the seconds: waves of blocks, each as long as what is slowest in it."""
    config = tiling.config
    together = min(config.blocks_per_sm, max(1, -(-tiling.blocks // target.units)))
    waves = -(-tiling.blocks // (target.units * together))
    depth = 128 // tiling.size
    rate = target.rate(tiling.view.workload.in_dtype, sparse=True) or 6e14
    multiplied = 2 * tiling.tile_rows * tiling.tile_weights * depth
    products = multiplied * target.units * GUESSED_CLOCK_HZ / rate
    parts = (
        products,
        _shared_bytes(tiling) / SMEM_BYTES_A_CLOCK,
        (tiling.x_stage_bytes + tiling.weight_stage_bytes) / L2_BYTES_A_CLOCK,
        _STAGE_LATENCY / ((config.stages - 1) * together),
    )
    stage = max(parts) + _NOT_HIDDEN / together * (sum(parts) - max(parts))
    warps = config.threads // 32 * together
    idle = max(1.0, (_WARPS_THAT_HIDE / warps) ** 0.5)
    outputs = tiling.tile_rows * tiling.tile_weights * _VALUE_CLOCKS * tiling.view.out_bytes
    clocks = tiling.k_stages * stage * idle + (outputs + _BLOCK_CLOCKS) / together
    order = 1 + 0.002 * abs(config.group - 8) / 8
    return waves * together * clocks * order / GUESSED_CLOCK_HZ


def _shared_bytes(tiling: TwoFourMmaTiling) -> float:
    """What a stage moves through shared memory: copies, and what each warp reads of them."""
    config = tiling.config
    weights = WARP_BLOCKS * tiling.block_bytes
    rows = STEPS * config.warp_rows // 8 * FRAGMENT_BYTES
    read = config.weight_warps * config.row_warps * (weights + rows)
    return read + tiling.x_stage_bytes + tiling.weight_stage_bytes


def features(tiling: TwoFourMmaTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    return {
        **wave_features(tiling.blocks, tiling.config.blocks_per_sm, target),
        "smem_bytes": float(tiling.smem_bytes),
        "sums": float(tiling.sums),
        "threads": float(tiling.config.threads),
        "seconds_estimate": estimated_seconds(tiling, target),
    }
