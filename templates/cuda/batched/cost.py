"""What a configuration of a batched product on wgmma takes: registers, blocks at once, and time."""

from __future__ import annotations

from autoq.templates.cuda.batched.config import BatchedWgmmaConfig
from autoq.templates.cuda.batched.plan import BatchedWgmmaPlan
from autoq.templates.cuda.device.launch.occupancy import blocks_together, wave_features
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.hardware import L2_BYTES_A_CLOCK
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

# Addresses, scales and what the epilogue takes beside accumulators and fragments: of floats, of
# bytes, and of sums of bytes that go on over several steps.
_FLOATS, _BYTES, _SUMS = 28, 32, 6
# Of one multiprocessor, guesses but for the instructions, which are counted: of an output of bytes
# and of floats through boxes, and what more one takes whose rows lie one behind the other.
_STORED_BYTES_A_CLOCK = 20.0
_QUANTISING, _SCALING, _SCATTERING = 7.0, 4.0, 2.5
_LANES = 128
_BLOCK_CLOCKS, _STEP_CLOCKS, _LAUNCH_CLOCKS = 2600.0, 150.0, 2500.0


def registers(plan: BatchedWgmmaPlan, target: Target) -> int:
    """Estimate of the registers a thread needs."""
    fragments = plan.line // 32 * 4 * min(2, plan.steps)
    others = _FLOATS if plan.workload.floating else _BYTES + (_SUMS if plan.steps > 1 else 0)
    return plan.config.rows // 2 + fragments + others


def resident(plan: BatchedWgmmaPlan) -> int:
    """Blocks that share a multiprocessor, as far as there are so many."""
    return blocks_together(plan, registers(plan, plan.target), plan.target)


def busy_clocks(plan: BatchedWgmmaPlan) -> float:
    """Clocks that a block keeps the busiest part of its multiprocessor."""
    config, work, target = plan.config, plan.workload, plan.target
    rate = target.rate(work.in_dtype) / 2 / target.units / target.clock_hz
    tile = config.block_m * config.block_n
    own = _SCALING if work.floating else _QUANTISING
    if not plan.boxes:
        own += _SCATTERING
    return max(
        tile * plan.steps * plan.step_k / rate,
        plan.steps * plan.stage_bytes / L2_BYTES_A_CLOCK,
        tile * plan.out_size / _STORED_BYTES_A_CLOCK,
        tile * own / _LANES,
    )


def estimate(workload: BatchedGemm, config: BatchedWgmmaConfig, target: Target) -> float:
    """Roughly the seconds, of the multiprocessor that has most blocks."""
    plan = BatchedWgmmaPlan(workload, config, target)
    blocks = ceil_div(plan.blocks, target.units)
    rounds = ceil_div(blocks, resident(plan))
    latency = rounds * (_BLOCK_CLOCKS + plan.steps * _STEP_CLOCKS)
    clocks = _LAUNCH_CLOCKS + latency + blocks * busy_clocks(plan)
    return max(clocks / target.clock_hz, workload.bytes / target.memory_rate)


def features(
    workload: BatchedGemm, config: BatchedWgmmaConfig, target: Target
) -> dict[str, float]:  # fmt: skip
    """Features of a configuration for a cost model."""
    plan = BatchedWgmmaPlan(workload, config, target)
    together = resident(plan)
    tiles = plan.tiles_m * config.block_m * plan.tiles_n * config.block_n
    return {
        **wave_features(plan.blocks, together, target),
        "warpgroups": float(config.warpgroups * together),
        "tile": float(config.block_m * config.block_n),
        "smem_bytes": float(plan.smem_bytes),
        "registers": float(registers(plan, target)),
        "steps": float(plan.steps),
        "useful": workload.m * workload.n / tiles,
        "busy": busy_clocks(plan),
        "seconds_estimate": estimate(workload, config, target),
    }
