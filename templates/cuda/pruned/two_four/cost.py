"""Estimated time of a 2:4 sparse product's configuration, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.pruned.two_four.config import TwoFourTiling
from autoq.templates.hardware import SMEM_BYTES_A_CLOCK
from autoq.templates.target import Target

_L2_BYTES_A_CLOCK = 45.0
_PRODUCT_CLOCKS = 0.65
"""Of an instruction, for each of its columns, where all is there; the tensor cores take 0.54."""
_SHARED = 1.1
"""Of the time of what blocks load, where it comes to all blocks of a cluster."""
_VALUE_CLOCKS, _PASS_CLOCKS, _MEETING_CLOCKS = 0.06, 100.0, 1000.0
"""Of a multiprocessor for each output, for rows that pass together, and for a tile of a cluster."""
_BOXED = 0.75
"""Of these, where TMA copies rows meanwhile."""
_HALF = 0.65
"""Of the time of a tile, that of half of one: its weights are as many."""
_STAGE_LATENCY, _START_CLOCKS = 1500.0, 5000.0


def estimated_seconds(tiling: TwoFourTiling, target: Target) -> float:
    """Roughly the seconds: waves of tiles, each as long as what is slowest in it."""
    config, view = tiling.config, tiling.view
    clusters = target.units // config.cluster
    waves = -(-tiling.items // clusters)
    if config.halved:
        waves = tiling.items // clusters + _HALF
    products = tiling.steps * tiling.row_blocks
    fetched = tiling.x_stage_bytes / config.cluster + tiling.weight_stage_bytes
    stage = max(
        products * config.columns * _PRODUCT_CLOCKS,
        products * (64 * config.columns + 64 * 32) / SMEM_BYTES_A_CLOCK,
        fetched / _L2_BYTES_A_CLOCK * (_SHARED if config.cluster > 1 else 1),
        _STAGE_LATENCY / (config.stages - 1),
    )
    outputs = tiling.tile_rows * config.columns * _VALUE_CLOCKS * max(1, view.out_bytes / 2)
    outputs += config.blocks * config.columns / config.passing * _PASS_CLOCKS
    outputs *= _BOXED if config.boxed else 1
    outputs += _MEETING_CLOCKS if config.cluster > 1 else 0
    order = 1 + 0.002 * abs(config.group - 16) / 16
    return (_START_CLOCKS + waves * (tiling.k_stages * stage + outputs) * order) / target.clock_hz


def features(tiling: TwoFourTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    return {
        "waves": tiling.items * tiling.config.cluster / target.units,
        "smem_bytes": float(tiling.smem_bytes),
        "sums": float(tiling.sums),
        "threads": float(tiling.threads),
        "seconds_estimate": estimated_seconds(tiling, target),
    }
