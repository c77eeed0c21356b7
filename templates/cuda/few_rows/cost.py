"""Estimated time of a product of few rows, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.arrays.element import element
from autoq.templates.cuda.few_rows.config import PIECE_BYTES, FewRowsTiling
from autoq.templates.target import Target

_START_SECONDS, _FINISH_SECONDS = 2.0e-6, 1.0e-6
"""Of a launch that has nearly nothing to do, and of the last block that adds what others gave."""
_LATENCY_SECONDS = 0.9e-6
"""From asking for weights until they are there, while memory is busy."""
_MEMORY_SHARE = 0.9
"""Of the rate of memory, of weights that stream."""
_UNIT_BYTES_A_CLOCK = 40.0
"""Most bytes that a multiprocessor is fed."""


def estimated_seconds(tiling: FewRowsTiling, target: Target) -> float:
    """Roughly the seconds: what memory gives, or what the busiest multiprocessor is fed."""
    work, config = tiling.workload, tiling.config
    resident = max(1, tiling.resident(target))
    busiest = -(-tiling.blocks // target.units)
    weights = tiling.split_pieces * config.tiles * PIECE_BYTES
    x = work.m * work.k * element(work.in_dtype).bytes / config.splits
    under_way = min(resident, busiest) * config.warps * config.depth * config.tiles * PIECE_BYTES
    rate = min(_UNIT_BYTES_A_CLOCK * target.clock_hz, under_way / _LATENCY_SECONDS)
    fed = busiest * (weights + x) / rate
    memory = work.n * work.k / (_MEMORY_SHARE * target.memory_rate)
    finish = 0.0
    if config.splits > 1:
        moved = 2 * tiling.blocks * tiling.part_words * 4
        finish = _FINISH_SECONDS + moved / target.memory_rate
    return _START_SECONDS + max(fed, memory) + finish


def features(tiling: FewRowsTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    resident = max(1, tiling.resident(target))
    waves = tiling.blocks / (target.units * resident)
    return {
        "waves": waves,
        "balance": tiling.blocks / target.units / -(-tiling.blocks // target.units),
        "smem_bytes": float(tiling.smem_bytes),
        "registers": float(tiling.registers),
        "warp_pieces": tiling.split_pieces / tiling.config.warps,
        "estimate": estimated_seconds(tiling, target),
    }
