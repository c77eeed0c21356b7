"""Estimated time of a product that is 2:4 inside tiles on mma.sp."""

from __future__ import annotations

from autoq.templates.cuda.device.mma.sparse_fragments import FRAGMENT_BYTES
from autoq.templates.cuda.pruned.picked_mma_sync.cost import latency_clocks, waiting
from autoq.templates.cuda.pruned.tile_two_four.config import STEP_BYTES, TileTwoFourTiling
from autoq.templates.hardware import GUESSED_CLOCK_HZ, L2_BYTES_A_CLOCK, SMEM_BYTES_A_CLOCK
from autoq.templates.sparse.two_four import GROUP
from autoq.templates.target import Target

_CONFLICTS = 1.2
"""Times that a read of picked words takes, for words of other lanes in the same bank."""
_STEP_CLOCKS = 120.0
"""Clocks of a warp's step, from its words to its first product."""
_VALUE_CLOCKS = 0.15
_APART = 1.0
"""Times the square of the share of k that is not kept: by so much chunks of bytes are more than the
groups of a tile of random rows, some of which lie in three words: 8% at 0.71 kept, 30% at 0.45."""
_SIDE_BY_SIDE = 0.3
"""Share of its time that a tile takes longer for each other one of its block, which waits for the
same stages of x: 161 us for bytes and 297 for floats on an H200, where one tile of as many warps
and twice the rows, also alone, takes 137 and 236."""


def steps_of_tile(tiling: TileTwoFourTiling) -> float:
    """Steps that a tile has in the mean."""
    cut, view = tiling.cut, tiling.operand.view
    beside = view.sparsity.beside
    assert beside is not None
    kept = min(1.0, view.sparsity.structure.blocks / max(1, view.tiles) / view.k)
    groups = beside.blocks / max(1, view.tiles)
    grown = 1 + _APART * (1 - kept) ** 2 if cut.size == 1 else 1.0
    chunks = STEP_BYTES // cut.size // GROUP
    return max(groups * grown / chunks, cut.k_stages / 2)


def estimated_seconds(tiling: TileTwoFourTiling, target: Target) -> float:
    """Roughly the seconds: the mean tile's steps and outputs, times the turns of blocks.

    It is no fit; it puts what is moved and multiplied in an order.
    """
    config, cut, view = tiling.config, tiling.cut, tiling.operand.view
    blocks = max(1, tiling.resident(target))
    resident = blocks * config.sides
    turns = -(-tiling.blocks * config.sides // (target.units * resident)) * resident
    steps = steps_of_tile(tiling)
    rate = target.rate(view.workload.in_dtype, sparse=True) or 6e14
    depth = STEP_BYTES // cut.size
    clocks = target.units * GUESSED_CLOCK_HZ / rate
    product = 2 * config.rows * cut.width * depth * steps * clocks
    words = config.rows // 8 * 4 * 2 * _CONFLICTS * steps
    weights = cut.blocks_n * FRAGMENT_BYTES + cut.metadata_words * 128
    x_bytes = cut.k_stages * cut.x_stage_bytes / config.sides
    written = x_bytes + steps * cut.weight_bytes
    moved = words + (config.warps * weights * steps + written) / SMEM_BYTES_A_CLOCK
    alone = steps * _STEP_CLOCKS * tiling.blocks_m / resident
    outputs = config.rows * view.n / cut.tiles * _VALUE_CLOCKS
    latency = latency_clocks(tiling, steps, config.stages - 1 - config.ahead) / blocks
    slowest = max(product, moved, written / L2_BYTES_A_CLOCK, latency / config.sides)
    block = slowest + alone + outputs / resident
    together = 1 + _SIDE_BY_SIDE * (config.sides - 1)
    return turns * block * together * waiting(tiling, blocks) / GUESSED_CLOCK_HZ
