"""Estimated time of a configuration of the kernel of long vectors, and features for models."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoq.templates.cuda.sparse.wgmma_config import DEPTH, TEAM_COLUMNS, LongTiling
from autoq.templates.target import Target

# Of a multiprocessor, a clock.
_SMEM_BYTES = 128.0
_L2_BYTES_A_CLOCK = 40.0
_PIECE_BYTES_A_CLOCK = 20.0
"""Of gathered rows that threads copy, 16 bytes each."""
_BULK_CLOCKS = 200.0
"""Of a gathered row by a bulk copy."""
_LEAST_PRODUCT = 16.0
"""Clocks of an instruction however narrow."""
_ARRIVAL_CLOCKS = 1600.0
"""From asking for a stage until it is there, among all others that ask."""
_UNEVEN = 0.1
"""Of that time a stage, which a longer ring makes up for."""
_ROUND_CLOCKS, _MEETING_CLOCKS = 12.0, 60.0
"""Of a stage besides, and for each other block of a cluster that it waits for."""
_SINGLE_SHARE = 0.12
"""Of a stage's products, longer where fragments are turned one instruction's at a time."""
_OUTPUTS_A_CLOCK = 19.0
_TILE_CLOCKS = 3400.0
"""Of products that begin and end with a tile, on each side."""
_START_CLOCKS = 1000.0
_STREAMED_SHARE = 0.02
"""Of the time, less where outputs leave the L2, which what is read again has for itself."""
_BESIDE = 2.5
"""Copies and products beside each other take the sum of such powers."""
_NOMINAL_CLOCK = 1.75e9


def estimated_seconds(tiling: LongTiling, target: Target) -> float:
    """Roughly the seconds: waves of blocks, each of copies and products beside each other."""
    config, workload = tiling.config, tiling.workload
    here = min(config.blocks_per_unit, -(-tiling.tiles_of_y // target.units))
    units = target.units_in_clusters(config.cluster)
    waves = max(1.0, tiling.tiles_of_y / (units * here))
    stages = tiling.steps / workload.vector_rows
    copied, multiplied = here * _copy_clocks(tiling), here * _product_clocks(tiling)
    latency = _ARRIVAL_CLOCKS / max(1, config.stages - 1)
    copied = max(copied, latency) + _UNEVEN * latency
    out = here * workload.vector * tiling.columns / _OUTPUTS_A_CLOCK + _TILE_CLOCKS
    if config.persistent:  # copies go on while outputs are finished
        tile = _beside(stages * copied, stages * multiplied + out)
        whole = math.ceil(waves) * tile + out
    else:
        tile = _beside(stages * copied, stages * multiplied) + out + _ARRIVAL_CLOCKS
        whole = waves * tile
    clocks = (whole + _START_CLOCKS) * (1 - _STREAMED_SHARE * config.streamed)
    return max(clocks / _NOMINAL_CLOCK, workload.bytes / target.memory_rate)


def _copy_clocks(tiling: LongTiling) -> float:
    """Of a stage, by what is slowest of its ways to shared memory."""
    config = tiling.config
    by_bulk = config.bulk / 4 * config.rows
    gathered = config.rows * tiling.row_bytes
    fetched = gathered + tiling.value_bytes / config.cluster
    clocks = max(
        (config.rows - by_bulk) * tiling.row_bytes / _PIECE_BYTES_A_CLOCK,
        by_bulk * _BULK_CLOCKS,
        fetched / _L2_BYTES_A_CLOCK,
    )
    return clocks + _MEETING_CLOCKS * (config.cluster - 1)


def _product_clocks(tiling: LongTiling) -> float:
    """Of a stage, of its instructions or of what they move in shared memory."""
    config, workload = tiling.config, tiling.workload
    products = config.teams * config.tiles * config.rows // DEPTH * tiling.value_size
    products *= tiling.left_digits
    tensor = products * max(_LEAST_PRODUCT, workload.vector / 2)
    moved = 2 * config.rows * tiling.row_bytes + tiling.value_bytes
    moved += products * workload.vector * DEPTH
    single = 0.0 if config.whole_stages else _SINGLE_SHARE
    return max(tensor, moved / _SMEM_BYTES) * (1 + single) + _ROUND_CLOCKS


def _beside(copied: float, multiplied: float) -> float:
    return float((copied**_BESIDE + multiplied**_BESIDE) ** (1 / _BESIDE))


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
