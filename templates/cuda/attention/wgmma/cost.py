"""What a configuration of attention on wgmma takes: registers, blocks at once, and time."""

from __future__ import annotations

from autoq.templates.cuda.attention.wgmma.config import WgmmaAttentionConfig
from autoq.templates.cuda.attention.wgmma.plan import WgmmaAttentionPlan
from autoq.templates.cuda.device.launch.occupancy import blocks_that_fit, wave_features
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

# Registers of a consumer beside scores, shares and sums with which nvcc 13.0 neither spills nor
# serialises products: of floats one tile after the other, and ahead; of bytes; and what masks add.
_FLOATS, _FLOATS_AHEAD, _BYTES, _MASK_REGISTERS, _CAUSAL = 28, 32, 24, 32, 4
# A loop over so few tiles is unrolled, and has the shares of two of them at once.
_FEW_TILES = 3

# What follows is fitted to 169 configurations of eleven workloads on an H200, of which the estimate
# is off by 6% in the mean for floats and by 10% for bytes. Clocks of a multiprocessor: powers and
# instructions of a lane in each of them; of floats and of bytes, slots of a score in each pass over
# keys, and the share of a consumer's own time that none of its products or powers hide.
_POWERS, _LANES = 16.0, 128.0
_INSTRUCTIONS = {True: 9.9, False: 27.5}
_KEPT_INSTRUCTIONS = 16.0
_ALONE = {True: 0.45, False: 0.38}
_CUBIC, _SUM = 8.0, 0.6
_BESIDE, _TILE_LATENCY, _BLOCK_LATENCY, _LAUNCH_CLOCKS = 0.23, 445.0, 3100.0, 1900.0
_L2_BYTES_A_CLOCK = 50.0
# How many times as long a tile takes that leaves ptxas no registers to reorder instructions with.
_SPARE, _FULL_TIMES = 6, 1.08
# Of bytes in several tiles of keys, fitted to 288 configurations of 384 keys on an H200: how many
# times as long as fitted above they take whose scores are computed twice, whose powers are kept,
# and whose products are asked for ahead besides; and the share of a block's latency that one
# behind another has in a persistent block.
_TWICE_TIMES, _KEPT_TIMES, _AHEAD_TIMES, _NEXT_LATENCY = 0.8, 1.28, 1.1, 0.5


def registers(plan: WgmmaAttentionPlan) -> int:
    """Estimate of the registers that a thread of a consumer needs."""
    work, config = plan.workload, plan.config
    scores = config.tile_keys // 2
    shares = scores // 2 if config.ahead else 0
    masks = _MASK_REGISTERS if work.mask_axes else _CAUSAL if work.causal else 0
    if config.ahead and plan.tiles <= _FEW_TILES:
        shares += scores // 2
    others = (_FLOATS_AHEAD if config.ahead else _FLOATS) if work.floating else _BYTES
    if config.keeps_powers:
        # Sums begin when the powers of a tile have become shares, four to a word.
        kept = plan.tiles * scores
        return max(kept, kept - scores + scores // 4 + work.depth // 2) + others + masks
    return scores + shares + work.depth // 2 + others + masks


def resident(plan: WgmmaAttentionPlan) -> int:
    """Blocks that a multiprocessor holds."""
    target, config = plan.target, plan.config
    taken = plan.registers.launch
    return max(1, blocks_that_fit(plan.smem_bytes, taken, config.threads, target))


def tile_clocks(plan: WgmmaAttentionPlan) -> tuple[float, float, float]:
    """Clocks of products, powers and instructions of a consumer's tile, each alone."""
    config, work, target = plan.config, plan.workload, plan.target
    rate = target.rate(work.q_dtype) / target.units / target.clock_hz
    scores, passes = 64 * config.tile_keys, 2 if plan.twice and not config.keeps_powers else 1
    slots = _KEPT_INSTRUCTIONS if config.keeps_powers else _INSTRUCTIONS[work.floating]
    others = (slots + _CUBIC * config.cubics / 16) * passes
    return (
        2 * (1 + passes) * scores * work.depth / rate,
        passes * scores * (1 - config.cubics / 16) / _POWERS,
        (scores * others + 64 * work.depth * _SUM) / _LANES,
    )


def round_clocks(plan: WgmmaAttentionPlan, blocks: int, consumers: int) -> float:
    """Clocks in which a multiprocessor computes so many blocks of some consumers side by side."""
    busy = [blocks * consumers * clocks for clocks in tile_clocks(plan)]
    busy.append(blocks * 2 * plan.tile_bytes * (1.5 if plan.twice else 1) / _L2_BYTES_A_CLOCK)
    together = max(busy) + _BESIDE * (sum(busy) - max(busy))
    alone = _ALONE[plan.workload.floating] * sum(busy) / (blocks * consumers) + _TILE_LATENCY
    tiles = plan.tiles * (0.5 + 0.5 / plan.row_blocks if plan.workload.causal else 1.0)
    slower = _FULL_TIMES if registers(plan) + _SPARE > plan.registers.consumer else 1.0
    return tiles * max(together, alone) * slower * _times(plan) + _BLOCK_LATENCY


def _times(plan: WgmmaAttentionPlan) -> float:
    """How many times as long tiles of bytes take as their instructions say."""
    if not plan.twice:
        return 1.0
    kept = _AHEAD_TIMES if plan.config.ahead else _KEPT_TIMES
    return kept if plan.config.keeps_powers else _TWICE_TIMES


def estimate(workload: Attention, config: WgmmaAttentionConfig, target: Target) -> float:
    """Roughly the seconds, of the multiprocessor that has most blocks."""
    plan = WgmmaAttentionPlan(workload, config, target)
    large = plan.full_pairs * plan.row_blocks
    together, clocks, rounds = resident(plan), _LAUNCH_CLOCKS, 0
    for blocks, consumers in ((large, config.consumers), (plan.blocks - large, config.small)):
        own = ceil_div(blocks, target.units)
        for count, times in ((together, own // together), (own % together, 1)):
            if count and times:
                clocks += times * round_clocks(plan, count, consumers)
                rounds += times
    if config.persistent:
        clocks -= (rounds - 1) * (1 - _NEXT_LATENCY) * _BLOCK_LATENCY
    return max(clocks / target.clock_hz, workload.bytes / target.memory_rate)


def features(
    workload: Attention, config: WgmmaAttentionConfig, target: Target
) -> dict[str, float]:  # fmt: skip
    """Features of a configuration for a cost model."""
    plan = WgmmaAttentionPlan(workload, config, target)
    together = resident(plan)
    products, powers, others = tile_clocks(plan)
    return {
        **wave_features(plan.blocks, together, target),
        "warpgroups": float(config.consumers * together),
        "tile": float(config.rows * config.tile_keys),
        "smem_bytes": float(plan.smem_bytes),
        "registers": float(registers(plan)),
        "tiles": float(plan.tiles),
        "useful": workload.queries * workload.keys
        / (plan.row_blocks * config.rows * plan.tiles * config.tile_keys),
        "products": products,
        "powers": powers,
        "instructions": others,
        "seconds_estimate": estimate(workload, config, target),
    }  # fmt: skip
