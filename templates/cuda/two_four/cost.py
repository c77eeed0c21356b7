"""Estimated time of a 2:4 sparse product's configuration, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.two_four.config import TwoFourTiling
from autoq.templates.target import Target

_SMEM_BYTES_A_CLOCK, _L2_BYTES_A_CLOCK = 128.0, 48.0
_PRODUCT_CLOCKS = 0.54
"""Of an instruction, for each of its columns."""
_VALUE_CLOCKS = 0.12
"""Of a multiprocessor for each output."""
_STAGE_LATENCY, _START_CLOCKS = 700.0, 5000.0
_CLOCK = 1.7e9


def estimated_seconds(tiling: TwoFourTiling, target: Target) -> float:
    """Roughly the seconds: waves of tiles, each as long as what is slowest in it."""
    config, view = tiling.config, tiling.view
    waves = -(-tiling.items // (target.units // config.cluster))
    products = tiling.steps * tiling.row_blocks
    fetched = tiling.x_stage_bytes / config.cluster + tiling.weight_stage_bytes
    staged = tiling.x_stage_bytes + tiling.weight_stage_bytes
    read = products * (64 * config.columns + 64 * 32)
    stage = max(
        products * config.columns * _PRODUCT_CLOCKS,
        (staged + read) / _SMEM_BYTES_A_CLOCK,
        fetched / _L2_BYTES_A_CLOCK,
        _STAGE_LATENCY / config.stages,
    )
    outputs = tiling.tile_rows * config.columns * _VALUE_CLOCKS * max(1, view.out_bytes / 2)
    order = 1 + 0.002 * abs(config.group - 16) / 16
    return (_START_CLOCKS + waves * (tiling.k_stages * stage + outputs) * order) / _CLOCK


def features(tiling: TwoFourTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    return {
        "waves": tiling.items * tiling.config.cluster / target.units,
        "smem_bytes": float(tiling.smem_bytes),
        "sums": float(tiling.sums),
        "threads": float(tiling.threads),
        "estimate": estimated_seconds(tiling, target),
    }
