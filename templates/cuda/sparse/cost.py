"""Estimated time of a panel kernel's configuration, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.sparse.config import PanelTiling
from autoq.templates.target import Target

# Guessed from counts of instructions and from the times of a first kernel on an H200.
_ISSUES_A_CLOCK = 2.4
_STEP_INSTRUCTIONS = 22
"""Of a warp and step, whatever the columns are: loads of the vectors, addresses, the loop."""
_COLUMN_INSTRUCTIONS = 1.1
"""Of a warp and step for each column and digit of b: gathers, turns and products."""
_GROUP_INSTRUCTIONS = 60
_L2_BYTES_A_CLOCK = 24.0
"""That reach a multiprocessor."""
_SMEM_BYTES_A_CLOCK = 70.0
_STEP_CLOCKS = 260.0
"""From a warp's step to its next one where nothing else limits it, one step read ahead."""
_START_CLOCKS = 2500.0
_PLACE_BYTES, _VALUE_BYTES = 128, 256
_CLOCK = 1.75e9


def estimated_seconds(tiling: PanelTiling, target: Target) -> float:
    """Roughly the seconds: waves of blocks, each as long as what is slowest in it."""
    config, workload = tiling.config, tiling.workload
    resident = max(1, tiling.resident(target))
    here = min(resident, -(-tiling.blocks // target.units))
    waves = -(-tiling.blocks // (target.units * here))
    steps = tiling.steps / config.parts
    gathered = steps * 32 * tiling.row_bytes
    issue = steps * (_STEP_INSTRUCTIONS + _COLUMN_INSTRUCTIONS * tiling.row_bytes)
    issue += tiling.groups / config.parts * _GROUP_INSTRUCTIONS * config.columns / 32
    bytes_read = steps * (_PLACE_BYTES + _VALUE_BYTES * tiling.left_digits)
    shared = 0.0
    if config.staged:
        bytes_read += tiling.panel_bytes
        shared = (gathered + tiling.panel_bytes) / _SMEM_BYTES_A_CLOCK
    else:
        bytes_read += 1.5 * gathered
    latency = steps / config.warps * _STEP_CLOCKS / min(config.prefetch, 2)
    busy = max(issue / _ISSUES_A_CLOCK, bytes_read / _L2_BYTES_A_CLOCK, shared)
    clocks = _START_CLOCKS + waves * (max(here * busy, latency) + tiling.panel_bytes / 64)
    return max(clocks / _CLOCK, workload.bytes / target.memory_rate)


def features(tiling: PanelTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    resident = max(1, tiling.resident(target))
    return {
        "blocks": float(tiling.blocks),
        "waves": tiling.blocks / (target.units * resident),
        "resident": float(resident),
        "smem_bytes": float(tiling.smem_bytes),
        "registers": float(tiling.registers),
        "steps_a_warp": tiling.steps / (tiling.config.parts * tiling.config.warps),
        "estimate": estimated_seconds(tiling, target),
    }
