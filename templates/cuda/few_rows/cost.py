"""Estimated time of a product of few rows, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.arrays.element import element
from autoq.templates.cuda.few_rows.config import PIECE_BYTES, FewRowsTiling
from autoq.templates.target import Target

# Fitted to 115 configurations of twelve products on an H200 whose weights come from memory.
_START_SECONDS, _ROW_SECONDS, _FINISH_SECONDS = 1.6e-6, 0.03e-6, 1.1e-6
"""Of a launch that has nothing to do, of each row of x, and of the last block of a group, which
adds what others gave."""
_CODE_SECONDS = 0.02e-6
"""Of each instruction of the loop's body that loads or multiplies, which no cache holds yet."""
_WAVE_SECONDS = 1.4e-6
"""From the end of some blocks until those behind them are fed."""
_FIRST_SECONDS, _ROUND_SECONDS = 0.9e-6, 1.15e-6
"""From asking for weights until all of them are there that a warp has under way: when nothing else
is asked for, and while memory is busy."""
_SINGLE_TIMES = 1.45
"""How many times as long that takes a warp with one piece of one tile under way: 1x4096x25088 took
40 us by 16 such warps."""
_MEMORY_SHARE = 0.96
"""Of the rate of memory, of weights that stream."""
_UNIT_BYTES_A_CLOCK = 30.0
"""Most bytes that a multiprocessor is fed."""


def estimated_seconds(tiling: FewRowsTiling, target: Target) -> float:
    """Roughly the seconds: what memory gives, or what the busiest multiprocessor is fed."""
    work, config = tiling.workload, tiling.config
    busiest = -(-tiling.blocks // target.units)
    weights = tiling.split_pieces * config.tiles * PIECE_BYTES
    x = work.m * work.k * element(work.in_dtype).bytes / config.splits
    fed = busiest * (weights + x) / (_UNIT_BYTES_A_CLOCK * target.clock_hz)
    rounds = max(1.0, tiling.split_pieces / (config.warps * config.depth))
    waves = -(-busiest // max(1, tiling.resident(target)))
    times = _SINGLE_TIMES if config.depth * config.tiles == 1 else 1.0
    waited = waves * (_FIRST_SECONDS + (rounds - 1) * _ROUND_SECONDS * times)
    memory = work.n * work.k / (_MEMORY_SHARE * target.memory_rate)
    finish = _FINISH_SECONDS if config.splits > 1 else 0.0
    code = config.depth * (config.tiles * (2 + 2 * tiling.column_tiles) + tiling.column_tiles)
    others = work.m * _ROW_SECONDS + code * _CODE_SECONDS + (waves - 1) * _WAVE_SECONDS + finish
    return _START_SECONDS + max(fed, waited, memory) + others


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
        "seconds_estimate": estimated_seconds(tiling, target),
    }
