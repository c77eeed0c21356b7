"""What a configuration of attention takes: registers, blocks at once, and time."""

from __future__ import annotations

import math

from autoq.templates.cuda.attention.config import AttentionConfig
from autoq.templates.cuda.attention.plan import AttentionPlan
from autoq.templates.cuda.device.launch.occupancy import blocks_that_fit
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

# Addresses, loop counters and predicates; what bytes have beside them, also for measuring rows
# first; of sums that fill half of the registers; and shares of scores and sums that are in two
# forms at once. Of nvcc 13.0.
_OTHER_REGISTERS, _BYTE_REGISTERS, _CROWDED, _CROWDED_SUMS = 52, 8, 16, 128
_MEASURING_REGISTERS = 24
_SCORES_TWICE, _SUMS_TWICE = 0.25, 0.1
# Of one multiprocessor. Powers of two are its special function units' rate; the others are guesses.
_POWERS_A_CLOCK = 16.0
_L2_BYTES_A_CLOCK = 40.0
_SMEM_BYTES_A_CLOCK = 128.0
_SCHEDULERS = 4
_SHARE_OF_PEAK = 0.66
# Instructions of a lane for a score: scale, largest, power, sum and rounding; more for each form.
_FLOAT_SCORE, _MASK, _BYTE_SCORE, _QUANTISED_SCORE, _SHARE = 5.0, 5.0, 4.0, 5.0, 3.0
_COPY, _OUTPUT = 10.0, 4.0
_BLOCK_CLOCKS = 2000.0
_TILE_CLOCKS = 500.0


def registers(plan: AttentionPlan, target: Target) -> int:
    """Estimate of the registers a thread needs."""
    config, tiles = plan.config, plan.config.row_tiles
    scores = config.tile_keys // 2
    sums = plan.depth_steps * 32 // plan.size // 2
    queries = 4 * (plan.depth_steps if config.holds_queries else 1)
    crowded = _CROWDED if tiles * sums >= _CROWDED_SUMS else 0
    again = _SCORES_TWICE * scores * (plan.tiles > 1) + _SUMS_TWICE * sums
    found = tiles * (scores + sums + again + queries + 8) + _OTHER_REGISTERS + crowded
    if not plan.workload.floating:
        found += _BYTE_REGISTERS + (_MEASURING_REGISTERS if plan.twice else 0)
    return math.ceil(found)


def resident(plan: AttentionPlan) -> int:
    """Blocks that share a multiprocessor, as far as there are so many."""
    target, config = plan.target, plan.config
    fitting = blocks_that_fit(plan.smem_bytes, registers(plan, target), config.threads, target)
    by_threads = target.unit_threads // config.threads
    return max(1, min(fitting, by_threads, ceil_div(plan.blocks, target.units)))


def tile_clocks(plan: AttentionPlan) -> float:
    """Clocks that a tile of keys keeps the busiest part of a multiprocessor, shares weighed."""
    config, work, target = plan.config, plan.workload, plan.target
    rate = target.rate(work.q_dtype) / 2 / target.units / target.clock_hz * _SHARE_OF_PEAK
    scores = config.rows * config.tile_keys
    depth = plan.depth_steps * 32 // plan.size
    times = 2 if plan.twice else 1
    read = config.warps * config.tile_keys * plan.pitch * (times + 1)
    products = scores * depth * (times + 1) / rate
    if not config.holds_queries:
        read += times * config.rows * plan.pitch
    powers = scores * times / _POWERS_A_CLOCK
    lanes = scores * _score_instructions(plan) * times
    if not work.floating:
        lanes += scores * _SHARE
    matrices = read / 512 + scores * depth * (times + 1) / (16 * 8 * STEP_VALUES[plan.size])
    copies = (times + 1) * config.tile_keys * plan.depth_steps * 32 / plan.piece * _COPY
    issued = (lanes + copies) / 32 + matrices
    # Products, powers and everything else take turns in a warp; other warps fill the gaps in part.
    busiest = max(products, powers, issued / _SCHEDULERS, read / _SMEM_BYTES_A_CLOCK)
    others = products + powers + issued / _SCHEDULERS - busiest
    warps = config.warps * resident(plan)
    return busiest + others / max(1.0, warps / _SCHEDULERS)


STEP_VALUES = {1: 32, 2: 16}
"""Values along the reduction of one mma.sync, by their bytes."""


def _score_instructions(plan: AttentionPlan) -> float:
    work = plan.workload
    found = _FLOAT_SCORE + (_MASK if work.mask_axes else 0.0)
    if not work.floating:
        found += _BYTE_SCORE
    quantised = work.quantised_scores + work.rescaled_scores + 2 * work.quantised_masked
    return found + _QUANTISED_SCORE * quantised


def block_clocks(plan: AttentionPlan) -> float:
    """Clocks that a block keeps the busiest part of its multiprocessor."""
    config = plan.config
    outputs = config.rows * plan.depth_steps * 32 / plan.size
    finish = outputs * _OUTPUT / 32 / _SCHEDULERS
    bytes_in = plan.query_bytes + plan.tiles * 2 * plan.tile_bytes
    return max(plan.tiles * tile_clocks(plan) + finish, bytes_in / _L2_BYTES_A_CLOCK)


def estimate(workload: Attention, config: AttentionConfig, target: Target) -> float:
    """Roughly the seconds: blocks that share a multiprocessor hide each other's latency."""
    plan = AttentionPlan(workload, config, target)
    together, busy = resident(plan), block_clocks(plan)
    steps = plan.tiles * (2 if plan.twice else 1)
    alone = busy + _BLOCK_CLOCKS + steps * _TILE_CLOCKS
    waves = plan.blocks / (target.units * together)
    clocks = max(math.ceil(waves) * alone, waves * together * busy)
    return max(clocks / target.clock_hz, workload.bytes / target.memory_rate)


def features(
    workload: Attention, config: AttentionConfig, target: Target
) -> dict[str, float]:  # fmt: skip
    """Features of a configuration for a cost model."""
    plan = AttentionPlan(workload, config, target)
    together = resident(plan)
    waves = plan.blocks / (target.units * together)
    return {
        "blocks": float(plan.blocks),
        "waves": waves,
        "tail": waves / math.ceil(waves),
        "warps": float(config.warps * together),
        "tile": float(config.rows * config.tile_keys),
        "smem_bytes": float(plan.smem_bytes),
        "registers": float(registers(plan, target)),
        "tiles": float(plan.tiles),
        "useful": workload.queries * workload.keys
        / (plan.row_blocks * config.rows * plan.tiles * config.tile_keys),
        "block_clocks": block_clocks(plan),
        "seconds_estimate": estimate(workload, config, target),
    }  # fmt: skip
