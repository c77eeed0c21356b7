"""What the mma.sync product costs, roughly, and what a learned model may know of it."""

from __future__ import annotations

import math

from autoq.templates.cuda.device.launch.occupancy import wave_features
from autoq.templates.cuda.mixed.conversion import Conversion
from autoq.templates.cuda.mixed.mma_sync.config import Conform, MixedSyncConfig
from autoq.templates.cuda.mixed.mma_sync.resources import resident
from autoq.templates.cuda.mixed.mma_sync.tiling import MixedSyncTiling
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.hardware import SMEM_BYTES_A_CLOCK
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

# Of one multiprocessor: bytes and 32-bit results a clock. Guesses, none of them measured.
_L2_BYTES_A_CLOCK = 24.0
_LANES = 64.0
# What does not hide behind the slowest part of a stage: a share of the others, and its barrier.
_SHOWN_SHARE = 0.3
_STAGE_CLOCKS = 100.0
# From a stage's loads to their arrival.
_LATENCY_CLOCKS = 900.0
# Of a block: its first loads and its last stores.
_BLOCK_CLOCKS = 1500.0
# A second kernel in the same stream, and the L2 that partial sums pass, seconds and bytes a second.
_SECOND_KERNEL_SECONDS = 3e-6
_L2_RATE = 2e12


def estimate(workload: FloatGemm, config: MixedSyncConfig, target: Target) -> float:
    """Roughly the seconds: by the slowest of tensor cores, L2, shared memory and conversions, of
    which a share of the others shows.

    Four warps keep the schedulers busy, and stages under way hide the latency of loads.
    """
    tiling = MixedSyncTiling(workload, config)
    together = resident(tiling, target)
    parts = _parts(tiling, target)
    clocks = max(parts) + _SHOWN_SHARE * (sum(parts) - max(parts)) + _STAGE_CLOCKS / together
    clocks *= max(1.0, 4 / (config.threads // 32 * together))
    steps = tiling.split_steps
    under_way = max(1, min(config.stages, steps) - 1)
    clocks = max(clocks, _LATENCY_CLOCKS / (under_way * together))
    waves = math.ceil(tiling.tiles * config.split_k / (target.units * together))
    whole = waves * together * (steps * clocks + _BLOCK_CLOCKS / together)
    seconds = max(whole / target.clock_hz, workload.bytes / target.memory_rate)
    if config.split_k > 1:
        passed = 8 * config.split_k * math.prod(workload.y_shape)
        seconds += _SECOND_KERNEL_SECONDS + passed / _L2_RATE
    return seconds


def _parts(tiling: MixedSyncTiling, target: Target) -> tuple[float, float, float, float]:
    """Clocks of a stage in tensor cores, L2, shared memory and conversions."""
    work, config = tiling.workload, tiling.config
    rate = target.rate(work.in_dtype) / 2 / target.units / target.clock_hz
    read = config.warps_n * tiling.weight_offset
    read += config.warps_m * (tiling.group_offset - tiling.weight_offset)
    widened = config.block_n * config.block_k * config.warps_m
    return (
        config.block_m * config.block_n * config.block_k / rate,
        tiling.stage_bytes / _L2_BYTES_A_CLOCK,
        (read + tiling.stage_bytes) / SMEM_BYTES_A_CLOCK,
        widened * instructions(tiling) / _LANES,
    )


def instructions(tiling: MixedSyncTiling) -> float:
    """Instructions of a thread for a value of the weight, those for layout and scales included."""
    work, config = tiling.workload, tiling.config
    if not work.quantised:
        return 0.0
    if config.widening is Widening.TABLE:
        four = 6.0 + 2.0 * work.zero_points + 2.0 * bool(work.group)
    else:
        four = sum(Conversion(work, widening=config.widening).instructions)
        four -= 2.0 * tiling.fragments.unsigned
    if config.layout is not Conform.OFFLINE:
        four += 3.0
    return four / 4


def features(workload: FloatGemm, config: MixedSyncConfig, target: Target) -> dict[str, float]:
    """Features of a configuration for a cost model."""
    tiling = MixedSyncTiling(workload, config)
    together = resident(tiling, target)
    blocks = tiling.tiles * config.split_k
    products, l2, smem, widening = _parts(tiling, target)
    return {
        **wave_features(blocks, together, target),
        "warps": float(config.threads // 32 * together),
        "tile": float(config.block_m * config.block_n),
        "warp_tile": float(config.accumulators),
        "smem_bytes": float(tiling.smem_bytes),
        "bytes_in_flight": float((config.stages - 1) * tiling.stage_bytes * together),
        "l2_share": l2 / products,
        "smem_share": smem / products,
        "widening_share": widening / products,
        "seconds_estimate": estimate(workload, config, target),
    }
