"""Registers and shared memory of the mma.sync product's blocks, and how many fit together."""

from __future__ import annotations

from autoq.templates.cuda.device.launch.occupancy import blocks_that_fit
from autoq.templates.cuda.mixed.mma_sync.plan import copies_bypass_registers
from autoq.templates.cuda.mixed.mma_sync.tiling import UNIT_BYTES, MixedSyncTiling
from autoq.templates.target import Target

# Addresses, loop counters and predicates, and what the functions behind the sums take.
_OTHER_REGISTERS = 44
# sm_90 has no mma.sync of float8: ptxas 13.0 widens both factors to halves beforehand.
_WIDENED_REGISTERS = 28
# Scales of groups that ptxas 13.0 reads ahead where a stage has 128 values of k.
_LONG_STAGE, _SCALE_REGISTERS = 128, 4
# Places and values of a further input of results.
_INPUT_REGISTERS = 12


def registers(tiling: MixedSyncTiling, target: Target) -> int:
    """Estimate of the registers a thread needs."""
    config = tiling.config
    weights = 8 if tiling.workload.quantised else 4
    rows = weights + (4 if tiling.workload.group else 2)
    found = config.accumulators + 4 * config.column_tiles + rows * config.row_tiles
    if not copies_bypass_registers(tiling.workload, target):
        units = tiling.stage_bytes // UNIT_BYTES
        found += 4 * -(-units // config.threads)
    if tiling.workload.in_dtype == "float8_e4m3fn" and target.has_wgmma:
        found += _WIDENED_REGISTERS
    if tiling.workload.group and config.block_k == _LONG_STAGE:
        found += _SCALE_REGISTERS
    found += _INPUT_REGISTERS * (tiling.workload.x_scale + tiling.workload.residual)
    return found + _OTHER_REGISTERS


def resident(tiling: MixedSyncTiling, target: Target) -> int:
    """Blocks that share a multiprocessor, as far as there are so many."""
    threads = tiling.config.threads
    fitting = blocks_that_fit(tiling.smem_bytes, registers(tiling, target), threads, target)
    blocks = -(-tiling.tiles * tiling.config.split_k // target.units)
    return max(1, min(fitting, blocks))
