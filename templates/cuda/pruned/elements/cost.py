"""Estimated time of a product with single weights, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.pruned.elements.config import UNIT, UNIT_BYTES, ElementsTiling
from autoq.templates.hardware import L2_BYTES_A_CLOCK, SMEM_BYTES_A_CLOCK
from autoq.templates.target import Target

_STEP_INSTRUCTIONS = {1: 120.0, 2: 76.0, 4: 36.0}
"""Instructions of a lane for four weights, by the bytes of a value; those at half the rate count
twice."""
_ISSUED_A_CLOCK = 4.0
_RUN_CLOCKS = 60.0
_OUTPUT_CLOCKS = 0.5


def estimated_seconds(tiling: ElementsTiling, target: Target) -> float:
    """Roughly the seconds: chunks, steps and outputs of a block, times the turns of blocks."""
    config, view = tiling.config, tiling.view
    resident = max(1, tiling.resident(target))
    blocks = tiling.row_tiles * tiling.column_tiles
    share = min(1.0, tiling.columns / view.n)
    runs = tiling.chunks * tiling.columns
    weights = tiling.structure.blocks * share
    # Groups of a warp wait for the longest of their runs.
    mean = weights / runs
    uneven = 1 + (0.3 if config.lanes < 32 else 0.0) / max(1.0, mean) ** 0.5
    steps = (weights / UNIT + 0.375 * min(weights, runs)) * uneven
    warp_steps = steps * config.lanes / 32
    issue = warp_steps * _STEP_INSTRUCTIONS[view.value.bytes] / _ISSUED_A_CLOCK
    moved = steps * UNIT * config.lanes * UNIT_BYTES / SMEM_BYTES_A_CLOCK
    waits = runs * config.lanes / 32 * _RUN_CLOCKS / (config.warps * resident)
    chunks = view.k * tiling.row_bytes / L2_BYTES_A_CLOCK
    outputs = tiling.rows * tiling.columns * _OUTPUT_CLOCKS
    hidden = 1.0 if resident == 1 else 0.6
    clocks = max(issue, moved) + waits + (chunks + outputs) * hidden
    turns = -(-blocks // (target.units * resident)) * resident
    turning = 2 * view.m * view.k * view.value.bytes / target.memory_rate
    return turning + turns * clocks / target.clock_hz


def features(tiling: ElementsTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    resident = max(1, tiling.resident(target))
    return {
        "waves": tiling.row_tiles * tiling.column_tiles / (target.units * resident),
        "smem_bytes": float(tiling.smem_bytes),
        "sums": float(tiling.sums),
        "runs": float(tiling.runs),
        "seconds_estimate": estimated_seconds(tiling, target),
    }
