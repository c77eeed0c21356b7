"""What the mixed-input product costs, roughly, and what a learned model may know of it."""

from __future__ import annotations

import math

from autoq.templates.cuda.mixed.config import MixedConfig
from autoq.templates.cuda.mixed.plan import MixedPlan
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

# What a multiprocessor takes of the L2 while its tensor cores work.
_NOMINAL_BYTES_A_CYCLE = 40.0


def estimate(workload: FloatGemm, config: MixedConfig, target: Target) -> float:
    """Roughly the seconds: waves of tiles, each as long as its products, loads or conversions.

    Its constants are guesses from a few kernels on an H200.
    """
    plan = MixedPlan(workload, config)
    products = config.block_m * config.block_n * 64
    rate = target.rate(workload.in_dtype) / 2 / target.clock_hz / target.units
    loaded = config.x_bytes / config.cluster + config.blocks * plan.tile_bytes
    memory = workload.bytes / target.memory_rate * target.clock_hz
    busy = min(1.0, 0.5 + 0.25 * config.consumers)
    # A consumer waits, reads, widens and multiplies for so long, whatever the tile's width.
    latency = (90.0 + 220.0 / config.steps) * config.row_blocks / config.k_groups
    step = max(products / rate / busy, loaded / _NOMINAL_BYTES_A_CYCLE, latency)
    waves = math.ceil(plan.works / plan.grid(target))
    cycles = waves * (plan.k_steps * step + 10 * config.block_m + 1500)
    return max(cycles, memory) / target.clock_hz


def features(workload: FloatGemm, config: MixedConfig, target: Target) -> dict[str, float]:
    """Features of a configuration for a cost model."""
    plan = MixedPlan(workload, config)
    waves = plan.works / plan.grid(target)
    return {
        "works": float(plan.works),
        "waves": waves,
        "tail": waves / math.ceil(waves),
        "tile": float(config.block_m * config.block_n),
        "smem_bytes": float(plan.smem_bytes),
        "bytes_in_flight": float(config.stages * plan.stage_bytes),
        "bytes_a_product": plan.stage_bytes / (config.block_m * config.block_n * config.steps),
        "log_seconds": math.log(estimate(workload, config, target)),
    }
