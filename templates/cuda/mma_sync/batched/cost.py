"""What a configuration of a batched product takes: registers, blocks at once, and time."""

from __future__ import annotations

import math

from autoq.templates.cuda.device.launch.occupancy import blocks_together, wave_features
from autoq.templates.cuda.mma_sync.batched.config import BatchedSyncConfig
from autoq.templates.cuda.mma_sync.batched.plan import BatchedSyncPlan
from autoq.templates.cuda.mma_sync.config import UNIT_BYTES
from autoq.templates.hardware import L2_BYTES_A_CLOCK, SMEM_BYTES_A_CLOCK
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

# Addresses, loop counters and predicates, and what the epilogue takes beside accumulators.
_OTHER_REGISTERS = 44
# Words around a fragment, before it is shifted out of them.
_VERBATIM_REGISTERS = 8
# Of one multiprocessor. Clocks of a sector written in part are those of stores of single values on
# an H200, 35 us for the scores of ViT in bytes; the others are guesses.
_SECTOR_BYTES = 32
_WHOLE_SECTOR_CLOCKS, _PART_SECTOR_CLOCKS = 0.75, 2.0
_LANES = 128
# Instructions for an output of bytes and of floats, and for a word that passes through shared
# memory.
_QUANTISING, _SCALING, _STAGED_WORD = 12.0, 6.0, 24.0
_SYNC_CLOCKS = 60.0
_HELD_UNIT_CLOCKS = 8.0
# A fragment that is shifted out of words, instead of a ldmatrix: six loads and four shifts.
_VERBATIM_FRAGMENT = 10.0
_SCHEDULERS = 4
_COPY, _LOOP = 12.0, 30.0
_BLOCK_CLOCKS = 2500.0
_STEP_CLOCKS = 200.0


def registers(plan: BatchedSyncPlan, target: Target) -> int:
    """Estimate of the registers a thread needs."""
    config = plan.config
    fragments = config.WARP_ROW_TILES * 4 + config.WARP_COL_TILES * 2
    found = config.accumulators + fragments * min(config.CHUNK, 2) + _OTHER_REGISTERS
    if config.verbatim:
        found += 2 * config.WARP_ROW_TILES + _VERBATIM_REGISTERS
    if not plan.workload.floating:
        found += 2 * config.WARP_ROW_TILES + config.WARP_COL_TILES
    for operand in plan.operands:
        found += 2 * operand.rounds(config.threads) + operand.held_words(config.threads)
    return found


def resident(plan: BatchedSyncPlan) -> int:
    """Blocks that share a multiprocessor, as far as there are so many."""
    return blocks_together(plan, registers(plan, plan.target), plan.target)


def block_clocks(plan: BatchedSyncPlan) -> float:
    """Clocks that a block keeps the busiest part of its multiprocessor."""
    config, work, target = plan.config, plan.workload, plan.target
    rate = target.rate(work.in_dtype) / 2 / target.units / target.clock_hz
    warps = config.threads // 32
    read = warps * (config.warp_m + config.warp_n) * config.block_k
    held = sum(0 if one.asynchronous else one.copies for one in plan.operands)
    step = max(
        config.block_m * config.block_n * plan.step_k / rate,
        plan.stage_bytes / L2_BYTES_A_CLOCK,
        (read + plan.stage_bytes) / SMEM_BYTES_A_CLOCK,
        held / 32 * _HELD_UNIT_CLOCKS,
        warps * _step_instructions(plan) / _SCHEDULERS,
    )
    bytes_out = plan.out_size == 1
    instructions = _QUANTISING if bytes_out else _SCALING
    finish = config.block_m * config.block_n * instructions / _LANES
    whole = plan.rows_bytes / L2_BYTES_A_CLOCK if config.verbatim else 0.0
    return plan.steps * step + whole + finish + _store_clocks(plan)


def _step_instructions(plan: BatchedSyncPlan) -> float:
    """What a warp executes for a stage: products, fragments, sums of bytes, copies and the loop."""
    config = plan.config
    rows, columns = config.WARP_ROW_TILES, config.WARP_COL_TILES
    pixels = rows * (_VERBATIM_FRAGMENT if config.verbatim else 1)
    k_tile = rows * columns + pixels + columns / 2
    if plan.size == 1:
        k_tile += 4 * rows + 2 * columns + (2 * columns if plan.turned else 0)
    copies = sum(operand.rounds(config.threads) for operand in plan.operands)
    return config.CHUNK * k_tile + _COPY * copies + _LOOP


def _store_clocks(plan: BatchedSyncPlan) -> float:
    """Clocks of a block's stores, by sectors of 32 bytes that they write in whole or in part."""
    config, work = plan.config, plan.workload
    rows, columns = min(config.block_m, work.m), min(config.block_n, work.n)
    row = columns * plan.out_size
    whole = rows * row / _SECTOR_BYTES * _WHOLE_SECTOR_CLOCKS
    if config.staged:
        through = rows * row / 4 / _LANES * _STAGED_WORD
        if plan.contiguous:
            return whole + through + _SYNC_CLOCKS
        ends = 2 * rows if work.n * plan.out_size % _SECTOR_BYTES else 0
        return whole + through + ends * _PART_SECTOR_CLOCKS + _SYNC_CLOCKS
    run = plan.run * plan.out_size
    width = math.gcd(UNIT_BYTES, run, work.n * plan.out_size)
    if run == width and 4 * width >= _SECTOR_BYTES:
        return whole
    # The four lanes of a row store at once, and lie `run` bytes apart.
    touched = max(1.0, 4 * run / _SECTOR_BYTES) / 4
    return rows * row / width * touched * _PART_SECTOR_CLOCKS


def estimate(workload: BatchedGemm, config: BatchedSyncConfig, target: Target) -> float:
    """Roughly the seconds: blocks that share a multiprocessor hide each other's latency."""
    plan = BatchedSyncPlan(workload, config, target)
    together, busy = resident(plan), block_clocks(plan)
    under_way = max(1, min(config.stages, plan.steps) - 1)
    alone = busy + _BLOCK_CLOCKS + plan.steps * _STEP_CLOCKS * (1 + 2 / under_way)
    waves = plan.blocks / (target.units * together)
    clocks = max(math.ceil(waves) * alone, waves * together * busy)
    return max(clocks / target.clock_hz, workload.bytes / target.memory_rate)


def features(
    workload: BatchedGemm, config: BatchedSyncConfig, target: Target
) -> dict[str, float]:  # fmt: skip
    """Features of a configuration for a cost model."""
    plan = BatchedSyncPlan(workload, config, target)
    together = resident(plan)
    return {
        **wave_features(plan.blocks, together, target),
        "warps": float(config.threads // 32 * together),
        "tile": float(config.block_m * config.block_n),
        "warp_tile": float(config.accumulators),
        "smem_bytes": float(plan.smem_bytes),
        "registers": float(registers(plan, target)),
        "bytes_in_flight": float((config.stages - 1) * plan.stage_bytes * together),
        "steps": float(plan.steps),
        "useful": workload.m * workload.n * workload.k
        / (plan.tiles_m * config.block_m * plan.tiles_n * config.block_n)
        / (plan.steps * plan.step_k),
        "block_clocks": block_clocks(plan),
        "seconds_estimate": estimate(workload, config, target),
    }  # fmt: skip
