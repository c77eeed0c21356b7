"""What a configuration of attention of float32 takes: registers and time."""

from __future__ import annotations

import math

from autoq.templates.cuda.attention.tf32.config import Tf32AttentionConfig
from autoq.templates.cuda.attention.tf32.plan import Tf32AttentionPlan
from autoq.templates.cuda.device.launch.occupancy import blocks_that_fit
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

# Registers beside scores, sums and queries, and what a mask adds to them; of queries that are read
# again for each tile.
_REGISTERS, _MASK, _READ_AGAIN = 64, 16, 48
# What follows is counted in machine code and fitted to nothing. Clocks of a scheduler for an
# instruction: a product on tensor cores, and any other.
_PRODUCT, _OTHER = 5.0, 1.4
# Instructions for a pair of factors that become parts, for a score of a lane, and for a copy.
_PARTS, _SCORE, _COPY = 6, 8, 4
# Clocks of a product's result, of which four are computed in turn; what a tile costs each warp in
# barriers and sums over lanes; of a tile's first loads, of a block's, and of a launch.
_LATENCY, _EACH_TILE, _TILE, _BLOCK, _LAUNCH = 18.0, 120.0, 300.0, 1500.0, 4500.0
_L2_BYTES_A_CLOCK = 36.0


def registers(plan: Tf32AttentionPlan, target: Target) -> int:
    """Estimate of the registers with which a thread spills nothing."""
    config = plan.config
    held = plan.depth if config.holds_queries else _READ_AGAIN
    found = config.tile_keys // 2 + plan.depth // 2 + held + _REGISTERS
    return found + (_MASK if plan.workload.mask_axes else 0)


def estimate(workload: Attention, config: Tf32AttentionConfig, target: Target) -> float:
    """Roughly the seconds, of the multiprocessor that has most blocks."""
    plan = Tf32AttentionPlan(workload, config, target)
    fitting = blocks_that_fit(plan.smem_bytes, registers(plan, target), config.threads, target)
    together = max(1, fitting)
    own = ceil_div(plan.blocks, target.units)
    pairs = 2 * config.tile_keys // 8 * plan.depth // 8
    parted = pairs * _PARTS + (0 if config.holds_queries else 6 * plan.depth)
    copies = 2 * config.tile_keys * plan.depth / plan.piece / config.threads
    others = parted + config.tile_keys / 2 * _SCORE + copies * _COPY
    busy = 3 * pairs * _PRODUCT + others * _OTHER / 2 + _EACH_TILE
    alone = 3 * pairs * _LATENCY / 4 + others * _OTHER + _TILE
    tiles = plan.tiles * (0.5 if workload.causal and plan.tiles > 1 else 1.0)
    tile_bytes = 2 * config.tile_keys * plan.depth * 4

    def clocks(blocks: int) -> float:
        warps = blocks * config.warps
        loads = blocks * tile_bytes / _L2_BYTES_A_CLOCK
        # Nothing hides the first tile's loads.
        return tiles * max(math.ceil(warps / 4) * busy, alone, loads) + loads + _BLOCK

    taken = own // together * clocks(together) + _LAUNCH
    if own % together:
        taken += clocks(own % together)
    return max(taken / target.clock_hz, workload.bytes / target.memory_rate)
