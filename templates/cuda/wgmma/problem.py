"""What the wgmma pipeline is given: a convolution, a target and a way of loading pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.memory.tma import MAX_BOX
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.cuda.wgmma.loads import Load
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target

LoadOf = Callable[[PipelineConfig], Load]


@dataclass(frozen=True)
class Problem:
    """A convolution for one way of loading; `load_of` gives the load of a configuration."""

    workload: Conv2d
    target: Target
    load_of: LoadOf
    max_rows: int = MAX_BOX
    consecutive: bool = True
    """Whether a tile's rows are consecutive pixels."""
    streams: bool = False
    """Whether blocks may share tiles out, by the stages of their reductions."""
    alone: bool = False
    """Whether it is one product of matrices, whose kernel has the fewest addresses to keep."""
    expands: bool = False
    """Whether outputs become rows of y by way of shared memory."""
    products: int = 1
    """As many products side by side have the workload's channels, and tiles of their own."""

    @property
    def taps(self) -> int:
        return self.workload.r * self.workload.s

    @property
    def channel_bytes(self) -> int:
        """Bytes of a pixel's channels."""
        return self.workload.c * element(self.workload.in_dtype).bytes

    def tiles(self, config: PipelineConfig) -> int:
        channels = self.workload.k // self.products
        return self.load_of(config).m_tiles * self.products * ceil_div(channels, config.block_n)

    def resident(self, config: PipelineConfig) -> int:
        """Blocks that run at once."""
        return self.target.units * config.blocks_per_unit
