"""Convolution with wgmma that fetches a box of output pixels once for each filter tap by TMA."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.memory.tma import MAX_BOX, MAX_ELEMENT_STRIDE
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.device.wgmma_workloads import supported
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.cuda.wgmma.default import default_config
from autoq.templates.cuda.wgmma.kernel.pipeline import build_pipeline
from autoq.templates.cuda.wgmma.loads import PixelBox, TapLoad
from autoq.templates.cuda.wgmma.pack import pack, packed, packs_by
from autoq.templates.cuda.wgmma.plan import Extras, PipelinePlan
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.cuda.wgmma.space import make_space
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from autoq.templates.workload import Workload

_BLOCKS_M = (64, 128, 192, 256, 384)
_TILES_PER_BLOCK = 4
_LARGEST_BLOCK = 576


@dataclass(frozen=True)
class TapConfig(PipelineConfig):
    """Knobs of the pipeline over boxes of output pixels.

    tile: box of output pixels of a block.
    """

    tile: PixelBox

    @property
    def m_blocks(self) -> int:
        """64-row blocks of a warpgroup that hold its part of the tile."""
        return ceil_div(self.tile.pixels, 64 * self.row_team)


def matches(workload: Workload, target: Target) -> bool:
    """Dense convolutions with strides that TMA's element strides can express."""
    return (
        isinstance(workload, Conv2d)
        and supported(workload, target)
        and max(workload.stride) <= MAX_ELEMENT_STRIDE
    )


def _extents(size: int) -> list[int]:
    """Even cuts of an extent, and the powers of two below it."""
    cuts = {ceil_div(size, parts) for parts in range(1, min(size, 64) + 1)}
    return sorted(cuts | {2**i for i in range(8) if 2**i <= size})


def tiles(workload: Conv2d) -> tuple[PixelBox, ...]:
    """Boxes of output pixels that waste least, a few for each block_m."""
    stride_h, stride_w = workload.stride
    extents = itertools.product(
        [e for e in _extents(workload.n) if e <= 16],
        [e for e in _extents(workload.p) if e * stride_h <= MAX_BOX],
        [e for e in _extents(workload.q) if e * stride_w <= MAX_BOX],
    )
    boxes = [box for box in itertools.starmap(PixelBox, extents) if box.pixels <= _BLOCKS_M[-1]]
    chosen: dict[PixelBox, None] = {}
    for block_m in _BLOCKS_M:
        fitting = [box for box in boxes if 0 <= block_m - box.pixels < 64]
        fitting.sort(key=lambda box: (_computed(workload, box, block_m), box.images, -box.columns))
        chosen.update(dict.fromkeys(fitting[:_TILES_PER_BLOCK]))
    return tuple(sorted(chosen))


def _computed(workload: Conv2d, box: PixelBox, block_m: int) -> int:
    """Rows that the tiles of a box compute."""
    return math.prod(box.counts(workload)) * block_m


def _load(workload: Conv2d, config: TapConfig) -> TapLoad:
    layout = config.layout(workload)
    return TapLoad(workload, layout, config.block_m, config.tile)


def _problem(workload: Conv2d, target: Target) -> Problem:
    return Problem(
        workload,
        target,
        lambda config: _load(workload, config),
        max_rows=_LARGEST_BLOCK,
        consecutive=False,
    )


def tile_divides_among_team(config: TapConfig) -> bool:
    """the tile's 64-row blocks divide evenly among its warpgroups, three at most for each"""
    blocks = ceil_div(config.tile.pixels, 64)
    return blocks % config.row_team == 0 and blocks <= 3 * config.row_team


def space(workload: Conv2d, target: Target) -> Space[TapConfig]:
    """Legal tiles, pipelines and schedules."""
    extra = {"tile": tiles(workload)}
    return make_space(_problem(workload, target), TapConfig, extra, [tile_divides_among_team])


def default(workload: Conv2d, target: Target) -> TapConfig:
    """The configuration with the least estimated time."""
    return default_config(_problem(workload, target), space(workload, target))


def build(workload: Conv2d, config: TapConfig, target: Target, ahead: int = 0) -> PrimFunc:
    """The kernel of a configuration; parameters as `build_pipeline` says."""
    load = _load(workload, config)
    plan = PipelinePlan(workload, config, load.layout, load, target, extras=Extras(ahead=ahead))
    return build_pipeline(plan, workload.x_shape, workload.y_shape)


TEMPLATE = Template(
    "conv2d_tap", 6, matches, space, default, build, pack, packed, preference=50, looks_ahead=True,
    packs_by=packs_by,
)  # fmt: skip
