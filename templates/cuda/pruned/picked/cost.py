"""Estimated time of a configuration of the kernel that picks, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.device.mma.wgmma import K_BYTES
from autoq.templates.cuda.device.turned.row_steps import DEPTH, window_stages
from autoq.templates.cuda.pruned.picked.config import PickedTiling
from autoq.templates.cuda.pruned.tile_wise.cost import (
    ITEM_CLOCKS,
    VALUE_CLOCKS,
    features_of,
)
from autoq.templates.hardware import SMEM_BYTES_A_CLOCK
from autoq.templates.target import Target

_L2_BYTES_A_CLOCK = 43.0
"""Bytes from the L2 that reach a multiprocessor in large copies."""
_LATENCY_CLOCKS = 2400.0
"""The latency of the L2 while all multiprocessors read: what is under way at once limits what
arrives."""
_PIXELS_LATENCY_CLOCKS = 1500.0
"""The same of what taps of a filter see, most of which others have just read."""
_CONFLICTS = 1.2
"""Times that a read of picked words takes, for words of other lanes in the same bank."""
_SPARSE_BYTES = 0.25
"""The share of a step's places that also stay empty where only every other
byte's word is filled."""
_STEP_CLOCKS = 270.0
"""Clocks of a step of those who pick, from its words to its product, whatever else goes on."""
_BORDERED_STEP_CLOCKS = 350.0
_TURNED_STEP_CLOCKS = 100.0
"""The same of rows of x turned, for each 64 rows of y."""
_ROW_CONFLICTS = 1.3
"""Times that a read of rows of x turned takes, for rows of other lanes in the same banks."""
_START_CLOCKS = 5000.0


def estimated_seconds(tiling: PickedTiling, target: Target) -> float:
    """Roughly the seconds: the mean item's steps and outputs, times the waves of items."""
    view, config = tiling.view, tiling.config
    grid = target.units * config.blocks
    rounds = -(-tiling.items * config.cluster // grid)
    steps = steps_of_tile(tiling) * config.sides
    instructions = steps * config.splits * tiling.blocks_m
    step_bytes = K_BYTES * tiling.width
    # A product of 64 x width x 32 bytes takes width / 2 clocks.
    product = instructions * max(tiling.width, 32) / 2
    x_bytes = tiling.k_stages * tiling.x_stage_bytes
    moved = (x_bytes + steps * step_bytes + instructions * step_bytes) / SMEM_BYTES_A_CLOCK
    if config.turned:  # a matrix of eight rows in a turn
        moved += instructions * 4 * 4 * _ROW_CONFLICTS
    elif config.picked:  # eight words of a lane of four warps for an instruction
        moved += instructions * 4 * 8 * _CONFLICTS + steps * config.splits * 4
    fetched = (x_bytes + steps * step_bytes) / _bytes_a_clock(tiling)
    busy = max(product, moved, fetched)
    if config.picked:
        each = _BORDERED_STEP_CLOCKS if config.bordered else _STEP_CLOCKS
        each = _TURNED_STEP_CLOCKS * tiling.blocks_m if config.turned else each
        busy = max(busy, steps_of_tile(tiling) * each / config.blocks)
    columns = view.n / tiling.groups
    outputs = config.rows * columns * VALUE_CLOCKS
    if config.teams > 1:  # outputs are stored behind another team's products, but for the last ones
        clocks = rounds * max(busy, (busy + outputs + ITEM_CLOCKS) / 2) + outputs
    else:
        hidden = 0.5 if config.blocks > 1 or config.helped else 1.0
        clocks = rounds * config.blocks * (busy + (outputs + ITEM_CLOCKS) * hidden)
    turning = 2 * view.m * view.k * tiling.size / target.memory_rate
    return (_START_CLOCKS + clocks) / target.clock_hz + turning * config.turned


def _bytes_a_clock(tiling: PickedTiling) -> float:
    """That arrive at a multiprocessor: at most what is under way, each latency again."""
    config = tiling.config
    held_x, held = (2.0, 2.0) if config.picked else (1.0, 1.0)
    if config.turned:
        held_x = window_stages(config.x_stages)
    x = max(0.5, config.x_stages - held_x) * tiling.x_stage_bytes
    weights = config.sides * max(0.5, config.stages - held) * tiling.weight_bytes
    pixels = tiling.operand.images is not None and not config.bordered
    latency = _PIXELS_LATENCY_CLOCKS if pixels else _LATENCY_CLOCKS
    return min(_L2_BYTES_A_CLOCK, config.blocks * (x + weights) / latency)


def steps_of_tile(tiling: PickedTiling) -> float:
    """Reductions of one instruction that a tile has in the mean."""
    view, config = tiling.view, tiling.config
    every = tiling.k_stages * tiling.picked_bytes / K_BYTES
    if not config.picked:
        return every
    kept = min(1.0, view.sparsity.structure.blocks / max(1, view.tiles) / view.k)
    # A row is multiplied where any of the joined tiles keeps it.
    share = 1 - (1 - kept) ** config.joined
    if config.turned:
        return max(share * view.k * tiling.size / K_BYTES, float(DEPTH))
    if tiling.size == 1 and share < 0.5:
        share += _SPARSE_BYTES * (0.5 - share)
    # Stages that a step reads are the newest two.
    return max(share * every, tiling.k_stages / 2)


def features(tiling: PickedTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    return features_of(tiling, target, estimated_seconds(tiling, target))
