"""What the mixed-input product costs, roughly, and what a learned model may know of it."""

from __future__ import annotations

import math

from autoq.templates.cuda.device.launch.walk import shared_tiles
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.wgmma.residuals import BUFFERS
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

# What a multiprocessor takes of the L2: 64 rows and weights of 8192 x 8192 bytes in 21 us (H200).
_NOMINAL_BYTES_A_CYCLE = 48.0
# The same of consumers in turn, whose loads do not pause for an epilogue: 128 x 128 with groups of
# four m tiles keep the tensor cores as busy as tiles that take fewer bytes (H100).
_TURNS_BYTES_A_CYCLE = 64.0
# Of the producer thread for a stage: 128 stages of a step and a group's weights in 16.3 us (H200).
_STAGE_CYCLES = 190.0
# Cycles of a scheduler for a warp's instruction: integer instructions of compute capability 9.0
# have half the throughput of packed arithmetic (CUDA C++ Programming Guide, Arithmetic
# Instructions).
_INTEGER_CYCLES, _PACKED_CYCLES = 2.0, 1.0
# A warp waits, loads, fences and starts products for so many cycles a step and row block.
_OTHER_CYCLES = 25.0
# The share of the products' time in which other instructions cost nothing: bfloat16 with bytes took
# 46 cycles more than float16 for a step of 64 x 112 results on an H200, of 64 that it has more.
_HIDDEN_SHARE = 0.4
# What a consumer waits for a step, and reads and widens a row block, the latter by a share of its
# issue cycles: from tiles of 112 x 256 and 128 x 128, of float16 and bfloat16 with bytes, on an
# H200 at 1.6 GHz.
_WAIT_CYCLES, _READ_CYCLES, _WIDEN_SHARE = 130.0, 165.0, 0.75
# Products of two row blocks in turn: float16 with itself, 77.5 us in four tiles of 128 x 216, and
# 81.1 in three of 256 x 144, which are as many cycles (H200).
_TWO_BLOCKS = 1.065
# Between a part's last store and its first addition in another block.
_HANDOVER_CYCLES = 2000.0
# The same where both are blocks of a cluster.
_CLUSTER_CYCLES = 800.0
# From a slice's store to the arrival of the residual of the one behind the next, a guess.
_RESIDUAL_CYCLES = 1500.0


def estimate(
    workload: FloatGemm, config: MixedConfig, target: Target, moved: int | None = None
) -> float:
    """Roughly the seconds: waves of tiles, each as long as its products, loads or conversions.

    moved: bytes through memory, the workload's own by default.
    Its constants are guesses from a few kernels on an H200; those of split reductions are guesses.
    """
    plan = MixedPlan(workload, config)
    step = step_cycles(plan, target)
    a_tile = 10 * config.block_m + 1500 + _residual_cycles(plan)
    clusters, grid = plan.clusters(target), plan.grid(target)
    part = 4 * config.block_m * config.block_n / _NOMINAL_BYTES_A_CYCLE
    if config.stream_k:
        tiles = plan.works / grid
        givers = grid / shared_tiles(plan.works, grid)
        cycles = tiles * plan.k_steps * step + (tiles + 1) * a_tile
        cycles += part + max(1.0, givers) * part + _HANDOVER_CYCLES
    else:
        share = math.ceil(plan.portions / config.split_k) / plan.portions
        if config.split_cluster:
            clusters = target.units_in_clusters(config.split_k)
        waves = math.ceil(plan.works * config.split_k / clusters)
        # What teams and those who take turns do beside products hides behind another's, but for
        # the last tile's.
        cycles = waves * share * plan.k_steps * step
        cycles += a_tile if config.teams > 1 or config.turns else waves * a_tile
        if config.split_cluster:
            cycles += part + _CLUSTER_CYCLES
        elif config.split_k > 1:
            cycles += config.split_k * part + _HANDOVER_CYCLES
    memory = (moved or workload.bytes) / target.memory_rate * target.clock_hz
    return max(cycles, memory) / target.clock_hz


def _residual_cycles(plan: MixedPlan) -> float:
    """Cycles of a tile in which a consumer waits for slices of the residual."""
    if not plan.workload.residual:
        return 0.0
    late = plan.config.row_blocks * plan.staging.slices - BUFFERS
    return _RESIDUAL_CYCLES * max(late, 0)


def step_cycles(plan: MixedPlan, target: Target) -> float:
    """Cycles of a tile's step along k."""
    config = plan.config
    products = product_cycles(plan, target) * (1.0 if config.row_blocks == 1 else _TWO_BLOCKS)
    exposed = max(0.0, issue_cycles(plan) - _HIDDEN_SHARE * products)
    # A consumer issues its products as fast as they run, and widens before or behind them.
    alone = products / config.row_team + _WAIT_CYCLES
    if plan.converts:
        alone += config.row_blocks * (_READ_CYCLES + _WIDEN_SHARE * widening_cycles(plan))
    loaded = config.x_bytes / config.cluster + config.blocks * plan.tile_bytes
    # A consumer waits, reads, widens and multiplies for so long, whatever the tile's width.
    latency = (90.0 + 220.0 / config.steps) * config.row_blocks / config.k_groups
    alone = min(alone / config.teams, 2.0 * products) if config.k_groups == 1 else 0.0
    if config.turns:  # of floats, whose next stage is waited for behind products that run
        alone = latency = 0.0
    rate = _TURNS_BYTES_A_CYCLE if config.turns else _NOMINAL_BYTES_A_CYCLE
    loads = max(loaded / rate, _STAGE_CYCLES / config.steps)
    return max(products + exposed, alone, loads, latency)


def product_cycles(plan: MixedPlan, target: Target) -> float:
    """Cycles of the tensor cores for a step."""
    rate = target.rate(plan.workload.in_dtype) / 2 / target.clock_hz / target.units
    return plan.config.block_m * plan.config.block_n * plan.step_k / rate


def issue_cycles(plan: MixedPlan) -> float:
    """Cycles of each scheduler for what a step takes beside its products."""
    config = plan.config
    if not plan.converts:
        return _OTHER_CYCLES * config.blocks
    cycles = widening_cycles(plan)
    if plan.groups is not None:
        sums_a_step = plan.groups.units / plan.groups.stages / config.steps
        cycles += sums_a_step * config.block_m / 2
    return (cycles + _OTHER_CYCLES) * config.blocks


def widening_cycles(plan: MixedPlan) -> float:
    """Cycles of a scheduler that widen 64 weight rows of a step."""
    integer, packed = plan.conversion.instructions
    # A thread widens 32 of them; four are counted.
    return 8 * (integer * _INTEGER_CYCLES + packed * _PACKED_CYCLES)


def features(
    workload: FloatGemm, config: MixedConfig, target: Target, moved: int | None = None
) -> dict[str, float]:
    """Features of a configuration for a cost model."""
    plan = MixedPlan(workload, config)
    waves = plan.works * config.split_k / plan.clusters(target)
    return {
        "works": float(plan.works),
        "waves": waves,
        "tail": 1.0 if config.stream_k else waves / math.ceil(waves),
        "tile": float(config.block_m * config.block_n),
        "smem_bytes": float(plan.smem_bytes),
        "bytes_in_flight": float(config.all_stages * plan.stage_bytes),
        "bytes_a_product": plan.stage_bytes / (config.block_m * config.block_n * config.steps),
        "issue_share": issue_cycles(plan) / product_cycles(plan, target),
        "seconds_estimate": estimate(workload, config, target, moved),
    }
