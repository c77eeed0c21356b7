"""Estimated time of the fused kernel's configurations."""

from __future__ import annotations

from autoq.templates.cuda.sparse_attention.config import STEP, FusedTiling
from autoq.templates.target import Target

_STEP_CLOCKS = 75.0
"""Clocks of a multiprocessor for a step of one group: counted instructions, half of them idle."""
_PLANE_CLOCKS = 25.0
"""More for the second byte of shares."""
_TIME_CLOCKS, _BARRIER_CLOCKS = 8.0, 400.0
"""Clocks of a group and of a block, for each block of keys."""
_L2_BYTES_A_CLOCK = 24.0
"""Bytes from the L2 that reach a multiprocessor."""
_WARPS = 16
"""Warps of a multiprocessor that hide each other's latencies."""
_START_CLOCKS = 4000.0


def estimated_seconds(tiling: FusedTiling, target: Target) -> float:
    """Roughly the seconds: waves of blocks, as long as steps or keys take, and quantisation."""
    workload, config = tiling.workload, tiling.config
    resident = max(1, tiling.resident(target))
    here = min(resident, -(-tiling.blocks // target.units))
    waves = -(-tiling.blocks // (target.units * here))
    # A window of one block leaves a step of each of them half empty.
    ragged = tiling.key_blocks if tiling.window == 1 else 1
    steps = workload.structure.blocks / STEP / workload.groups + 0.5 * ragged
    step = _STEP_CLOCKS + _PLANE_CLOCKS * (tiling.planes - 1)
    going = tiling.of_block * (steps * step * tiling.wide / 64 + tiling.key_blocks * _TIME_CLOCKS)
    going = here * going * max(1.0, _WARPS / (here * config.warps))
    going += tiling.key_blocks * _BARRIER_CLOCKS
    loading = here * tiling.padded_keys * tiling.row_bytes / _L2_BYTES_A_CLOCK
    clocks = waves * (max(going, loading) + 0.25 * min(going, loading)) + _START_CLOCKS
    return clocks / target.clock_hz + 2 * workload.bytes / target.memory_rate
