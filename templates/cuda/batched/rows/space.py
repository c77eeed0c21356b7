"""The space of a batched product with x from registers, and what a configuration takes."""

from __future__ import annotations

from collections.abc import Callable

from autoq.search.space import Space
from autoq.templates.cuda.batched.rows.config import WARPGROUP_ROWS, BatchedRowsConfig
from autoq.templates.cuda.batched.rows.plan import BatchedRowsPlan
from autoq.templates.cuda.device.launch.occupancy import (
    blocks_together,
    resource_rules,
    thread_rule,
    wave_features,
)
from autoq.templates.cuda.device.planned_space import least, planned_space
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.hardware import L2_BYTES_A_CLOCK
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

Rule = Callable[[BatchedRowsConfig], bool]

# Addresses, scales and the epilogue beside accumulators and fragments.
_OTHERS = 36
# Of one multiprocessor, guesses but for the instructions, which are counted: of a warp, those
# beside tiles of k and outputs; of a warp's tile of k, of turning 16 columns of one, of an output.
_SCHEDULERS = 4
_WARP, _FRAGMENT, _TURNING, _QUANTISING = 220.0, 12.0, 12.0, 5.0
_BLOCK_CLOCKS, _LAUNCH_CLOCKS = 2500.0, 2500.0


def space(workload: BatchedGemm, target: Target) -> Space[BatchedRowsConfig]:
    """Warpgroups and blocks of a multiprocessor that compile for the target."""

    def rules(plan_of: Callable[[BatchedRowsConfig], BatchedRowsPlan]) -> list[Rule]:
        def warpgroups_are_used(config: BatchedRowsConfig) -> bool:
            """There are as many tiles as a block has warpgroups."""
            return config.row_groups <= plan_of(config).tiles

        resources = resource_rules(plan_of, registers, target)
        return [warpgroups_are_used, *resources, thread_rule(target)]

    return planned_space(
        BatchedRowsConfig,
        {"row_groups": (1, 2, 3, 4), "blocks_per_sm": (1, 2, 3, 4, 5, 6)},
        lambda config: BatchedRowsPlan(workload, config, target),
        rules,
        lambda config: features(workload, config, target),
    )


def default(workload: BatchedGemm, target: Target) -> BatchedRowsConfig:
    """The legal configuration of least estimated time, with room for one block."""
    legal = space(workload, target)
    candidates = [BatchedRowsConfig(groups, 1) for groups in (1, 2, 3, 4)]
    return least(legal, candidates, lambda config: estimate(workload, config, target))


def registers(plan: BatchedRowsPlan, target: Target) -> int:
    """Estimate of the registers a thread needs."""
    return plan.workload.n // 2 + 4 * plan.tiles_k + _OTHERS


def resident(plan: BatchedRowsPlan) -> int:
    """Blocks that share a multiprocessor, as far as there are so many."""
    return blocks_together(plan, registers(plan, plan.target), plan.target)


def busy_clocks(plan: BatchedRowsPlan) -> float:
    """Clocks that a block keeps the busiest part of its multiprocessor."""
    config, work = plan.config, plan.workload
    pairs = max(1.0, config.row_groups / plan.tiles_m)
    turning = pairs * plan.tiles_k * plan.groups * _TURNING
    rows = min(WARPGROUP_ROWS, work.m) * config.row_groups
    warps = ceil_div(rows, 16)
    own = _WARP + plan.tiles_k * _FRAGMENT + work.n / 2 * _QUANTISING
    loaded = rows * work.k + pairs * work.k * work.n
    return max((turning + warps * own) / _SCHEDULERS, loaded / L2_BYTES_A_CLOCK)


def estimate(workload: BatchedGemm, config: BatchedRowsConfig, target: Target) -> float:
    """Roughly the seconds, of the multiprocessor that has most blocks."""
    plan = BatchedRowsPlan(workload, config, target)
    blocks = ceil_div(plan.blocks, target.units)
    rounds = ceil_div(blocks, resident(plan))
    clocks = _LAUNCH_CLOCKS + rounds * _BLOCK_CLOCKS + blocks * busy_clocks(plan)
    return max(clocks / target.clock_hz, workload.bytes / target.memory_rate)


def features(
    workload: BatchedGemm, config: BatchedRowsConfig, target: Target
) -> dict[str, float]:  # fmt: skip
    """Features of a configuration for a cost model."""
    plan = BatchedRowsPlan(workload, config, target)
    together = resident(plan)
    return {
        **wave_features(plan.blocks, together, target),
        "warpgroups": float(config.row_groups * together),
        "smem_bytes": float(plan.smem_bytes),
        "registers": float(registers(plan, target)),
        "useful": workload.m / (plan.tiles_m * WARPGROUP_ROWS),
        "busy": busy_clocks(plan),
        "seconds_estimate": estimate(workload, config, target),
    }
