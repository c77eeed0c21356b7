"""Convolution as an implicit GEMM over flattened output pixels: wgmma fed by TMA im2col loads.

Every filter tap's rows are fetched again, but tiles run over image and row ends without waste.
"""

from __future__ import annotations

from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.memory.tma import MAX_IM2COL_PIXELS
from autoq.templates.cuda.device.wgmma_workloads import supports_im2col
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.cuda.wgmma.default import default_config
from autoq.templates.cuda.wgmma.kernel.pipeline import build_pipeline
from autoq.templates.cuda.wgmma.loads import Im2colLoad
from autoq.templates.cuda.wgmma.pack import pack, packed, packs_by
from autoq.templates.cuda.wgmma.plan import Extras, PipelinePlan
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.cuda.wgmma.space import make_space
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def matches(workload: Workload, target: Target) -> bool:
    """Dense convolutions whose strides, corners and taps an im2col tensor map can express."""
    return isinstance(workload, Conv2d) and supports_im2col(workload, target)


def _load(workload: Conv2d, config: WgmmaConfig) -> Im2colLoad:
    layout = config.layout(workload)
    return Im2colLoad(workload, layout, config.block_m)


def _problem(workload: Conv2d, target: Target) -> Problem:
    return Problem(
        workload, target, lambda config: _load(workload, config), max_rows=MAX_IM2COL_PIXELS
    )


def space(workload: Conv2d, target: Target) -> Space[WgmmaConfig]:
    """Legal tiles, pipelines and schedules."""
    return make_space(_problem(workload, target), WgmmaConfig)


def default(workload: Conv2d, target: Target) -> WgmmaConfig:
    """The configuration with the least estimated time."""
    return default_config(_problem(workload, target), space(workload, target))


def build(workload: Conv2d, config: WgmmaConfig, target: Target, ahead: int = 0) -> PrimFunc:
    """The kernel of a configuration; parameters as `build_pipeline` says."""
    load = _load(workload, config)
    plan = PipelinePlan(workload, config, load.layout, load, target, extras=Extras(ahead=ahead))
    return build_pipeline(plan, workload.x_shape, workload.y_shape)


TEMPLATE = Template(
    "conv2d_im2col", 6, matches, space, default, build, pack, packed, preference=60,
    looks_ahead=True, packs_by=packs_by,
)  # fmt: skip
