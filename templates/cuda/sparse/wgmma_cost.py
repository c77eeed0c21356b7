"""Estimated time of a configuration of the kernel of long vectors, and features for models."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoq.templates.cuda.sparse.wgmma_config import DEPTH, TEAM_COLUMNS, LongTiling
from autoq.templates.target import Target

# Rates of an H200's multiprocessor, a clock.
_SMEM_BYTES = 128.0
_L2_BYTES_A_CLOCK = 40.0
_GATHERED_BYTES_A_CLOCK = 24.0
_LEAST_PRODUCT = 16.0
"""Clocks of an instruction however narrow."""
_ARRIVAL_CLOCKS = 2000.0
"""From asking for a stage until it is there, among all others that ask."""
_UNEVEN = 0.2
"""Of that time a stage, which a longer ring makes up for; twice as much of a ring of two."""
_ROUND_CLOCKS, _MEETING_CLOCKS = 100.0, 120.0
"""Of a stage besides, and for each other block of a cluster that it waits for."""
_SINGLE_SHARE = 0.06
"""Of a stage, longer where fragments are turned one instruction's at a time."""
_HALF_STAGE = 0.5
"""That one side waits for the other where a tile ends: less of smaller stages."""
_OUTPUTS_A_CLOCK = 8.0
_START_CLOCKS = 2500.0
_NEXT_TILE_CLOCKS = 800.0
"""Until the places of a tile's rows are there."""
_NOMINAL_CLOCK = 1.75e9


def estimated_seconds(tiling: LongTiling, target: Target) -> float:
    """Roughly the seconds: waves of blocks, each as long as what is slowest in it."""
    config, workload = tiling.config, tiling.workload
    here = min(config.blocks_per_unit, -(-tiling.tiles_of_y // target.units))
    units = target.units_in_clusters(config.cluster)
    waves = max(1.0, tiling.tiles_of_y / (units * here))
    stages = tiling.steps / workload.vector_rows
    products = config.teams * config.tiles * config.rows // DEPTH * tiling.value_size
    products *= tiling.left_digits
    tensor = products * max(_LEAST_PRODUCT, workload.vector / 2)
    gathered = config.rows * tiling.row_bytes
    shared = 2 * gathered + tiling.value_bytes + products * workload.vector * DEPTH
    fetched = gathered + tiling.value_bytes / config.cluster
    gathering = gathered / _GATHERED_BYTES_A_CLOCK * (1 + 0.05 * config.bulk)
    moved = max(shared / _SMEM_BYTES, fetched / _L2_BYTES_A_CLOCK, gathering)
    busy = here * max(tensor, moved)
    latency = _ARRIVAL_CLOCKS / max(1, config.stages - 1)
    uneven = _UNEVEN * (2 if config.stages == 2 else 1)
    stage = max(busy, latency) + uneven * latency + _ROUND_CLOCKS
    stage *= 1 if config.whole_stages else 1 + _SINGLE_SHARE
    stage += _MEETING_CLOCKS * (config.cluster - 1)
    out = here * workload.vector * tiling.columns / _OUTPUTS_A_CLOCK
    if config.persistent:  # copies go on meanwhile, products do not
        copied = (stages + _HALF_STAGE) * stage + _NEXT_TILE_CLOCKS
        finished = (stages + _HALF_STAGE) * (here * tensor + _ROUND_CLOCKS) + out
        whole = math.ceil(waves) * max(copied, finished) + out + _ARRIVAL_CLOCKS
    else:
        whole = waves * (stages * stage + out + _ARRIVAL_CLOCKS)
    clocks = whole + _START_CLOCKS
    return max(clocks / _NOMINAL_CLOCK, workload.bytes / target.memory_rate)


def features(tiling: LongTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    return {
        "blocks": float(tiling.blocks(target)),
        "waves": tiling.tiles_of_y / (target.units * tiling.config.blocks_per_unit),
        "smem_bytes": float(tiling.smem_bytes),
        "registers": float(tiling.registers),
        "columns": float(TEAM_COLUMNS * tiling.config.teams * tiling.config.tiles),
        "estimate": estimated_seconds(tiling, target),
    }
