"""What a configuration of attention takes: registers, blocks at once, and time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoq.templates.cuda.attention.config import AttentionConfig
from autoq.templates.cuda.attention.plan import AttentionPlan
from autoq.templates.cuda.device.launch.occupancy import (
    blocks_that_fit,
    register_limit,
    wave_features,
)
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

# Registers beside scores, sums and queries with which nvcc 13.0 does not spill: for each row tile;
# of floats for the rest, less where one tile has all keys, and of sums that fill half of the
# registers; of bytes for the rest, with shares of a tile's keys and of the sums; for masks, with
# shares of the keys: of columns alone, and of rows or causal ones.
_TILE_REGISTERS, _FLOAT_REGISTERS, _ONE_TILE_FLOATS = 8, 48, 8
_CROWDED, _CROWDED_DEEP, _CROWDED_SUMS, _DEEP = 8, 48, 128, 16
_BYTE_TILE, _BYTE_REGISTERS, _KEYS_SHARE, _SUMS_SHARE, _ONE_TILE_BYTES = 12, 40, 0.36, 0.4, 76
# Of bytes that one tile has all keys of: with so many fewer nvcc spills up to 16 bytes, once. Where
# that makes room for a third block, 197 keys take 9.4 us instead of 11.6 on an H100.
_SPARED = 72
_FLOAT_MASK, _BYTE_MASK, _COLUMN_MASK, _ROW_MASK = 0.46, 0.25, 16, 56

# What follows is fitted to 113 configurations of nine workloads on an H200, of which the estimate
# is off by 10% in the mean.
# Clocks of a multiprocessor for an instruction of a warp: a product on tensor cores, a power,
# ldmatrix of four matrices, and any at all.
_PRODUCT, _POWER, _MATRICES, _ISSUE = 0.45, 1.77, 1.06, 0.22
# Of a lane for a score: largest, power's argument, rounding; and what other forms add.
_FLOAT_SCORE, _SUM, _MASK, _SHARE = 6.1, 1.0, 3.0, 11.5
_SCALED, _ROUNDED, _KEPT = 1.0, 4.3, 4.0
_COPY, _ODD_COPY, _TILE = 3.0, 10.0, 13.5
# The share of other units' time that adds to the busiest one's, and latencies in clocks.
_BESIDE = 0.68
_TILE_LATENCY, _BLOCK_LATENCY, _LAUNCH_CLOCKS = 279.0, 801.0, 4510.0
_L2_BYTES_A_CLOCK = 35.9
# How many times as long a tile takes that leaves ptxas no registers to reorder instructions with.
_FULL, _FULL_TIMES = 200, 1.1


def registers(plan: AttentionPlan, target: Target) -> int:
    """Estimate of the registers with which a thread spills nothing."""
    config, tiles = plan.config, plan.config.row_tiles
    sums = plan.depth_steps * 32 // plan.size // 2
    queries = 4 * (plan.depth_steps if config.holds_queries else 1)
    found = tiles * (config.tile_keys // 2 + sums + queries)
    work = plan.workload
    if work.mask_axes or work.causal:
        share = _FLOAT_MASK if work.floating else _BYTE_MASK
        rows = "m" in work.mask_axes or work.causal
        found += math.ceil(share * tiles * config.tile_keys)
        found += (_ROW_MASK if rows else _COLUMN_MASK) if work.floating else 0
    if work.floating:
        found += tiles * _TILE_REGISTERS
        found += _FLOAT_REGISTERS if plan.tiles > 1 else _ONE_TILE_FLOATS
        if tiles * sums >= _CROWDED_SUMS:
            found += _CROWDED_DEEP if plan.depth_steps >= _DEEP else _CROWDED
        return found
    found += tiles * _BYTE_TILE
    if plan.tiles == 1:
        return found + _ONE_TILE_BYTES
    shares = _KEYS_SHARE * config.tile_keys + _SUMS_SHARE * sums
    return math.ceil(found + _BYTE_REGISTERS + shares)


def least_registers(plan: AttentionPlan, target: Target) -> int:
    """Estimate of the registers with which a thread spills a few words at most."""
    found = registers(plan, target)
    return found - _SPARED if not plan.workload.floating and plan.tiles == 1 else found


def resident(plan: AttentionPlan) -> int:
    """Blocks that a multiprocessor holds: of the registers that ptxas takes, all it is left."""
    target, config = plan.target, plan.config
    taken = min(register_limit(config.threads, config.blocks_per_sm, target),
                math.ceil(registers(plan, target) * 1.15))  # fmt: skip
    return max(1, blocks_that_fit(plan.smem_bytes, taken, config.threads, target))


@dataclass(frozen=True)
class TileWork:
    """Instructions of one warp for a tile of keys, of both passes where there are two."""

    products: float
    powers: float
    matrices: float
    others: float


def tile_work(plan: AttentionPlan) -> TileWork:
    """What one warp executes for a tile of keys."""
    config, work = plan.config, plan.workload
    passes, loads = 2 if plan.twice else 1, plan.scorings + 1
    scores = 16 * config.row_tiles * config.tile_keys / 32
    reads = config.tile_keys / 16 * plan.depth_steps
    products = 2 * config.row_tiles * reads  # of either product
    copies = plan.depth_steps * 32 / plan.piece * config.tile_keys / config.threads
    of_scoring, of_score = _MASK if work.mask_axes else 0.0, _FLOAT_SCORE
    if work.floating:
        of_score += 0.0 if config.sums_of_products else _SUM
        products += config.row_tiles * config.tile_keys / 32 * config.sums_of_products
    else:
        rounded = work.quantised_scores + work.rescaled_scores + work.quantised_masked
        of_scoring += _SCALED + _ROUNDED * rounded
    others = scores * (of_score * passes + of_scoring * plan.scorings)
    if not work.floating:
        others += scores * (_SHARE + (_KEPT if config.keeps_scores else 0.0))
    queries = 0 if config.holds_queries else plan.scorings * config.row_tiles * plan.depth_steps
    whole = config.threads % (plan.depth_steps * 32 // plan.piece) == 0
    others += (_COPY if whole else _ODD_COPY) * copies * loads + _TILE * passes
    return TileWork(products * loads, scores * passes, reads * loads + queries, others)


def round_clocks(plan: AttentionPlan, blocks: int) -> float:
    """Clocks in which a multiprocessor computes so many blocks side by side."""
    work, warps = tile_work(plan), blocks * plan.config.warps
    passes = 2 if plan.twice else 1
    busy = [
        warps * work.products * _PRODUCT,
        warps * work.powers * _POWER,
        warps * work.matrices * _MATRICES,
        warps * (work.products + work.powers + work.matrices + work.others) * _ISSUE,
        blocks * (plan.scorings + 1) * plan.tile_bytes / _L2_BYTES_A_CLOCK,
    ]
    together = max(busy) + _BESIDE * (sum(busy) - max(busy))
    alone = passes * _TILE_LATENCY + sum(busy) / blocks
    tiles = plan.tiles * (0.5 if plan.workload.causal and plan.tiles > 1 else 1.0)
    slower = 1.0 if registers(plan, plan.target) <= _FULL else _FULL_TIMES
    return tiles * max(together, alone) * slower + _BLOCK_LATENCY


def estimate(workload: Attention, config: AttentionConfig, target: Target) -> float:
    """Roughly the seconds, of the multiprocessor that has most blocks."""
    plan = AttentionPlan(workload, config, target)
    own, together = ceil_div(plan.blocks, target.units), resident(plan)
    clocks = own // together * round_clocks(plan, together) + _LAUNCH_CLOCKS
    if own % together:
        clocks += round_clocks(plan, own % together)
    return max(clocks / target.clock_hz, workload.bytes / target.memory_rate)


def features(
    workload: Attention, config: AttentionConfig, target: Target
) -> dict[str, float]:  # fmt: skip
    """Features of a configuration for a cost model."""
    plan = AttentionPlan(workload, config, target)
    together = resident(plan)
    work = tile_work(plan)
    return {
        **wave_features(plan.blocks, together, target),
        "warps": float(config.warps * together),
        "tile": float(config.rows * config.tile_keys),
        "smem_bytes": float(plan.smem_bytes),
        "registers": float(registers(plan, target)),
        "tiles": float(plan.tiles),
        "useful": workload.queries * workload.keys
        / (plan.row_blocks * config.rows * plan.tiles * config.tile_keys),
        "products": work.products,
        "matrices": work.matrices,
        "instructions": work.others,
        "seconds_estimate": estimate(workload, config, target),
    }  # fmt: skip
