"""Estimated time of a configuration of products over boxes, and features for models."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoq.templates.cuda.device.turned.row_steps import DEPTH
from autoq.templates.cuda.sparse.boxes.config import BoxesTiling
from autoq.templates.target import Target

# Of a multiprocessor, a clock.
_FED_BYTES, _SHARED_FED_BYTES = 47.0, 60.0
"""Bytes that arrive, alone and where blocks of a cluster share boxes."""
_SMEM_BYTES = 128.0
_OUTPUTS_A_CLOCK = 22.0
_LEAST_PRODUCT = 16.0
_FULL = 0.9
"""The share of the places of instructions that have a row."""
_START_CLOCKS, _ITEM_CLOCKS = 3600.0, 1500.0
_BESIDE = 3.0
"""Copies and products beside each other take the sum of such powers."""


def estimated_seconds(tiling: BoxesTiling, target: Target) -> float:
    """Roughly the seconds: rounds of pieces of work, each of copies and products at once."""
    config, workload = tiling.config, tiling.workload
    clusters = tiling.clusters(target)
    out = config.sides * workload.vector * tiling.columns / _OUTPUTS_A_CLOCK + _ITEM_CLOCKS
    if config.parted:
        rounds = tiling.items // clusters * _piece_clocks(tiling, config.sides)
        rounds += _piece_clocks(tiling, 1)
    else:
        rounds = math.ceil(tiling.items / clusters) * _piece_clocks(tiling, config.sides)
    clocks = rounds + out + _START_CLOCKS
    return max(clocks / target.clock_hz, workload.bytes / target.memory_rate)


def _piece_clocks(tiling: BoxesTiling, sides: int) -> float:
    """Clocks of a piece of work of so many sides."""
    config, workload = tiling.config, tiling.workload
    mean = workload.structure.blocks / workload.vector_rows
    stages = math.ceil(mean / (_FULL * tiling.block_rows))
    fed = tiling.k_stages * tiling.b_stage_bytes + sides * stages * tiling.packed_bytes
    copied = fed / (_SHARED_FED_BYTES if config.cluster > 1 else _FED_BYTES)
    products = DEPTH * stages * sides * config.teams * config.tiles
    tensor = products * max(_LEAST_PRODUCT, workload.vector / 2)
    moved = fed + products * (64 * 32 + 32 * workload.vector)
    multiplied = max(tensor, moved / _SMEM_BYTES)
    out = sides * workload.vector * tiling.columns / _OUTPUTS_A_CLOCK + _ITEM_CLOCKS
    return float((copied**_BESIDE + (multiplied + out) ** _BESIDE) ** (1 / _BESIDE))


def features(tiling: BoxesTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    return {
        "blocks": float(tiling.clusters(target) * tiling.config.cluster),
        "rounds": tiling.items / tiling.clusters(target),
        "smem_bytes": float(tiling.smem_bytes),
        "registers": float(tiling.registers),
        "columns": float(tiling.columns),
        "estimate": estimated_seconds(tiling, target),
    }
