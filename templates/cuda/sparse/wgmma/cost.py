"""Estimated time of a configuration of the kernel of long vectors, and features for models."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoq.templates.cuda.sparse.wgmma.config import DEPTH, TEAM_COLUMNS, LongTiling
from autoq.templates.target import Target

# Of a multiprocessor, a clock.
_SMEM_BYTES = 128.0
_L2_BYTES_A_CLOCK = 46.0
_GATHERED_BYTES_A_CLOCK, _BULK_BYTES_A_CLOCK = 21.7, 29.0
"""Bytes of rows of b, by pieces of 16 bytes and by bulk copies."""
_BULK_COPY = 13.5
"""Clocks of a bulk copy, however few its bytes are."""
_LEAST_STAGE = 380.0
"""Clocks of a stage however few its rows are."""
_BULK_CLOCKS = 90.0
"""Clocks besides of a stage whose rows come by bulk copies."""
_LEAST_PRODUCT = 16.0
"""Clocks of an instruction however narrow."""
_ARRIVAL_CLOCKS = 1750.0
"""Clocks from asking for a stage until it begins to come, among all others that ask."""
_UNEVEN = 0.08
"""The share of that time that a stage is late, which a longer ring makes up for."""
_ROUND_CLOCKS, _MEETING_CLOCKS = 5.0, 260.0
"""Clocks of a stage besides, and for each other block of a cluster that it waits for."""
_SINGLE_SHARE = 0.1
"""The share by which products take longer where one instruction's fragments are turned at a
time."""
_OUTPUTS_A_CLOCK = 22.0
_TILE_CLOCKS, _TAIL_STAGES, _SINGLE_TAIL = 2400.0, 0.9, 0.3
"""Of products that begin and end with a tile, whatever its stages, in these, and of the latter what
is left where fragments are turned one instruction's at a time."""
_START_CLOCKS = 1800.0
_STREAMED_SHARE = 0.03
"""The share of the time saved where outputs leave the L2 to what is read again."""
_BESIDE = 2.36
"""Copies and products beside each other take the sum of such powers."""


def estimated_seconds(tiling: LongTiling, target: Target) -> float:
    """Roughly the seconds: waves of blocks, each of copies and products beside each other."""
    config, workload = tiling.config, tiling.workload
    here = min(config.blocks_per_unit, -(-tiling.tiles_of_y // target.units))
    units = target.units_in_clusters(config.cluster)
    waves = max(1.0, tiling.tiles_of_y / (units * here))
    stages = tiling.steps / workload.vector_rows
    copied, multiplied = here * _copy_clocks(tiling), here * _product_clocks(tiling)
    latency = (_ARRIVAL_CLOCKS + copied) / max(1, config.stages - 1)
    copied = max(copied, latency) + _UNEVEN * latency
    out = here * workload.vector * tiling.columns / _OUTPUTS_A_CLOCK + _TILE_CLOCKS
    tail = _TAIL_STAGES * (1.0 if config.whole_stages else _SINGLE_TAIL)
    out += tail * (copied + multiplied)
    if config.persistent:  # copies go on while outputs are finished
        tile = _beside(stages * copied, stages * multiplied + out)
        whole = math.ceil(waves) * tile + out
    else:
        tile = _beside(stages * copied, stages * multiplied) + out + _ARRIVAL_CLOCKS
        whole = waves * tile
    clocks = (whole + _START_CLOCKS) * (1 - _STREAMED_SHARE * config.streamed)
    return max(clocks / target.clock_hz, workload.bytes / target.memory_rate)


def _copy_clocks(tiling: LongTiling) -> float:
    """Clocks of a stage's copies, by what is slowest of its ways to shared memory."""
    config = tiling.config
    gathered = config.rows * tiling.row_bytes
    fetched = gathered + tiling.value_bytes / config.cluster
    gathering = max(_LEAST_STAGE, gathered / _GATHERED_BYTES_A_CLOCK)
    if config.bulk:
        gathering = max(_BULK_COPY * config.rows, gathered / _BULK_BYTES_A_CLOCK)
    clocks = max(gathering, fetched / _L2_BYTES_A_CLOCK)
    clocks += _BULK_CLOCKS if config.bulk else 0.0
    return clocks + _MEETING_CLOCKS * (config.cluster - 1)


def _product_clocks(tiling: LongTiling) -> float:
    """Clocks of a stage's products, by instructions or by what they move in shared memory."""
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
        "seconds_estimate": estimated_seconds(tiling, target),
    }
