"""Estimated time of a panel kernel's configuration, and features for the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from autoq.templates.cuda.sparse.config import PanelTiling
from autoq.templates.hardware import FITTED_CLOCK_HZ, SMEM_BYTES_A_CLOCK
from autoq.templates.target import Target

# Instructions are counted in SASS; the rest is fitted to the times of 600 configurations on an
# H100, of which the estimates are off by a fifth.
_ISSUES_A_CLOCK = 4.0
_STEP_INSTRUCTIONS, _BYTE_INSTRUCTIONS = 9, 0.375
"""Instructions of a warp for a step, and more for each byte of a row of the panel."""
_UNSTAGED_INSTRUCTIONS = 2.0
"""The latter where rows are gathered from b itself."""
_NIBBLE_INSTRUCTIONS, _NIBBLE_PRODUCTS = 1.625, 0.125
"""The latter where a panel has nibbles as they are, by count, and of these a digit's products."""
_GROUP_INSTRUCTIONS = 100
_L2_BYTES_A_CLOCK = 28.0
"""Bytes from the L2 that reach a multiprocessor."""
_DELIVERED_BYTES = 640
"""What a step's vectors and places cost of the way that gathers take too: there and back."""
_CONFLICTS = 0.26
"""Gathers more where no row has a second place: 448 random rows of 4096."""
_STEP_CLOCKS, _READ_CLOCKS = 220.0, 740.0
"""Clocks of a warp from one step to the next in shared memory, and from the L2 to registers."""
_GROUP_CLOCKS = 280.0
_START_CLOCKS = 5300.0
_PANEL_CLOCKS = 1300.0
"""Clocks until the first pieces of a panel are there, and behind it all warps."""
_UNSTAGED_BYTES, _UNSTAGED_TURNS = 0.8, 2.0
"""What a gathered byte costs of the L2, of which an L1 holds some, and of shared memory's way."""
_OVERLAP = 0.13
"""The share that is paid for of what is hidden behind something slower."""
_L2_SHARE = 0.6
"""The share of an H100's L2 that may be full: what is more keeps vectors there only where outputs
leave it first."""
_STREAMED_GAIN, _STREAMED_COST = 0.05, 0.01
"""Shares of the time, where outputs leave the L2 first:
of products of more bytes, and of others."""
_PLACE_BYTES, _VALUE_BYTES = 64, 256


def estimated_seconds(tiling: PanelTiling, target: Target) -> float:
    """Roughly the seconds: waves of blocks, each as long as what is slowest in it."""
    config, workload = tiling.config, tiling.workload
    resident = max(1, tiling.resident(target))
    here = min(resident, -(-tiling.blocks // target.units))
    waves = -(-tiling.blocks // (target.units * here))
    steps, groups = tiling.steps / config.parts, tiling.groups / config.parts
    copied = min(1.0, 3 * tiling.copied_rows / workload.k)
    gathered = steps * tiling.step * tiling.row_bytes * (1 + _CONFLICTS * (1 - copied))
    each = _BYTE_INSTRUCTIONS if config.staged else _UNSTAGED_INSTRUCTIONS
    if tiling.digit_bits == 4:
        each = _NIBBLE_INSTRUCTIONS + _NIBBLE_PRODUCTS * tiling.left_digits
    issue = steps * (_STEP_INSTRUCTIONS + each * tiling.row_bytes)
    # A round of steps that are read ahead is gone through again where a group ends in it.
    issue *= 1 + config.prefetch * groups / steps / 2
    issue += groups * _GROUP_INSTRUCTIONS * config.columns / 32
    panel = workload.k * tiling.row_bytes if config.staged else 0
    bytes_read = steps * (_PLACE_BYTES + _VALUE_BYTES * tiling.left_digits) + panel
    moved = gathered + steps * (_DELIVERED_BYTES * tiling.left_digits) + tiling.panel_bytes
    if not config.staged:
        bytes_read += _UNSTAGED_BYTES * gathered
        moved *= _UNSTAGED_TURNS
    step = _STEP_CLOCKS if config.staged else _READ_CLOCKS
    latency = steps / config.warps * max(step, _READ_CLOCKS / config.prefetch)
    latency += groups / config.warps * _GROUP_CLOCKS
    busy = max(issue / _ISSUES_A_CLOCK, bytes_read / _L2_BYTES_A_CLOCK, moved / SMEM_BYTES_A_CLOCK)
    filling = panel / _L2_BYTES_A_CLOCK + (tiling.panel_bytes - panel) / SMEM_BYTES_A_CLOCK
    filling += _PANEL_CLOCKS * config.staged
    lesser, greater = sorted((here * busy, latency))
    clocks = _START_CLOCKS + waves * (greater + _OVERLAP * lesser + here * filling)
    if config.streamed:
        much = workload.bytes > _L2_SHARE * target.l2_bytes
        clocks *= 1 - _STREAMED_GAIN if much else 1 + _STREAMED_COST
    return max(clocks / FITTED_CLOCK_HZ, workload.bytes / target.memory_rate)


def features(tiling: PanelTiling, target: Target) -> Mapping[str, float]:
    """What the cost model learns from beside the knobs."""
    resident = max(1, tiling.resident(target))
    return {
        "blocks": float(tiling.blocks),
        "waves": tiling.blocks / (target.units * resident),
        "resident": float(resident),
        "smem_bytes": float(tiling.smem_bytes),
        "registers": float(tiling.registers),
        "steps_a_warp": tiling.steps / (tiling.config.parts * tiling.config.warps),
        "seconds_estimate": estimated_seconds(tiling, target),
    }
