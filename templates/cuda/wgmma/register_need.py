"""Registers that a consumer of the wgmma pipeline needs."""

from __future__ import annotations

from autoq.templates.arrays.element import element
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d

# Beside accumulators and residuals: addresses, descriptors and one group of the epilogue (ptxas
# 13.0 spills none of the sampled kernels at this margin).
_OTHER_REGISTERS = 56

# What numbers of a run and sums of weights take: up to 16 bytes were spilled where they had none.
_DYNAMIC_REGISTERS = 8

# What values that become bytes take: up to 88 were spilled where they had none.
_RANGE_REGISTERS = 16

# What the walk of shares takes.
_SHARE_REGISTERS = 24


def consumer_registers(epilogue: Epilogue, config: PipelineConfig) -> int:
    """Registers of a consumer thread: accumulators, residuals that wait, and what else it needs."""
    residual = epilogue.residual_dtype
    size = element(residual).bytes if residual else 0
    waiting = config.accumulators * size // 4 if config.residual_early else 8 * size
    sums = 2 if epilogue.scale_group else 1
    used = sums * config.accumulators + waiting + _OTHER_REGISTERS
    used += _DYNAMIC_REGISTERS * epilogue.dynamic + _RANGE_REGISTERS * epilogue.by_range
    return used + _SHARE_REGISTERS * config.stream_k


def reallocates(workload: Conv2d, config: PipelineConfig) -> bool:
    """Whether consumers need more registers than a thread has at launch.

    A block that does not takes only what its threads need, and leaves the rest of a multiprocessor
    to blocks of the kernels before and behind it (docs/notes/launches.md). Only networks of matrix
    products were measured so: convolutions of images always reallocate.
    """
    of_matrices = workload.h == workload.w == 1
    needed = consumer_registers(workload.epilogue, config)
    return not of_matrices or needed > config.registers.launch
