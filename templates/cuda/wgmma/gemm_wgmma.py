"""Matrix products and 1x1 convolutions of stride 1 with Hopper wgmma, activations by 2-D TMA."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.dependent_launch import gains_by_overlapping
from autoq.templates.cuda.device.launch.grid_range import range_words
from autoq.templates.cuda.device.wgmma_workloads import supported, supports_sums
from autoq.templates.cuda.wgmma.config import WgmmaConfig
from autoq.templates.cuda.wgmma.default import default_config
from autoq.templates.cuda.wgmma.kernel.pipeline import build_pipeline
from autoq.templates.cuda.wgmma.loads import MatrixLoad
from autoq.templates.cuda.wgmma.pack import pack as pack_conv2d
from autoq.templates.cuda.wgmma.pack import packed as packed_conv2d
from autoq.templates.cuda.wgmma.pack import packs_by as packs_by_conv2d
from autoq.templates.cuda.wgmma.plan import Extras, PipelinePlan
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.cuda.wgmma.range_rules import tiles_meet
from autoq.templates.cuda.wgmma.space import make_space
from autoq.templates.cuda.wgmma.weighing import weighing_of
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload


def _as_conv2d(workload: Gemm | Conv2d) -> Conv2d:
    return workload.as_conv2d() if isinstance(workload, Gemm) else workload


# Of k: the least stage that scales of groups leave whole.
_GROUP_MULTIPLE = 32


def matches(workload: Workload, target: Target) -> bool:
    """Gemm with k a multiple of 16, scales by column; Conv2d that is a Gemm over its pixels.

    Of outputs that are quantised by their range no more than all multiprocessors hold at once.
    """
    if isinstance(workload, Conv2d):
        plain = workload.r == workload.s == 1 and workload.stride == (1, 1)
        return plain and not any(workload.padding) and supported(workload, target)
    if not isinstance(workload, Gemm) or workload.epilogue.scale_group % _GROUP_MULTIPLE:
        return False
    if workload.epilogue.by_range and not tiles_meet(workload, target):
        return False
    return supports_sums(workload.as_conv2d(), target)


def _load(workload: Conv2d, config: WgmmaConfig) -> MatrixLoad:
    return MatrixLoad(workload, config.layout(workload), config.block_m)


def _problem(workload: Gemm | Conv2d, target: Target) -> Problem:
    work = _as_conv2d(workload)
    alone = isinstance(workload, Gemm)
    streams = alone and not workload.epilogue.scale_group
    return Problem(work, target, lambda config: _load(work, config), streams=streams, alone=alone)


def space(workload: Gemm | Conv2d, target: Target) -> Space[WgmmaConfig]:
    """Legal tiles, pipelines and schedules."""
    return make_space(_problem(workload, target), WgmmaConfig)


def default(workload: Gemm | Conv2d, target: Target) -> WgmmaConfig:
    """The configuration with the least estimated time."""
    return default_config(_problem(workload, target), space(workload, target))


def build(
    workload: Gemm | Conv2d, config: WgmmaConfig, target: Target, ahead: int = 0
) -> PrimFunc | Program:
    """The kernel of a configuration; parameters as `build_pipeline` says."""
    work = _as_conv2d(workload)
    load = _load(work, config)
    overlaps = gains_by_overlapping(work.operations, target.int8_rate)
    extras = Extras(ahead=ahead, overlaps=overlaps)
    plan = PipelinePlan(work, config, load.layout, load, target, extras=extras)
    kernel = build_pipeline(plan, workload.x_shape, workload.y_shape)
    arrays = (*workload.inputs, *packed(workload, config))
    reads = tuple(spec.name for spec in arrays)
    if workload.epilogue.by_range:
        words = range_words(plan.grid)
        outputs = (*(spec.name for spec in workload.outputs), words.spec.name)
        return Program((Stage(kernel, reads, outputs),), (words,))
    if not config.stream_k:
        return kernel
    names = tuple(space.spec.name for space in plan.workspaces)
    return Program((Stage(kernel, (*reads, *names[:1]), (*names, "y")),), plan.workspaces)


def weighed(
    product: Gemm, config: WgmmaConfig, target: Target, rough: bool = False, ahead: int = 0
) -> Program | None:
    """The product to int32 that also says how large its rows and columns are; None where it cannot.

    rough: in single precision, where consumers share tiles; ahead as in `Template.program`. Besides
    the product's arrays it reads `a_scale` and `b_scale`, and writes those of `Weighing.parts`.
    """
    weighing = weighing_of(product, config, target, rough)
    if weighing is None:
        return None
    work = product.as_conv2d()
    load = _load(work, config)
    plan = PipelinePlan(work, config, load.layout, load, target, extras=Extras(weighing, ahead))
    kernel = build_pipeline(plan, product.x_shape, product.y_shape)
    arrays = (*product.inputs, *packed(product, config))
    reads = (*(spec.name for spec in arrays), "a_scale", "b_scale")
    parts = weighing.parts()
    stage = Stage(kernel, reads, ("y", *(spec.name for spec in parts)))
    return Program((stage,), tuple(map(Workspace, parts)))


def pack(
    workload: Gemm | Conv2d, config: WgmmaConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """Weights, bias, then scale and scalars unless the output is int32."""
    return pack_conv2d(_as_conv2d(workload), config, constants)


def packed(workload: Gemm | Conv2d, config: WgmmaConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_conv2d(_as_conv2d(workload), config)


def packs_by(workload: Gemm | Conv2d, config: WgmmaConfig) -> Hashable:
    """What `pack` makes of a configuration."""
    return packs_by_conv2d(_as_conv2d(workload), config)


TEMPLATE = Template(
    "gemm_wgmma", 6, matches, space, default, build, pack, packed, preference=90, dynamic=True,
    looks_ahead=True, packs_by=packs_by,
)  # fmt: skip
