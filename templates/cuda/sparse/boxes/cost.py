"""Estimated time of a configuration of products over boxes, and features for models."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoq.templates.cuda.device.turned.row_steps import DEPTH, STAGE_K, window_stages
from autoq.templates.cuda.sparse.boxes.config import BoxesTiling
from autoq.templates.target import Target

# Of a multiprocessor, a clock.
_FED_BYTES = 55.0
"""Bytes that arrive, of boxes that neighbours ask for at once."""
_SMEM_BYTES = 128.0
_OUTPUTS_A_CLOCK = 11.3
_ARRIVAL_CLOCKS = 900.0
"""Clocks from asking for a stage until it is there, which free stages of a ring share."""
_SLACK = 1.25
"""Times the rows of a stage of vectors that wait until it is put together."""
_PIECE_CLOCKS, _START_CLOCKS = 3300.0, 3600.0
"""Clocks of a piece of work besides its products and outputs, and of a launch."""
_STEP_CLOCKS, _TEAM_CLOCKS = 3000.0, 3500.0
"""More of a piece whose fragments are those of one step, and for each further team of a side."""
_BESIDE = 6.0
"""Copies and products beside each other take the sum of such powers."""


def estimated_seconds(tiling: BoxesTiling, target: Target) -> float:
    """Roughly the seconds: rounds of pieces of work, each of copies and products at once."""
    config, workload = tiling.config, tiling.workload
    blocks = tiling.blocks(target)
    whole = _piece_clocks(tiling, config.sides)
    if config.parted:
        clocks = tiling.items // blocks * whole + _piece_clocks(tiling, 1)
    else:
        clocks = math.ceil(tiling.items / blocks) * whole
    clocks += _START_CLOCKS
    return max(clocks / target.clock_hz, workload.bytes / target.memory_rate)


def _piece_clocks(tiling: BoxesTiling, sides: int) -> float:
    """Clocks of a piece of work of so many sides."""
    config, workload = tiling.config, tiling.workload
    mean = max(1.0, workload.structure.blocks / workload.vector_rows)
    stages = math.ceil(mean / tiling.block_rows)
    fed = tiling.k_stages * tiling.b_stage_bytes + sides * stages * tiling.packed_bytes
    held = 1.5 + _SLACK * tiling.block_rows * workload.k / (mean * STAGE_K)
    free = max(1.0, config.b_stages - min(held, window_stages(config.b_stages)))
    copied = max(
        fed / _FED_BYTES,
        tiling.k_stages * _ARRIVAL_CLOCKS / free,
        stages * _ARRIVAL_CLOCKS / (config.stages - 1),
    )
    products = DEPTH * stages * sides * config.teams * config.tiles
    tensor = products * workload.vector / 2
    moved = fed + products * (64 * 32 + 32 * workload.vector)
    multiplied = max(tensor, moved / _SMEM_BYTES) + _PIECE_CLOCKS
    multiplied += sides * workload.vector * tiling.columns / _OUTPUTS_A_CLOCK
    multiplied += _STEP_CLOCKS * (config.fragments < 2 * DEPTH)
    multiplied += _TEAM_CLOCKS * (config.teams - 1) * (config.sides > 1)
    return float((copied**_BESIDE + multiplied**_BESIDE) ** (1 / _BESIDE))


def features(tiling: BoxesTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    return {
        "blocks": float(tiling.blocks(target)),
        "rounds": tiling.items / tiling.blocks(target),
        "smem_bytes": float(tiling.smem_bytes),
        "registers": float(tiling.registers),
        "columns": float(tiling.columns),
        "seconds_estimate": estimated_seconds(tiling, target),
    }
