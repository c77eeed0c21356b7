"""Estimated time of a tile-wise kernel's configuration, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.pruned.tile_wise.config import TileWiseTiling
from autoq.templates.cuda.pruned.tile_wise.tiling import InstructionTiling
from autoq.templates.hardware import L2_BYTES_A_CLOCK, SMEM_BYTES_A_CLOCK
from autoq.templates.target import Target

"""Bytes from the L2 that reach a multiprocessor."""
_GATHERED_BYTES_A_CLOCK, _COPIED_BYTES_A_CLOCK = 20.0, 43.0
"""Bytes that reach a multiprocessor in pieces of 16 bytes, and in one bulk copy of weights."""
_SWIZZLED = 0.85
"""The share of the time of gathers that is left where rows in shared memory begin with lines."""
_SHARED = 0.9
"""The share of the weights' time that is left where they come to all blocks of a cluster."""
_FUSED = 1.2
"""Times the time that turning takes, where it meets the gathers of the product."""
_LONE = 1.05
"""Times a stage's time, where no other warpgroup multiplies while one waits for its fragments."""
ITEM_CLOCKS = 1500.0
VALUE_CLOCKS = 0.15
"""Clocks of a multiprocessor for each output."""
_START_CLOCKS = 6000.0


def estimated_seconds(tiling: TileWiseTiling, target: Target) -> float:
    """Roughly the seconds: the mean item's stages and outputs, times the waves of items."""
    view, config = tiling.view, tiling.config
    grid = target.units * config.blocks
    rounds = -(-tiling.items * config.cluster // grid)
    kept = view.sparsity.structure.blocks / max(1, view.tiles) / view.k
    # A row is gathered where any of the joined tiles keeps it.
    stages = (1 - (1 - min(1.0, kept)) ** config.joined) * view.k / tiling.stage_rows
    k_bytes = config.depth * 32
    # A product of 64 x width x 32 bytes takes width / 2 clocks.
    product = k_bytes / 32 * config.rows / 64 * max(tiling.width, 32) / 2
    fetched = config.rows * k_bytes + tiling.weight_stage_bytes / config.cluster
    gathered = config.rows * k_bytes + tiling.weight_stage_bytes
    read = config.rows / 64 * k_bytes * (tiling.width + 64)
    # Bulk copies of rows go the same way as pieces, and are slower.
    gathering = config.rows * k_bytes / _GATHERED_BYTES_A_CLOCK * (1 + 0.05 * config.bulk)
    gathering *= _SWIZZLED if config.swizzled else 1.0
    shared = _SHARED if config.cluster > 1 else 1.0
    gathering += tiling.weight_stage_bytes / _COPIED_BYTES_A_CLOCK * shared
    moved = (gathered + read) / SMEM_BYTES_A_CLOCK
    stage = max(product, fetched / L2_BYTES_A_CLOCK, moved, gathering)
    if config.consumers * config.blocks == 1:
        stage *= _LONE
    hidden = 0.5 if config.blocks > 1 or config.helped else 1.0
    columns = view.n / tiling.tiles
    outputs = config.rows * columns * VALUE_CLOCKS * hidden
    item = stages * stage * (1 + 0.6 / config.stages) + outputs + ITEM_CLOCKS * hidden
    turning = 2 * view.m * view.k * tiling.size / target.memory_rate
    turning *= _FUSED if config.fused else 1.0
    return turning + (_START_CLOCKS + rounds * config.blocks * item) / target.clock_hz


def features(tiling: TileWiseTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    return features_of(tiling, target, estimated_seconds(tiling, target))


def features_of(tiling: InstructionTiling, target: Target, estimate: float) -> Mapping[str, float]:
    """Features of any kernel whose persistent blocks take pieces of tiles; estimate: seconds."""
    return {
        "waves": tiling.items * tiling.config.cluster / (target.units * tiling.config.blocks),
        "smem_bytes": float(tiling.smem_bytes),
        "sums": float(tiling.sums),
        "threads": float(tiling.threads),
        "seconds_estimate": estimate,
    }
