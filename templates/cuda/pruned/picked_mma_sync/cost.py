"""Estimated time of a product that picks on mma.sync, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.device.mma.wgmma import K_BYTES
from autoq.templates.cuda.pruned.picked.cost import steps_of_tile
from autoq.templates.cuda.pruned.picked_mma_sync.config import DEPTH, BlockTiling, PickedMmaTiling
from autoq.templates.hardware import GUESSED_CLOCK_HZ, L2_BYTES_A_CLOCK, SMEM_BYTES_A_CLOCK
from autoq.templates.target import Target

_CONFLICTS = 1.2
_STEP_CLOCKS = 60.0
"""Clocks of a warp's step, from its words to its first product."""
_VALUE_CLOCKS = 0.15
_WARPS_THAT_HIDE = 8
"""Of a multiprocessor. Fewer take longer, as each waits for what it reads: four 1.5 times as long
for 16-bit floats on an H200."""
_ALONE = 1.12
"""How many times as long a block alone takes, all of whose warps wait at the same barriers: eight
warps of an H200 took 1.08 to 1.13 times as long in one block as in two."""

_LATENCY_CLOCKS = 1000.0
"""From the L2 to shared memory."""


def latency_clocks(tiling: BlockTiling, stages: float, under_way: int) -> float:
    """Clocks that a block waits for copies of so many stages of weights.

    under_way: stages of weights that are copied at a time; of x all but those that are read are.
    """
    ahead = (tiling.config.x_stages - 1.5) * stages / tiling.cut.k_stages
    return stages * _LATENCY_CLOCKS / min(ahead, under_way)


def waiting(tiling: BlockTiling, resident: int) -> float:
    """How many times as long warps take that are too few to hide what they wait for."""
    few = max(1.0, _WARPS_THAT_HIDE * 32 / (tiling.threads * resident))
    return few * (_ALONE if resident == 1 else 1.0)


def estimated_seconds(tiling: PickedMmaTiling, target: Target) -> float:
    """Roughly the seconds: the mean tile's steps and outputs, times the turns of blocks.

    It is no fit; it puts what is moved and multiplied in an order.
    """
    config, cut, view = tiling.config, tiling.cut, tiling.operand.view
    resident = max(1, tiling.resident(target))
    turns = -(-tiling.blocks // (target.units * resident)) * resident
    steps = steps_of_tile(cut)
    values = K_BYTES // cut.size
    rate = target.rate(view.workload.in_dtype) or 3e14
    product = 2 * config.rows * cut.width * values * steps * target.units * GUESSED_CLOCK_HZ / rate
    instructions = config.rows // 16 * steps
    columns = config.warps * cut.width * K_BYTES * steps
    moved = instructions * 8 * _CONFLICTS + columns / SMEM_BYTES_A_CLOCK
    bytes_in = cut.k_stages * cut.x_stage_bytes + steps * cut.width * K_BYTES
    alone = steps * _STEP_CLOCKS * tiling.blocks_m / resident
    outputs = config.rows * view.n / cut.tiles * _VALUE_CLOCKS
    latency = latency_clocks(tiling, steps / DEPTH, config.stages - 1) / resident
    block = max(product, moved, bytes_in / L2_BYTES_A_CLOCK, latency) + alone + outputs / resident
    return turns * block * waiting(tiling, resident) / GUESSED_CLOCK_HZ


def features(tiling: PickedMmaTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    return features_of(tiling, target, estimated_seconds(tiling, target))


def features_of(tiling: BlockTiling, target: Target, estimate: float) -> Mapping[str, float]:
    """Those of a kernel that takes about so many seconds."""
    resident = max(1, tiling.resident(target))
    return {
        "waves": tiling.blocks / (target.units * resident),
        "smem_bytes": float(tiling.smem_bytes),
        "sums": float(tiling.sums),
        "resident": float(resident),
        "seconds_estimate": estimate,
    }
